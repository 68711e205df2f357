#include "config/across_slots.h"

#include "policy/read/native_apart.h"

namespace sluice::config {

bool has_slots(const StoreSettings& store) {
  return store.redis && store.redis->value.cluster;
}

bool check_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                        base::Diagnostics& diagnostics) {
  if (!has_slots(store) || store.redis->value.settles_across_slots) return true;
  const size_t before = diagnostics.size();
  policy::refuse_apart(rules, diagnostics);
  return diagnostics.size() == before;
}

}  // namespace sluice::config
