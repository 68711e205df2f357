// The protocol of session.h in the program.
#include "protocol/protocol.h"
#include "tests/planner/session.h"

namespace sluice::planner {

extern constinit const protocol::Description description = {
    .name = "planner",
    .title = "the planner",
    .port = 7008,
    .make_session =
        [](const request::Peer&) { return std::unique_ptr<request::Session>(new PlannerSession); },
    .dialect = &dialect,
    .add_rules = [](const protocol::Settings*, request::Spaces& spaces,
                    policy::RuleSet& rules) { add_rules(spaces, rules); },
};

}  // namespace sluice::planner
