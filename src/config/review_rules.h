// What is doubtful in rules that can be served: the same warnings in `sluice check`, at the start
// of a server, at each reload and in the admin port's check of a candidate. Not called by workers.
#pragma once

#include "base/diagnostic.h"
#include "config/config.h"
#include "policy/rule_set.h"

namespace sluice::config {

// Appends warnings: rules that do not fit the settings of a protocol that is served, rules that the
// store would refuse if they were enforced, and the findings of policy/read/native_review.h.
// `advises`: also appends advice for a person who checks the policy (RuleReview::advise).
void review_rules(const Config& config, const policy::RuleSet& rules,
                  base::Diagnostics& diagnostics, bool advises = false);

}  // namespace sluice::config
