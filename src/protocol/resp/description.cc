#include "protocol/resp/commands.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/import.h"
#include "protocol/resp/session.h"
#include "protocol/resp/settings.h"

namespace sluice::resp {
namespace {

constexpr protocol::Command commands[] = {
    {"resp", "serve the Redis protocol with CL.THROTTLE, THROTTLE and GCRA", serve, true}};

constexpr protocol::Ask ask_words = {
    .usage = "take|charge|peek|put|reset|explain SUBJECT..., or a command",
    .example = {},
    .question = "cl.throttle user:17 4 10 60",
    .command = "echo cl.throttle user:17 4 10 60 | redis-cli -p ",
    .run = ask,
};

}  // namespace

constinit const protocol::Description description = {
    .name = "resp",
    .title = "RESP",
    .port = 6380,
    .host = "127.0.0.1",
    .make_session =
        [](const request::Peer& peer) {
          return std::unique_ptr<request::Session>(new RespSession(peer));
        },
    .authenticates = true,
    .wants_address = true,
    .dialect = &dialect,
    .ask = &ask_words,
    .commands = commands,
    .add_rules =
        [](const protocol::Settings* settings, request::Spaces& spaces, policy::RuleSet& rules) {
          add_throttle_rules(spaces, rules,
                             settings == nullptr
                                 ? RespOptions()
                                 : static_cast<const RespSettings&>(*settings).options);
        },
    .settings = &settings_format,
    .store = &store_tools,
};

}  // namespace sluice::resp
