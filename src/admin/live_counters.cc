#include "admin/live_counters.h"

#include <algorithm>

#include "admin/admin_json.h"
#include "live/live_policy.h"

namespace sluice::admin {

namespace {

bool is_counted(const policy::Rule& rule) {
  return rule.limits.empty() || limit::is_counted(rule.limits);
}

// Would it apply to a request with that actor, which meets all of its other conditions?
bool takes(const policy::Rule& rule, std::string_view key, base::Time now) {
  if (now >= rule.until) return false;
  return std::all_of(rule.conditions.begin(), rule.conditions.end(), [&](const auto& condition) {
    if (rule.actor.size() != 1 || rule.actor.front() != condition.key) return true;
    return !condition.pattern.impossible() && condition.pattern.matches(key);
  });
}

}  // namespace

LiveCounters::LiveCounters(const policy::RuleSet& rules,
                           std::span<const request::Space* const> others) {
  std::vector<const request::Space*> spaces;
  live::each_rule(rules, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    if (rule.mode == policy::Mode::off) return;
    members_[rule.space->id].push_back({&rule, &dialect});
    if (dialect.override_space != nullptr)
      by_prefix_[rule.space->prefix].push_back({&rule, &dialect});
    if (is_counted(rule)) spaces.push_back(rule.space);
  });
  for (const auto& list : rules.lists())
    if (list.finder() != nullptr)
      for (const policy::Rule& rule : list.rules()) with_finder_[rule.space->id] = &list;
  for (const request::Space* space : others)
    if (by_prefix_.contains(space->prefix)) spaces.push_back(space);
  spaces_ = request::SpaceIndex(spaces);
}

LiveCounters::Owner LiveCounters::found_owner(const request::Space& space, std::string_view key,
                                              const policy::RuleSet::List& list) const {
  base::Arena texts;
  const auto found = list.finder()->owner(space, key, texts);
  if (!found) return {};
  return {&list.rules()[found->rule], &list.dialect(), &space, key, std::string(found->actor)};
}

LiveCounters::Owner LiveCounters::find(std::string_view stored, base::Time now,
                                       const policy::Overrides* overrides) const {
  const auto found = spaces_.find(stored);
  if (!found) return {};
  const auto& [space, key] = *found;
  policy::Override::Terms terms;
  const auto has_override = [&](const policy::Rule& rule, std::string_view actor) {
    if (overrides == nullptr || !overrides->find(rule.id, actor, now, terms)) return false;
    return (terms.space != nullptr ? terms.space : rule.space) == found->space;
  };
  if (const auto list = with_finder_.find(space->id); list != with_finder_.end()) {
    Owner owner = found_owner(*space, key, *list->second);
    owner.overridden = owner.rule != nullptr && has_override(*owner.rule, owner.actor);
    return owner;
  }
  if (const auto members = members_.find(space->id); members != members_.end()) {
    const auto& all = members->second;
    const auto its = std::find_if(all.begin(), all.end(), [&, k = key](const Member& member) {
      return all.size() == 1 || takes(*member.rule, k, now);
    });
    const Member& member = its != all.end() ? *its : all.back();
    return {member.rule, member.dialect,   space,
            key,         std::string(key), has_override(*member.rule, key)};
  }
  // An override's own.
  for (const Member& member : by_prefix_.at(space->prefix))
    if (has_override(*member.rule, key))
      return {member.rule, member.dialect, space, key, std::string(key), true};
  return {};
}

}  // namespace sluice::admin
