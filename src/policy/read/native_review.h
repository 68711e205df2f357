// Warns of native rules without errors that are doubtful: rules that no request reaches, rules that
// another one makes pointless, limits that never refuse. Not called by workers. It reports only
// what is certain; docs/policy.md lists the findings.
#pragma once

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// Appends warnings in the order of the rules. Takes about as long as building the set.
void review(const RuleSet& rules, base::Diagnostics& diagnostics);

}  // namespace sluice::policy
