// Whether a store may settle rules together whose counters are in several slots of a Redis Cluster
// (docs/redis.md, `across_slots`). Off the workers.
#pragma once

#include "base/diagnostic.h"
#include "config/config.h"
#include "policy/rule_set.h"

namespace sluice::config {

// Are the counters of different actors in different slots there?
bool has_slots(const StoreSettings& store);

// With `across_slots: refuse`: an error for rules that settle together all the same
// (policy/read/native_apart.h). False: there is one.
bool check_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                        base::Diagnostics& diagnostics);

}  // namespace sluice::config
