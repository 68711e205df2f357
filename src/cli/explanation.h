// How a rule set takes one request, for people and as JSON. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/inspect.h"
#include "policy/explanation.h"

namespace sluice::cli {

// Of a request of that dialect, as RuleSet::match.
std::string to_text(const policy::Explanation& explanation, const policy::Dialect* dialect,
                    const Pairs& request, bool coloured);
nlohmann::ordered_json to_json(const policy::Explanation& explanation, const Pairs& request);

}  // namespace sluice::cli
