// Warns of native rules without errors that are doubtful: rules that no request reaches, rules that
// another one makes pointless, limits that never refuse. Not called by workers. It reports only
// what is certain; docs/policy.md lists the findings.
#pragma once

#include "base/diagnostic.h"
#include "limit/limit.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// Is a limit so strict that another limit beside it never refuses? The answer follows from the
// bounds that the algorithms guarantee (limit/*.h). A yes is certain while the clock does not step
// back and no units are put back; a no may mean that it cannot be decided. Pure functions.

// Does `loose` grant whenever `strict` grants? Every request that charges `loose` also charges
// `strict`, all or nothing and for the same actor. same_requests: no other requests charge
// `strict`.
bool never_refuses(const limit::Limit& loose, const limit::Limit& strict, bool same_requests);

// Appends warnings in the order of the rules. Takes about as long as building the set.
void review(const RuleSet& rules, base::Diagnostics& diagnostics);

}  // namespace sluice::policy
