// How a rule set takes one request, rule by rule. Values with views into the rule set and the
// request, which both have to outlive them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/rule_set.h"

namespace sluice::policy {

struct RuleExplanation {
  const Rule* rule = nullptr;
  bool native = false;               // or of the request's dialect
  std::optional<Mismatch> mismatch;  // nothing: it applies
  std::string_view error;  // not empty: it cannot be evaluated, and the request fails on it
  std::vector<std::optional<std::string_view>>
      actor_values;      // as rule->actor; nothing: it lacks it
  std::string counter;   // its stored key; empty: it has none
  bool off = false;      // the policy has switched it off
  bool over = false;     // the time until which it applies has passed
  bool has_say = false;  // it applies and is enforced
  bool ends = false;     // and the search ends with it, but for what a finder finds

  bool applies() const { return error.empty() && !mismatch && !off && !over; }
};

struct Explanation {
  std::vector<RuleExplanation> reached;  // in order, up to the one that ends the search or fails
  size_t unreached = 0;                  // rules behind those
  std::string note;                      // why a finder finds no rule; may be empty
};

// `dialect`: as RuleSet::match.
Explanation explain(const RuleSet& rules, const Dialect* dialect, const Asked& asked);
// The same, one after the other; returns how many are not reached.
size_t explain_each(const RuleSet& rules, const Dialect* dialect, const Asked& asked,
                    const std::function<void(RuleExplanation&&)>& visit);

}  // namespace sluice::policy
