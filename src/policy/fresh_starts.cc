#include "policy/fresh_starts.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/background.h"
#include "base/units.h"
#include "limit/carry_list.h"
#include "limit/left_out.h"
#include "policy/text.h"

namespace sluice::policy {
namespace {

using limit::Limit;

std::string words_for(const Limit& limit) {
  if (limit.algorithm == limit::Algorithm::concurrency) return limit::places_text(limit);
  const std::string algorithm(limit::name_of(limit.algorithm));
  if (limit.algorithm == limit::Algorithm::fixed_bucket)
    return std::to_string(limit.quota) + " (" + algorithm + ")";
  return std::to_string(limit.quota) + " per " + limit::window_text(limit) + " (" + algorithm + ")";
}

// The rules of one dialect in the old set whose counters no rule of the new set has, by name and by
// what they match.
class Gone {
 public:
  Gone(const RuleSet& was, const RuleSet& is, const Dialect& dialect) : dialect_(dialect) {
    std::unordered_set<const request::Space*> there;
    for (const Rule& rule : is.rules(&dialect)) there.insert(rule.space);
    for (const Rule& rule : was.rules(&dialect)) {
      base::yield_if_background();
      if (there.contains(rule.space)) continue;
      by_name_.emplace(dialect.rule_name(rule), &rule);
      by_pattern_.emplace(rule.pattern, &rule);
      if (rule.name.empty()) unnamed_.emplace(likeness(rule), &rule);
    }
  }

  // Why the rule's counters have another name than before; empty: it is new.
  std::string why(const Rule& rule) {
    if (const auto named = by_name_.find(dialect_.rule_name(rule)); named != by_name_.end()) {
      const Rule& other = *named->second;
      return other.actor != rule.actor ? "its actor was " + actor_of(other)
                                       : "its counters had another name";
    }
    if (const auto like = by_pattern_.find(rule.pattern);
        like != by_pattern_.end() && like->second->actor == rule.actor) {
      const Rule& other = *like->second;
      return other.name.empty() ? "it had no name" : "its name was " + in_ticks(other.name);
    }
    // Each of the old rules has become one at most.
    const auto other = rule.name.empty() ? unnamed_.find(likeness(rule)) : unnamed_.end();
    if (other == unnamed_.end()) return {};
    const std::string pattern = other->second->pattern;
    unnamed_.erase(other);
    return "it has no name, and its match was " + in_ticks(pattern);
  }

 private:
  // Of a rule without a name what stays when its match changes.
  static std::string likeness(const Rule& rule) {
    std::string text = actor_of(rule);
    for (const Limit& limit : rule.limits)
      text += " " + words_for(limit) + " " + std::to_string(limit.burst);
    return text;
  }
  static std::string actor_of(const Rule& rule) {
    std::string keys;
    for (const std::string& key : rule.actor) keys += (keys.empty() ? "" : ", ") + in_ticks(key);
    return keys.empty() ? "none" : keys;
  }

  const Dialect& dialect_;
  std::unordered_map<std::string, const Rule*> by_name_, by_pattern_;
  std::unordered_multimap<std::string, const Rule*> unnamed_;
};

std::string why_fresh(const Rule& was, const Rule& is, size_t i) {
  const Limit& limit = is.limits[i];
  const auto of_algorithm = std::ranges::find_if(was.limits, [&](const Limit& one) {
    return one.algorithm == limit.algorithm && !limit::is_any_of_kind(is.limits, one);
  });
  if (of_algorithm != was.limits.end())
    return "its window was " + base::format_duration(of_algorithm->window);
  if (i < was.limits.size() && was.limits[i].algorithm != limit.algorithm &&
      !limit::is_any_of_kind(is.limits, was.limits[i]))
    return "its algorithm was " + std::string(limit::name_of(was.limits[i].algorithm));
  return "it is new";
}

}  // namespace

std::vector<FreshStart> fresh_starts(const RuleSet& was, const RuleSet& is, size_t most,
                                     size_t& more) {
  std::vector<FreshStart> all;
  more = 0;
  const auto add = [&](FreshStart one) {
    if (all.size() < most)
      all.push_back(std::move(one));
    else
      ++more;
  };
  for (const auto& list : is.lists()) {
    const Dialect& dialect = list.dialect();
    std::unordered_map<const request::Space*, const Rule*> before;
    for (const Rule& rule : was.rules(&dialect)) before.emplace(rule.space, &rule);
    if (before.empty()) continue;
    Gone gone(was, is, dialect);
    for (const Rule& rule : list.rules()) {
      base::yield_if_background();
      if (rule.mode == Mode::off || rule.built_in || !limit::is_counted(rule.limits)) continue;
      const auto same = before.find(rule.space);
      if (same == before.end()) {
        if (std::string why = gone.why(rule); !why.empty()) add({&rule, SIZE_MAX, std::move(why)});
        continue;
      }
      const Rule& other = *same->second;
      if (other.limits == rule.limits || !limit::is_counted(other.limits)) continue;
      const limit::LimitMask fresh =
          limit::fresh_after(other.limits, rule.limits, rule.space->carry);
      for (size_t i = 0; i < rule.limits.size(); ++i)
        if (limit::has(fresh, i)) add({&rule, i, why_fresh(other, rule, i)});
    }
  }
  return all;
}

bool have_nothing_in_common(const RuleSet& was, const RuleSet& is) {
  return std::ranges::none_of(is.lists(), [&](const RuleSet::DialectRules& list) {
    const auto in_file = [](const Rule& rule) { return !rule.built_in; };
    return std::ranges::any_of(list.rules(), in_file) &&
           std::ranges::any_of(was.rules(&list.dialect()), in_file);
  });
}

std::string to_text(const FreshStart& one) {
  const std::string rule = "rule " + in_ticks(name_or_pattern(*one.rule));
  if (one.limit == SIZE_MAX) return rule + ": its counters begin fresh: " + one.why;
  return rule + ", " + words_for(one.rule->limits[one.limit]) + ": begins fresh: " + one.why;
}

}  // namespace sluice::policy
