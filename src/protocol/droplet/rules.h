// The rule of droplet's dialect. droplet has no policy, because each request brings its limits; one
// rule applies to all its requests, with a counter for each bucket.
#pragma once

#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::droplet {

// How its rules differ from others. Constant; any thread.
extern const policy::Dialect dialect;

// Adds that rule to the rules of the dialect.
void add_droplet_rule(request::Spaces& spaces, policy::RuleSet& rules);

}  // namespace sluice::droplet
