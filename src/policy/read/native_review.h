// What is doubtful about native rules that are sound: those that no request reaches, those that
// another makes pointless, limits that never refuse. For `sluice check`, off the workers. Says only
// what is certain; docs/policy.md lists what it finds.
#pragma once

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// Appends warnings, in the order of the rules. Takes about as long as building the set; where rules
// are so alike that comparing them all would take longer, it compares some and says so.
void review(const RuleSet& rules, base::Diagnostics& diagnostics);

}  // namespace sluice::policy
