#include "protocol/envoy/commands.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/metrics.h"
#include "protocol/envoy/policy_files.h"
#include "protocol/envoy/session.h"
#include "protocol/envoy/settings.h"
#include "protocol/envoy/worker_state.h"
#include "protocol/protocol.h"

namespace sluice::envoy {
namespace {

constexpr protocol::Command commands[] = {
    {"envoy", "serve Envoy's rate limit service, in place of `ratelimit`", serve, true,
     "ratelimit"}};

constexpr protocol::Ask ask_words = {
    .usage = "DOMAIN KEY=VALUE... [-- KEY=VALUE...]",
    .example = {},
    .question = {},
    .command = {},
    .run = ask,
};

}  // namespace

constinit const protocol::Description description = {
    .name = "envoy",
    .title = "Envoy",
    .port = 8081,
    .make_session =
        [](const request::Peer& peer) {
          return std::unique_ptr<request::Session>(new EnvoySession(peer));
        },
    .make_worker_state = []() { return std::unique_ptr<request::WorkerState>(new EnvoyWorker); },
    .authenticates = true,
    .wants_address = true,
    .alpn = protocol::alpn_of_http,
    .dialect = &dialect,
    .metrics = &own_metrics,
    .ask = &ask_words,
    .commands = commands,
    .policy = &policy_format,
    .settings = &settings_format,
};

}  // namespace sluice::envoy
