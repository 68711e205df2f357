#include "protocol/http/commands.h"
#include "protocol/http/dialect.h"
#include "protocol/http/session.h"
#include "protocol/http/settings.h"
#include "protocol/http/worker_state.h"

namespace sluice::http {
namespace {

constexpr protocol::Command commands[] = {
    {"http", "serve HTTP with JSON bodies, and forward-auth for proxies", serve, true}};

constexpr protocol::Ask ask_words = {
    .usage = "take|charge|reserve|peek|put|reset|explain KEY=VALUE...",
    .example = {},
    .question = "take --key user:17 --limit 3/1h",
    .command = {},
    .run = ask,
};

}  // namespace

constinit const protocol::Description description = {
    .name = "http",
    .title = "HTTP",
    .port = 8390,
    .host = "127.0.0.1",
    .make_session =
        [](const request::Peer& peer) {
          return std::unique_ptr<request::Session>(new HttpSession(peer));
        },
    .make_worker_state = []() { return std::unique_ptr<request::WorkerState>(new HttpWorker); },
    .authenticates = true,
    .wants_address = true,
    .alpn = protocol::alpn_of_http,
    .dialect = &dialect,
    .ask = &ask_words,
    .commands = commands,
    .add_rules =
        [](const protocol::Settings* settings, request::Spaces& spaces, policy::RuleSet& rules) {
          add_request_rules(spaces, rules,
                            settings == nullptr
                                ? HttpOptions()
                                : static_cast<const HttpSettings&>(*settings).options);
        },
    .settings = &settings_format,
};

}  // namespace sluice::http
