// Checks whether the store can settle rules together whose counters are in several slots of a Redis
// Cluster (docs/redis.md, `across_slots`). Not called by workers.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "config/config.h"
#include "policy/read/native.h"
#include "policy/rule_set.h"

namespace sluice::config {

// The findings of policy::rules_apart, if the counters of different actors may be in different
// slots of that store.
struct AcrossSlots {
  std::vector<std::string> names;  // for each group of rules a text that names them
  bool refused = false;            // `across_slots: refuse`: an error was reported for each
};
// For `sluice check` and the admin port's check of a candidate: they name the same rules.
AcrossSlots find_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                              base::Diagnostics& diagnostics,
                              policy::StoreIsRead read = policy::StoreIsRead::with_the_rules);

// As above for a policy that is about to be served: with `settle` it does not search. False: it
// reported an error.
bool check_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                        base::Diagnostics& diagnostics,
                        policy::StoreIsRead read = policy::StoreIsRead::with_the_rules);
// Warns of rules in `mode: shadow` of which that would be reported if they decided.
void warn_of_shadow_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                                 base::Diagnostics& diagnostics);

}  // namespace sluice::config
