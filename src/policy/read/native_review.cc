#include "policy/read/native_review.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/units.h"
#include "policy/read/native_stricter.h"
#include "policy/read/native_text.h"
#include "policy/rule_index.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

using limit::Algorithm;

bool decides(const Rule& rule) {
  return rule.mode == Mode::enforce && rule.then == Then::stop;
}

// Makes a request to which the rule applies. With it the index finds every rule that may apply to
// all requests of this rule.
void generic_request(const Rule& rule, std::vector<std::string>& values,
                     std::vector<request::Entry>& descriptor) {
  values.clear();
  descriptor.clear();
  for (const Condition& condition : rule.conditions) values.push_back(condition.pattern.sample());
  for (size_t i = 0; i < values.size(); ++i)
    descriptor.push_back({rule.conditions[i].key, values[i]});
}

// Does `by` apply to every request to which `rule` applies? Only a star of `by` matches a star in a
// value.
bool covers(const Rule& by, const Rule& rule) {
  // Comparing two patterns takes the product of their lengths. In practice patterns are
  // shorter than this bound.
  constexpr size_t bytes_max = 4096;
  return std::ranges::all_of(by.conditions, [&](const Condition& wanted) {
    if (wanted.pattern.text().size() > bytes_max) return false;
    const auto at = std::ranges::find(rule.conditions, wanted.key, &Condition::key);
    return at != rule.conditions.end() && wanted.pattern.covers(at->pattern);
  });
}

// The most steps that `covers` takes (base::bounds::review_steps_max).
size_t cost_of_covers(const Rule& rule, std::span<const request::Entry> generic) {
  size_t steps = 1 + rule.conditions.size() * generic.size() / 16;
  for (const Condition& condition : rule.conditions) {
    if (condition.pattern.exact()) continue;
    const std::string_view literal = condition.pattern.literal();
    const size_t size = condition.pattern.text().size() - literal.size();
    steps += condition.pattern.alternatives().size();
    for (const request::Entry& entry : generic)
      if (entry.key == condition.key && begins_with(entry.value, literal))
        steps += size * (entry.value.size() - literal.size()) / 128;
  }
  return steps;
}

std::string text(const limit::Limit& limit) {
  if (!limit::has_counter(limit.algorithm)) return std::string(name_of(limit.algorithm));
  if (limit.algorithm == limit::Algorithm::fixed_bucket)
    return std::to_string(limit.quota) + " at a time, fixed_bucket";
  return std::to_string(limit.quota) + " per " + base::format_duration(limit.window) + ", " +
         std::string(name_of(limit.algorithm)) +
         (limit.burst > 0 ? ", burst " + std::to_string(limit.burst) : "");
}

bool same_actor(const Rule& a, const Rule& b) {
  return std::is_permutation(a.actor.begin(), a.actor.end(), b.actor.begin(), b.actor.end());
}

class Review {
 public:
  Review(const RuleSet& rules, base::Diagnostics& diagnostics)
      : rules_(rules.native_rules()), diagnostics_(diagnostics) {
    stops_before_.push_back(0);
    for (size_t i = 0; i < rules_.size(); ++i) {
      stops_before_.push_back(stops_before_.back() + (decides(rules_[i]) ? 1 : 0));
      if (rules_[i].mode != Mode::enforce) continue;
      index_.add(rules_[i].conditions);
      enforced_.push_back(i);
    }
  }

  void all(bool has_policy) {
    for (size_t i = 0; i < rules_.size(); ++i)
      if (rules_[i].mode != Mode::off) one(i);
    if (cut_short_ > 0) warn_cut_short();
    if (!has_policy) return;
    const auto last = std::find_if(rules_.begin(), rules_.end(), [](const Rule& rule) {
      return decides(rule) && rule.conditions.empty();
    });
    if (last != rules_.end())
      warn(*last, "no request reaches the rules of `policy`, because it applies to all and stops",
           "give it a match, or `then: continue`, or take out the policy");
  }

 private:
  void one(size_t at) {
    const Rule& rule = rules_[at];
    generic_request(rule, values_, generic_);
    beside_.clear();
    size_t by = rules_.size();
    size_t steps = 0;
    // Later rules may use the steps that earlier rules left.
    const size_t steps_max = steps_left_ / (rules_.size() - at);
    index_.candidates(generic_, [&](uint32_t number) {
      const size_t other = enforced_[number];
      if (other == at) return !decides(rule);
      steps += cost_of_covers(rules_[other], generic_);
      if (steps > steps_max) {
        ++cut_short_;
        return false;
      }
      if (!covers(rules_[other], rule)) return true;
      if (other < at && decides(rules_[other])) {
        by = other;
        return false;
      }
      // No rule is reached after one that decides.
      if (other > at && decides(rule)) return false;
      beside_.push_back(other);
      return !decides(rules_[other]) && beside_.size() <= base::bounds::group_charges_max;
    });
    steps_left_ -= std::min(steps, steps_max);
    if (by < rules_.size()) {
      warn(rule,
           "is unreachable: " + title_of(rules_[by]) + " (line " + std::to_string(rules_[by].line) +
               ") applies to everything that it could apply to, and stops",
           "move it in front of that rule, narrow that rule, or give that one `then: continue`");
      return;
    }
    check_group(rule);
    if (rule.mode == Mode::enforce && rule.then == Then::continue_) check_pointless(at);
    check_limits(rule);
  }

  void warn_cut_short() {
    diagnostics_.push_back(
        {.severity = base::Diagnostic::Severity::warning,
         .file = rules_.front().file,
         .line = 0,
         .column = 0,
         .subject = "rules",
         .message = base::counted(cut_short_, "rule") +
                    " could be compared with some of the others only, because their patterns are "
                    "so alike that each might apply to every other's requests",
         .remedy = "begin patterns with different text instead of `*` where you can"});
  }

  void check_group(const Rule& rule) {
    const size_t together = beside_.size() + (rule.mode == Mode::enforce ? 1 : 0);
    if (together <= base::bounds::group_charges_max || told_of_group_) return;
    told_of_group_ = true;  // the other rules of the group would be reported in the same way
    warn(rule,
         "more than " + std::to_string(base::bounds::group_charges_max) +
             " rules apply to each of its requests, which is more than can settle together: they "
             "are answered with an error",
         "put limits of one actor into one rule, or let rules stop");
  }

  void check_pointless(size_t at) {
    const Rule& rule = rules_[at];
    if (rule.limits.front().algorithm == Algorithm::unlimited) {
      warn(rule, "has no effect: it allows everything, and later rules are asked all the same",
           "take it out, or let it stop");
      return;
    }
    for (const size_t other : beside_) {
      if (!makes_pointless(other, at)) continue;
      // If two rules are equal the later one is reported.
      if (other > at && rules_[other].then == Then::continue_ && is_twin(other, at) &&
          makes_pointless(at, other))
        continue;
      warn(rule,
           "has no effect: " + title_of(rules_[other]) + " (line " +
               std::to_string(rules_[other].line) +
               ") applies as well and refuses whatever it would refuse",
           "take it out, or make it stricter than that rule");
      return;
    }
  }

  // Does `by`, which applies to all requests of `at`, refuse every request that `at` refuses?
  bool makes_pointless(size_t by, size_t at) const {
    // A rule between them might stop a request, so that only the first of them applies to it.
    const size_t first = std::min(by, at), second = std::max(by, at);
    const bool together = stops_before_[second] == stops_before_[first + 1];
    if (by > at && !together) return false;
    const Rule& strict = rules_[by];
    const Rule& loose = rules_[at];
    const bool same_requests = together && is_twin(by, at);
    return std::all_of(loose.limits.begin(), loose.limits.end(), [&](const limit::Limit& l) {
      return std::any_of(strict.limits.begin(), strict.limits.end(), [&](const limit::Limit& s) {
        return (s.algorithm == Algorithm::deny || same_actor(strict, loose)) &&
               never_refuses(l, s, same_requests);
      });
    });
  }

  // Do both rules apply to the same requests?
  bool is_twin(size_t a, size_t b) const {
    return covers(rules_[a], rules_[b]) && covers(rules_[b], rules_[a]);
  }

  void check_limits(const Rule& rule) {
    const auto& limits = rule.limits;
    for (size_t loose = 0; loose < limits.size(); ++loose) {
      for (size_t strict = 0; strict < limits.size(); ++strict) {
        if (loose == strict || !never_refuses(limits[loose], limits[strict], true)) continue;
        if (loose < strict && never_refuses(limits[strict], limits[loose], true)) continue;
        warn(rule,
             "limit " + std::to_string(loose + 1) + " (" + text(limits[loose]) +
                 ") never refuses: limit " + std::to_string(strict + 1) + " (" +
                 text(limits[strict]) + ") is stricter",
             "take it out, or change one of them");
        break;
      }
    }
  }

  void warn(const Rule& rule, std::string message, std::string remedy) {
    diagnostics_.push_back({.severity = base::Diagnostic::Severity::warning,
                            .file = rule.file,
                            .line = rule.line,
                            .column = 0,
                            .subject = title_of(rule),
                            .message = std::move(message),
                            .remedy = std::move(remedy)});
  }

  std::span<const Rule> rules_;
  base::Diagnostics& diagnostics_;
  RuleIndex index_;                   // of the enforced rules
  std::vector<size_t> enforced_;      // their indices in rules_
  std::vector<size_t> stops_before_;  // element i: how many of the first i rules decide
  bool told_of_group_ = false;
  size_t steps_left_ = base::bounds::review_steps_max;
  size_t cut_short_ = 0;  // the number of rules whose share of the steps did not suffice

  // Of the rule being reviewed:
  std::vector<std::string> values_;
  std::vector<request::Entry> generic_;
  std::vector<size_t>
      beside_;  // the other rules that apply to all of its requests and are enforced
};

}  // namespace

void review(const RuleSet& rules, base::Diagnostics& diagnostics) {
  // Rules that the program itself makes exist without a policy. A rule that a finder finds applies
  // even after a rule that stops.
  bool has_policy = false, is_found = false;
  for (const RuleSet::List& list : rules.lists().subspan(1)) {
    if (list.written() == 0) continue;
    has_policy = true;
    is_found = is_found || list.finder() != nullptr;
  }
  Review(rules, diagnostics).all(has_policy && !is_found);
}

}  // namespace sluice::policy
