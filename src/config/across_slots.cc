#include "config/across_slots.h"

namespace sluice::config {

bool has_slots(const StoreSettings& store) {
  return store.redis && store.redis->value.cluster;
}

bool check_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                        base::Diagnostics& diagnostics, policy::StoreIsRead read) {
  if (!has_slots(store) || store.redis->value.settles_across_slots) return true;
  const size_t before = diagnostics.size();
  policy::refuse_apart(rules, read, diagnostics);
  return diagnostics.size() == before;
}

void warn_of_shadow_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                                 base::Diagnostics& diagnostics) {
  if (has_slots(store) && !store.redis->value.settles_across_slots)
    policy::warn_of_shadow_apart(rules, diagnostics);
}

}  // namespace sluice::config
