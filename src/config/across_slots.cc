#include "config/across_slots.h"

namespace sluice::config {
namespace {

bool has_slots(const StoreSettings& store) {
  return store.redis && store.redis->value.cluster;
}

}  // namespace

AcrossSlots find_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                              base::Diagnostics& diagnostics, policy::StoreIsRead read) {
  AcrossSlots found;
  if (!has_slots(store)) return found;
  const auto all = policy::rules_apart(rules);
  for (const policy::RulesApart& apart : all) found.names.push_back(policy::names_of(apart));
  found.refused = !all.empty() && !store.redis->value.settles_across_slots;
  if (found.refused) policy::refuse_apart(all, read, diagnostics);
  return found;
}

bool check_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                        base::Diagnostics& diagnostics, policy::StoreIsRead read) {
  if (!has_slots(store) || store.redis->value.settles_across_slots) return true;
  return !find_across_slots(store, rules, diagnostics, read).refused;
}

void warn_of_shadow_across_slots(const StoreSettings& store, const policy::RuleSet& rules,
                                 base::Diagnostics& diagnostics) {
  if (has_slots(store) && !store.redis->value.settles_across_slots)
    policy::warn_of_shadow_apart(rules, diagnostics);
}

}  // namespace sluice::config
