// The explanation of one request, as a text for people and as JSON. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/inspect.h"
#include "policy/explanation.h"

namespace sluice::cli {

// `unmatched`: the answer to a request to which no rule applies, as in policy::Dialect.
std::string to_text(const policy::Explanation& explanation, std::string_view unmatched,
                    const Pairs& request, bool coloured);
nlohmann::ordered_json to_json(const policy::Explanation& explanation, const Pairs& request);

}  // namespace sluice::cli
