#include "protocol/divvy/commands.h"
#include "protocol/divvy/metrics.h"
#include "protocol/divvy/policy_files.h"
#include "protocol/divvy/rules.h"
#include "protocol/divvy/session.h"
#include "protocol/divvy/settings.h"
#include "protocol/protocol.h"

namespace sluice::divvy {

namespace {

constexpr protocol::Command commands[] = {
    {"divvy", "serve a Divvy configuration, in place of `node index.js CONFIG`", serve, true}};

constexpr protocol::Ask ask_words = {
    .usage = "key=value...",
    .example =
        "method=GET path=/pantry/cookies ip=10.0.0.7\n"
        "  allowed: 2 left, all of them again in 1h",
    .question = "method=GET path=/pantry/cookies ip=10.0.0.7",
    .command =
        "bash -c 'exec 3<>/dev/tcp/localhost/$0; "
        "echo \"HIT method=GET path=/pantry/cookies ip=10.0.0.7\" >&3; head -n 1 <&3' ",
    .run = ask,
};

}  // namespace

constinit const protocol::Description description = {
    .name = "divvy",
    .title = "Divvy",
    .port = 8321,
    .make_session =
        [](const request::Peer& peer) {
          return std::unique_ptr<request::Session>(new DivvySession(peer.strict));
        },
    .takes_strict = true,
    .dialect = &dialect,
    .metrics = &own_metrics,
    .ask = &ask_words,
    .commands = commands,
    .policy = &policy_format,
    .settings = &settings_format,
    .redis_prefix = "divvy:",
};

}  // namespace sluice::divvy
