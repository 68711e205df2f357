// The part of JSON Schema that docs/openapi.json uses, to check real answers. Throws at a keyword
// that it does not know, so that nothing goes unchecked.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tests {

// What is wrong with `value`, "" if nothing. `document`: the document that `$ref`s point into.
std::string schema_problem(const nlohmann::json& document, const nlohmann::json& schema,
                           const nlohmann::json& value, const std::string& place = "$");

// `part`, or what its `$ref` points to.
const nlohmann::json& resolved_in(const nlohmann::json& document, const nlohmann::json& part);

}  // namespace sluice::tests
