#include "policy/read/native_review.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/units.h"
#include "limit/sliding_log.h"
#include "limit/wide.h"
#include "policy/read/native_text.h"
#include "policy/rule_index.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

using limit::Algorithm;
using limit::Limit;
using limit::Wide;

// The most units that the limit admits in [a, a + length_us), for any a. Products are below 2^108,
// because quota and window are bounded (base/bounds.h).
Wide most(const Limit& limit, Wide length_us) {
  const Wide quota = limit.quota, window = limit.window.us, burst = limit.burst;
  const Wide last = length_us - 1;
  switch (limit.algorithm) {
    case Algorithm::fixed_window:
      return last % window == 0 ? quota * (last / window + 1) : quota * (last / window + 2) - 1;
    case Algorithm::aligned_window:
      return quota * ((last + window - 1) / window + 1);
    case Algorithm::token_bucket:
      return std::min(burst + last * quota / window, burst * length_us);
    case Algorithm::sliding_window:
      return quota * (window + last) / window;
    case Algorithm::sliding_log:
      return quota * (last / window + 1);
    case Algorithm::fixed_bucket:  // as much as is put back
    case Algorithm::concurrency:
    case Algorithm::unlimited:
    case Algorithm::deny:
    case Algorithm::gcra_cell:  // no policy has these
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      break;
  }
  return 0;
}

// The B for which every interval admits at most B + (length_us - 1) * quota / window units.
Wide burst_of(const Limit& limit) {
  if (limit.algorithm == Algorithm::token_bucket) return limit.burst;
  const bool opens_twice =
      limit.algorithm == Algorithm::fixed_window || limit.algorithm == Algorithm::aligned_window;
  return Wide{limit.quota} * (opens_twice ? 2 : 1);
}

// Does it follow from the bounds of the two algorithms alone?
bool within_bounds(const Limit& loose, const Limit& strict) {
  const Wide window = loose.window.us;
  switch (loose.algorithm) {
    case Algorithm::fixed_window:
    case Algorithm::aligned_window:
      return most(strict, window) <= loose.quota;
    case Algorithm::sliding_window:
      // `loose` counts the units of two adjacent windows.
      return most(strict, 2 * window) <= loose.quota;
    case Algorithm::sliding_log:
      // When `loose` has to merge times, it counts units for longer than its window.
      return most(strict, window) <=
             std::min(Wide{loose.quota}, Wide{limit::sliding_log::times_max});
    case Algorithm::token_bucket:
      return burst_of(strict) <= loose.burst &&
             Wide{strict.quota} * window <= Wide{loose.quota} * strict.window.us;
    case Algorithm::concurrency:
      // A place counts for its lease, and longer where ends are merged.
      return most(strict, limit::Wide{loose.burst}) <=
             std::min(Wide{loose.quota}, Wide{limit::sliding_log::times_max});
    case Algorithm::fixed_bucket:  // what was taken stays taken
    case Algorithm::unlimited:
    case Algorithm::deny:
    case Algorithm::gcra_cell:  // no policy has these
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      break;
  }
  return false;
}

}  // namespace

bool never_refuses(const Limit& loose, const Limit& strict, bool same_requests) {
  if (loose.algorithm == Algorithm::unlimited || strict.algorithm == Algorithm::deny) return true;
  if (loose.algorithm == Algorithm::deny || strict.algorithm == Algorithm::unlimited) return false;
  // A bucket without refill grants units that were put back; time brings none.
  if (strict.algorithm == Algorithm::fixed_bucket) return false;
  // So do places, and a lease may be short.
  if (strict.algorithm == Algorithm::concurrency)
    return loose.algorithm == strict.algorithm && same_requests && strict.quota <= loose.quota &&
           loose.window == strict.window && loose.burst == strict.burst;
  // Windows of a calendar differ in length: only the same ones are compared.
  if (loose.calendar || strict.calendar)
    return loose.calendar == strict.calendar && loose.algorithm == strict.algorithm &&
           strict.quota <= loose.quota;
  if (within_bounds(loose, strict)) return true;
  if (loose.algorithm != strict.algorithm || strict.quota > loose.quota) return false;
  // Both count in the same way, and `strict` has counted at least the units of `loose`.
  const bool same_window = loose.window == strict.window;
  switch (loose.algorithm) {
    case Algorithm::aligned_window:
      return strict.window.us % loose.window.us == 0;
    case Algorithm::sliding_window:
      return same_window;
    case Algorithm::fixed_window:  // with other requests its windows open at other times,
    case Algorithm::sliding_log:   // and other times are merged
      return same_window && same_requests;
    case Algorithm::token_bucket:  // the bounds have said it all
    case Algorithm::fixed_bucket:
    case Algorithm::concurrency:
    case Algorithm::unlimited:
    case Algorithm::deny:
    case Algorithm::gcra_cell:  // no policy has these
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      break;
  }
  return false;
}

namespace {

using limit::Algorithm;

bool decides(const Rule& rule) {
  return rule.mode == Mode::enforce && rule.then == Then::stop;
}

// Makes a request to which the rule applies. With it the index finds every rule that is decided to
// apply to all requests of this rule.
void generic_request(const Rule& rule, std::vector<std::string>& values,
                     std::vector<request::Entry>& descriptor) {
  values.clear();
  descriptor.clear();
  for (const Condition& condition : rule.conditions) values.push_back(condition.pattern.sample());
  for (size_t i = 0; i < values.size(); ++i)
    descriptor.push_back({rule.conditions[i].key, values[i]});
}

// What the index files in place of a pattern. One that covers no pattern but itself is filed as its
// own text, which is the sample of its equals: so rules that are alike only in their stars do not
// meet each other.
Pattern filed(const Pattern& pattern) {
  if (!pattern.alternatives().empty()) {
    std::vector<Pattern> all;
    for (const Pattern& one : pattern.alternatives()) all.push_back(filed(one));
    return Pattern::any_of(std::move(all));
  }
  const bool covers_others =
      pattern.any() || pattern.exact() || pattern.is_prefix() || pattern.network() != nullptr;
  return covers_others ? pattern : Pattern::equal_to(pattern.text());
}

std::vector<Condition> filed(std::span<const Condition> conditions) {
  std::vector<Condition> all(conditions.begin(), conditions.end());
  for (Condition& one : all) one.pattern = filed(one.pattern);
  return all;
}

// Does `by` apply to every request to which `rule` applies? False where it is not decided.
bool covers(const Rule& by, const Rule& rule) {
  return std::ranges::all_of(by.conditions, [&](const Condition& wanted) {
    const auto at = std::ranges::find(rule.conditions, wanted.key, &Condition::key);
    return at != rule.conditions.end() && wanted.pattern.covers(at->pattern);
  });
}

std::string text(const limit::Limit& limit) {
  if (!limit::has_counter(limit.algorithm)) return std::string(name_of(limit.algorithm));
  if (limit.algorithm == limit::Algorithm::fixed_bucket)
    return std::to_string(limit.quota) + " at a time, fixed_bucket";
  if (limit.algorithm == limit::Algorithm::concurrency) return limit::places_text(limit);
  return std::to_string(limit.quota) + " per " + limit::window_text(limit) + ", " +
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
      index_.add(filed(rules_[i].conditions));
      enforced_.push_back(i);
    }
  }

  void all(bool has_policy) {
    for (size_t i = 0; i < rules_.size(); ++i)
      if (rules_[i].mode != Mode::off) one(i);
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
    index_.candidates(generic_, [&](uint32_t number) {
      const size_t other = enforced_[number];
      if (other == at) return !decides(rule);
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

  // Of the rule being reviewed:
  std::vector<std::string> values_;
  std::vector<request::Entry> generic_;
  std::vector<size_t>
      beside_;  // the other rules that apply to all of its requests and are enforced
};

}  // namespace

void review(const RuleSet& rules, base::Diagnostics& diagnostics) {
  // Rules that the program itself makes exist without a policy. A rule that a session plans applies
  // even after a rule that stops.
  bool has_policy = false, is_found = false;
  for (const RuleSet::DialectRules& list : rules.lists().subspan(1)) {
    if (list.written() == 0) continue;
    has_policy = true;
    is_found = is_found || list.own() != nullptr;
  }
  Review(rules, diagnostics).all(has_policy && !is_found);
}

}  // namespace sluice::policy
