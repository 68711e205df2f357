#include "protocol/divvy/commands.h"
#include "protocol/divvy/dialect.h"
#include "protocol/divvy/metrics.h"
#include "protocol/divvy/session.h"
#include "protocol/protocol.h"

namespace sluice::divvy {

namespace {

constexpr protocol::Command commands[] = {
    {"divvy", "serve a Divvy configuration, in place of `node index.js CONFIG`", serve, true}};

constexpr protocol::Ask ask_words = {
    "key=value...",
    "method=GET path=/pantry/cookies ip=10.0.0.7\n  allowed: 2 left, all of them again in 1h", ask};

}  // namespace

extern const protocol::Description description;
constinit const protocol::Description description = {
    .name = "divvy",
    .port = 8321,
    .make_session = [] { return std::unique_ptr<request::Session>(new DivvySession); },
    .dialect = &dialect,
    .metrics = &own_metrics,
    .ask = &ask_words,
    .commands = commands,
};

}  // namespace sluice::divvy
