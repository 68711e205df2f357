#include "server/live_counters.h"

#include <algorithm>

#include "server/admin_json.h"

namespace sluice::server {

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

std::string path_text(std::string_view bytes) {
  static constexpr char hex[] = "0123456789ABCDEF";
  static constexpr std::string_view plain = "-._~:=,@";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (alphanumeric || plain.find(c) != plain.npos) {
      out += c;
    } else {
      out += '%';
      out += hex[byte >> 4];
      out += hex[byte & 15];
    }
  }
  return out;
}

LiveCounters::LiveCounters(const policy::RuleSet& rules,
                           std::span<const limit::Space* const> others) {
  std::vector<const limit::Space*> spaces;
  each_rule(rules, [&](const policy::Rule& rule, std::string_view dialect) {
    if (rule.mode == policy::Mode::off) return;
    members_[rule.space->id].push_back({&rule, dialect});
    if (dialect == "divvy") by_prefix_[rule.space->prefix].push_back({&rule, dialect});
    if (is_counted(rule)) spaces.push_back(rule.space);
  });
  for (const limit::Space* space : others)
    if (by_prefix_.contains(space->prefix)) spaces.push_back(space);
  spaces_ = limit::SpaceIndex(spaces);
}

LiveCounters::Owner LiveCounters::find(std::string_view stored, base::Time now,
                                       const policy::Overrides* overrides) const {
  const auto found = spaces_.find(stored);
  if (!found) return {};
  const auto& [space, key] = *found;
  policy::Override::Terms terms;
  const auto has_override = [&](const policy::Rule& rule) {
    if (overrides == nullptr || !overrides->find(rule.id, found->key, now, terms)) return false;
    return (terms.space != nullptr ? terms.space : rule.space) == found->space;
  };
  if (const auto members = members_.find(space->id); members != members_.end()) {
    const auto& all = members->second;
    const auto its = std::find_if(all.begin(), all.end(), [&, k = key](const Member& member) {
      return all.size() == 1 || takes(*member.rule, k, now);
    });
    const Member& member = its != all.end() ? *its : all.back();
    return {member.rule, member.dialect, space, key, has_override(*member.rule)};
  }
  // An override's own.
  for (const Member& member : by_prefix_.at(space->prefix))
    if (has_override(*member.rule)) return {member.rule, member.dialect, space, key, true};
  return {};
}

}  // namespace sluice::server
