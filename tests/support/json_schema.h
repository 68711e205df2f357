// As much of JSON Schema as docs/openapi.json uses, to hold real answers against it. A keyword that
// is not known here is thrown, so that nothing goes unchecked.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tests {

// What is wrong with `value`, "" if nothing. `document`: where `$ref`s point to.
std::string schema_problem(const nlohmann::json& document, const nlohmann::json& schema,
                           const nlohmann::json& value, const std::string& place = "$");

// What `part` of a document is, or what its `$ref` points to.
const nlohmann::json& resolved_in(const nlohmann::json& document, const nlohmann::json& part);

}  // namespace sluice::tests
