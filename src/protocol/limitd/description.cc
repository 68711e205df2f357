#include "protocol/limitd/commands.h"
#include "protocol/limitd/dialect.h"
#include "protocol/limitd/session.h"
#include "protocol/protocol.h"

namespace sluice::limitd {

namespace {

constexpr protocol::Command commands[] = {
    {"limitd", "serve a limitd configuration, in place of `limitd -c CONFIG`", serve, true},
    {"limitdctl", "ask a running server in limitdctl's flags and words", limitdctl}};

constexpr protocol::Ask ask_words = {"take|wait|put|reset|get|status TYPE KEY [COUNT], or ping", "",
                                     ask};

}  // namespace

extern const protocol::Description description;
constinit const protocol::Description description = {
    .name = "limitd",
    .port = 9231,
    .make_session = [] { return std::unique_ptr<request::Session>(new LimitdSession); },
    .dialect = &dialect,
    .ask = &ask_words,
    .commands = commands,
};

}  // namespace sluice::limitd
