// Native rules that settle together although they count by different actors: where the counters of
// different actors are in different places (slots of a Redis Cluster), one step cannot settle them.
// Off the workers.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// Rules that one request was found to meet in one group, in their order: at least two, of which at
// least two charge counters of different actors. They live as long as the set.
using RulesApart = std::vector<const Rule*>;

// Only what a request proves: it is made up from the conditions of two rules and matched as any
// other, as if the time of no rule's `until` had come. So what is found is certain. What may be
// missed: rules that only values of a regular expression or of a text with stars against a network
// bring together; those behind a rule that stops the request that was made up; and what is past
// base::bounds::review_steps_max comparisons or a hundred findings.
std::vector<RulesApart> rules_apart(const RuleSet& rules);

// "rule a (line 3), rule b (line 9)".
std::string names_of(const RulesApart& apart);

// The same as errors, for a store that cannot settle them; each at the last of its rules.
void refuse_apart(const RuleSet& rules, base::Diagnostics& diagnostics);

}  // namespace sluice::policy
