#include "protocol/resp/commands.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/session.h"

namespace sluice::resp {
namespace {

constexpr protocol::Command commands[] = {
    {"resp", "serve the Redis protocol with CL.THROTTLE, THROTTLE and GCRA", serve, true}};

}  // namespace

constinit const protocol::Description description = {
    .name = "resp",
    .title = "RESP",
    .port = 6380,
    .make_session = [] { return std::unique_ptr<request::Session>(new RespSession); },
    .dialect = &dialect,
    .commands = commands,
    .add_rules = add_throttle_rules,
};

}  // namespace sluice::resp
