// How a rule set takes one request, rule by rule, for people and as JSON. Values with views into
// the rule set and the request, which both have to outlive them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/inspect.h"
#include "policy/rule_set.h"

namespace sluice::cli {

struct RuleExplanation {
  const policy::Rule* rule = nullptr;
  std::optional<policy::Mismatch> mismatch;  // nothing: it applies
  std::string_view error;  // not empty: it cannot be evaluated, and the request fails on it
  std::vector<std::optional<std::string_view>>
      actor_values;      // as rule->actor; nothing: it lacks it
  std::string counter;   // its stored key; empty: it has none
  bool off = false;      // the policy has switched it off
  bool has_say = false;  // it applies and is enforced
  bool ends = false;     // and the search ends with it
};

struct Explanation {
  std::vector<RuleExplanation> reached;  // in order, up to the one that ends the search or fails
  size_t unreached = 0;                  // rules behind those
};

Explanation explain(const policy::RuleSet& rules, const Pairs& request);

std::string to_text(const Explanation& explanation, const Pairs& request, bool coloured);
nlohmann::ordered_json to_json(const Explanation& explanation, const Pairs& request);

}  // namespace sluice::cli
