// droplet's place in the rule set: it has no policy of its own, each request brings its limits. One
// rule meets every request of its protocol and keeps a counter for each bucket.
#pragma once

#include <span>

#include "request/space.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// The windows that its limits may have, rising.
std::span<const limit::Duration> droplet_windows();

// Adds that rule to the dialect's.
void add_droplet_rule(limit::Spaces& spaces, RuleSet& rules);

}  // namespace sluice::policy
