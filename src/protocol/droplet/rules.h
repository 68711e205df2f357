// droplet's place in the rule set: it has no policy of its own, each request brings its limits. One
// rule meets every request of its protocol and keeps a counter for each bucket.
#pragma once

#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::droplet {

// Adds that rule to the dialect's.
void add_droplet_rule(request::Spaces& spaces, policy::RuleSet& rules);

}  // namespace sluice::droplet
