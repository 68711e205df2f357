#include "policy/read/native_apart.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/bounds.h"
#include "policy/read/native_text.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

constexpr size_t findings_max = 100;
constexpr size_t alternatives_max = 16;  // the most alternatives of a list that are tried
constexpr size_t text_max = 128;         // the most bytes of a text with stars that is searched
// The cost of making up a request and matching it, in steps (base::bounds::review_steps_max).
constexpr size_t steps_of_request = 200;

// Finds a value that matches two texts with stars, by trying all ways to walk through both.
class CommonText {
 public:
  CommonText(const Pattern& a, const Pattern& b)
      : a_(a), b_(b), seen_((a.text().size() + 1) * (b.text().size() + 1)) {}

  std::optional<std::string> find() {
    if (!walk(0, 0)) return std::nullopt;
    std::ranges::reverse(value_);
    return value_;
  }

 private:
  static bool is_star(const Pattern& p, size_t at) {
    return at < p.text().size() && !p.exact() && p.text()[at] == '*';
  }
  // Appends the value that matches the texts from these two places on, last byte first. False:
  // there is none.
  bool walk(size_t i, size_t j) {
    const bool a_ends = i == a_.text().size(), b_ends = j == b_.text().size();
    if (a_ends && b_ends) return true;
    const size_t place = i * (b_.text().size() + 1) + j;
    if (seen_[place]) return false;
    seen_[place] = true;
    const bool a_star = is_star(a_, i), b_star = is_star(b_, j);
    if (a_star && walk(i + 1, j)) return true;
    if (b_star && walk(i, j + 1)) return true;
    if (a_star && !b_ends && !b_star && walk(i, j + 1)) return push(b_.text()[j]);
    if (b_star && !a_ends && !a_star && walk(i + 1, j)) return push(a_.text()[i]);
    if (a_star || b_star || a_ends || b_ends || a_.text()[i] != b_.text()[j]) return false;
    return walk(i + 1, j + 1) && push(a_.text()[i]);
  }
  bool push(char c) {
    value_ += c;
    return true;
  }

  const Pattern &a_, &b_;
  std::vector<bool> seen_;
  std::string value_;
};

std::string in_place_of_stars(std::string_view text, std::string_view by) {
  std::string filled;
  for (const char c : text)
    if (c == '*')
      filled += by;
    else
      filled += c;
  return filled;
}

std::span<const Pattern> alternatives_of(const Pattern& pattern) {
  const auto all = pattern.alternatives();
  return all.empty() ? std::span(&pattern, 1) : all.first(std::min(all.size(), alternatives_max));
}

// A value of the entry `key` that matches both patterns. Where any value matches, it is made from
// the key, so that different keys have different values.
std::optional<std::string> common_value(const Pattern& one, const Pattern& other,
                                        const std::string& key) {
  for (const Pattern& a : alternatives_of(one))
    for (const Pattern& b : alternatives_of(other)) {
      for (const Pattern* p : {&a, &b})
        for (std::string value : {in_place_of_stars(p->text(), key), p->sample()})
          if (a.matches(value) && b.matches(value)) return value;
      if (a.text().size() > text_max || b.text().size() > text_max) continue;
      auto value = CommonText(a, b).find();
      if (value && a.matches(*value) && b.matches(*value)) return value;
    }
  return std::nullopt;
}

bool is_charged(const Rule& rule, Shadow shadow) {
  return (rule.mode == Mode::enforce ||
          (rule.mode == Mode::shadow && shadow == Shadow::as_enforced)) &&
         limit::is_counted(rule.limits);
}

class Search {
 public:
  Search(const RuleSet& rules, Shadow shadow) : rules_(rules), shadow_(shadow) {}

  std::vector<RulesApart> all() {
    const auto rules = rules_.native_rules();
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!is_charged(rules[i], shadow_) || rules[i].then == Then::stop) continue;
      for (size_t j = i + 1; j < rules.size(); ++j) {
        if (found_.size() == findings_max || ++steps_ > base::bounds::review_steps_max)
          return std::move(found_);
        if (is_charged(rules[j], shadow_) && rules[i].actor != rules[j].actor)
          two(rules[i], rules[j]);
      }
    }
    return std::move(found_);
  }

 private:
  void two(const Rule& a, const Rule& b) {
    if (a.conditions.size() + b.conditions.size() > base::bounds::group_charges_max) return;
    if (is_known(a, b) || !make_request(a, b)) return;
    steps_ += steps_of_request;
    Asked asked;
    asked.descriptor = descriptor_;
    asked.scope = request::RuleScope::native;
    plan_.clear();
    rules_.match(nullptr, asked, plan_);
    const Plan::RequestPlan& part = plan_.parts().back();
    if (!part.error.empty()) return;
    std::vector<Plan::RuleMatch> steps;
    for (const Plan::RuleMatch& step : plan_.steps(part))
      if (is_charged(*step.rule, shadow_)) steps.push_back(step);
    // Shadow rules come first in a plan, and do not stop it.
    std::ranges::sort(steps, {}, [](const auto& step) { return step.rule->number; });
    RulesApart group;
    bool apart = false;
    for (const Plan::RuleMatch& step : steps) {
      apart |= plan_.charge(step).key != plan_.charge(steps.front()).key;
      group.push_back(step.rule);
      if (step.rule->then == Then::stop) break;
    }
    if (apart) found_.push_back(std::move(group));
  }

  bool is_known(const Rule& a, const Rule& b) const {
    return std::ranges::any_of(found_, [&](const RulesApart& group) {
      return std::ranges::find(group, &a) != group.end() &&
             std::ranges::find(group, &b) != group.end();
    });
  }

  // Makes a request in descriptor_ to which both rules may apply. False: it found none.
  bool make_request(const Rule& a, const Rule& b) {
    values_.clear();
    for (const Condition& condition : a.conditions) {
      const auto at = std::ranges::find(b.conditions, condition.key, &Condition::key);
      if (!add_value(condition, at == b.conditions.end() ? condition.pattern : at->pattern))
        return false;
    }
    for (const Condition& condition : b.conditions)
      if (!has_value(condition.key) && !add_value(condition, condition.pattern)) return false;
    for (const Rule* rule : {&a, &b})
      for (const std::string& key : rule->actor)
        if (!has_value(key)) values_.emplace_back(key, "some " + key);
    descriptor_.clear();
    for (const auto& [key, value] : values_) descriptor_.push_back({key, value});
    return true;
  }
  bool add_value(const Condition& condition, const Pattern& other) {
    const Pattern& one = condition.pattern;
    // A shortcut: most rules differ in an exact text.
    if (one.exact() && other.exact() && one.text() != other.text()) return false;
    auto value = common_value(one, other, condition.key);
    if (value) values_.emplace_back(condition.key, *std::move(value));
    return value.has_value();
  }
  bool has_value(std::string_view key) const {
    return std::ranges::any_of(values_, [&](const auto& one) { return one.first == key; });
  }

  const RuleSet& rules_;
  const Shadow shadow_;
  std::vector<RulesApart> found_;
  Plan plan_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<request::Entry> descriptor_;
  size_t steps_ = 0;
};

}  // namespace

std::vector<RulesApart> rules_apart(const RuleSet& rules, Shadow shadow) {
  return Search(rules, shadow).all();
}

std::string names_of(const RulesApart& apart) {
  std::string names;
  for (const Rule* rule : apart)
    names += (names.empty() ? "" : ", ") + title_of(*rule) + " (line " +
             std::to_string(rule->line) + ")";
  return names;
}

void refuse_apart(const std::vector<RulesApart>& all, StoreIsRead read,
                  base::Diagnostics& diagnostics) {
  for (RulesApart apart : all) {
    const Rule& last = *apart.back();
    apart.pop_back();
    diagnostics.push_back(
        {.file = last.file,
         .line = last.line,
         .subject = title_of(last),
         .message = "settles together with " + names_of(apart) +
                    " and does not count by the same actor: their counters are in different slots "
                    "of the Redis Cluster, and `store.redis.across_slots` is `refuse`",
         .remedy = std::string("write `across_slots: settle`") +
                   (read == StoreIsRead::at_start
                        ? " and restart the server, which reads the settings of the store only "
                          "at its start"
                        : "") +
                   ", have them count by the same actor, or have no request meet them together"});
  }
}

void warn_of_shadow_apart(const RuleSet& rules, base::Diagnostics& diagnostics) {
  for (RulesApart& apart : rules_apart(rules, Shadow::as_enforced)) {
    const auto shadow = std::ranges::find(apart, Mode::shadow, &Rule::mode);
    if (shadow == apart.end()) continue;
    const Rule& rule = **shadow;
    apart.erase(shadow);
    diagnostics.push_back(
        {.severity = base::Diagnostic::Severity::warning,
         .file = rule.file,
         .line = rule.line,
         .subject = title_of(rule),
         .message = "is refused without `mode: shadow`: it then settles together with " +
                    names_of(apart) +
                    " and does not count by the same actor, and `store.redis.across_slots` is "
                    "`refuse`",
         .remedy = "write `across_slots: settle` and restart the server before the rule decides, "
                   "or have them count by the same actor"});
  }
}

}  // namespace sluice::policy
