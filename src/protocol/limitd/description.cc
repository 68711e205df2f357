#include "protocol/limitd/commands.h"
#include "protocol/limitd/import.h"
#include "protocol/limitd/policy_files.h"
#include "protocol/limitd/rules.h"
#include "protocol/limitd/session.h"
#include "protocol/protocol.h"

namespace sluice::limitd {

namespace {

constexpr protocol::Command commands[] = {
    {"limitd", "serve a limitd configuration, in place of `limitd -c CONFIG`", serve, true},
    {"limitdctl", "ask a running server in limitdctl's flags and words", limitdctl}};

constexpr protocol::Ask ask_words = {
    .usage = "take|wait|put|reset|get|status TYPE KEY [COUNT], or ping",
    .example = {},
    .question = "take user 10.0.0.7",
    .command = {},
    .run = ask,
};

}  // namespace

constinit const protocol::Description description = {
    .name = "limitd",
    .title = "limitd",
    .port = 9231,
    .make_session =
        [](const request::Peer&) { return std::unique_ptr<request::Session>(new LimitdSession); },
    .dialect = &dialect,
    .ask = &ask_words,
    .commands = commands,
    .policy = &policy_format,
    .store = &store_tools,
};

}  // namespace sluice::limitd
