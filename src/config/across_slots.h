// Checks whether the store can settle rules together whose counters are in several slots of a Redis
// Cluster (docs/redis.md, `across_slots`). Not called by workers.
#pragma once

#include "base/diagnostic.h"
#include "config/config.h"
#include "policy/read/native_apart.h"
#include "policy/rule_set.h"

namespace sluice::config {

// May the counters of different actors be in different slots of that store?
bool has_slots(const StoreSettings& store);

// With `across_slots: refuse`: reports an error for rules that settle together nevertheless
// (policy/read/native_apart.h). False: it reported one.
bool check_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                        base::Diagnostics& diagnostics,
                        policy::StoreIsRead read = policy::StoreIsRead::with_the_rules);
// Warns of rules in `mode: shadow` of which that would be reported if they decided.
void warn_of_shadow_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                                 base::Diagnostics& diagnostics);

}  // namespace sluice::config
