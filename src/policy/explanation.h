// The effect of a rule set on one request, rule by rule. Values with views into the rule set and
// the request, which must outlive them.
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
  bool native = false;               // false: the rule is of the request's dialect
  std::optional<Mismatch> mismatch;  // empty: the rule applies
  std::string_view error;  // not empty: the rule cannot be evaluated, so the request fails
  std::vector<std::optional<std::string_view>>
      actor_values;      // in the order of rule->actor; empty: the request lacks the key
  std::string actor;     // actor_name of the request's actor
  std::string counter;   // the stored name of its counter; empty: it has none
  bool off = false;      // the policy has switched the rule off
  bool over = false;     // the rule's `until` has passed
  bool has_say = false;  // the rule applies and is enforced
  bool ends = false;     // and the search ends here, except for a rule that a session plans

  bool applies() const { return error.empty() && !mismatch && !off && !over; }
};

struct Explanation {
  std::vector<RuleExplanation> reached;  // in order, up to the rule that ends the search or fails
  size_t unreached = 0;                  // the number of rules after those
  std::string note;                      // why a session plans no charge; may be empty
};

// `dialect` as in RuleSet::match.
Explanation explain(const RuleSet& rules, const Dialect* dialect, const Matching& asked);
// The same, but calls `visit` for each rule in order; returns the number of rules not reached.
size_t explain_each(const RuleSet& rules, const Dialect* dialect, const Matching& asked,
                    const std::function<void(RuleExplanation&&)>& visit);

}  // namespace sluice::policy
