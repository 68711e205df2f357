#include "tests/support/json_schema.h"

#include <set>
#include <stdexcept>

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  throw std::runtime_error("a type that the test does not know: " + type);
}

std::string object_problem(const Json& document, const Json& schema, const Json& value,
                           const std::string& place) {
  for (const auto& name : schema.value("required", Json::array()))
    if (!value.contains(name)) return place + " lacks " + name.get<std::string>();
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, part] : value.items()) {
    if (properties.contains(name)) {
      auto problem = schema_problem(document, properties.at(name), part, place + "." + name);
      if (!problem.empty()) return problem;
      continue;
    }
    const Json others = schema.value("additionalProperties", Json(true));
    if (others == Json(false)) return place + " has " + name + ", which is not described";
    if (!others.is_object()) continue;
    auto problem = schema_problem(document, others, part, place + "." + name);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace

const Json& resolved_in(const Json& document, const Json& part) {
  if (!part.contains("$ref")) return part;
  return document.at(Json::json_pointer(part.at("$ref").get<std::string>().substr(1)));
}

std::string schema_problem(const Json& document, const Json& schema, const Json& value,
                           const std::string& place) {
  static const std::set<std::string> known{
      "$ref",        "type",    "properties", "required",     "additionalProperties",
      "items",       "enum",    "minimum",    "maximum",      "format",
      "description", "default", "oneOf",      "x-sluice-list"};
  for (const auto& [keyword, ignored] : schema.items())
    if (!known.contains(keyword))
      throw std::runtime_error("a keyword that the test does not know: " + keyword);
  if (schema.contains("$ref"))
    return schema_problem(document, resolved_in(document, schema), value, place);
  if (schema.contains("oneOf")) {
    std::string problems;
    for (const auto& one : schema.at("oneOf")) {
      const auto problem = schema_problem(document, one, value, place);
      if (problem.empty()) return "";
      problems += (problems.empty() ? "" : ", ") + problem;
    }
    return problems;
  }
  const auto type = schema.at("type").get<std::string>();
  if (!has_type(value, type)) return place + " is not of type " + type + ": " + value.dump();
  if (schema.contains("enum")) {
    bool found = false;
    for (const auto& one : schema.at("enum")) found |= one == value;
    if (!found) return place + " is none of the values described: " + value.dump();
  }
  if (schema.contains("minimum") && value < schema.at("minimum")) return place + " is too small";
  if (schema.contains("maximum") && value > schema.at("maximum")) return place + " is too large";
  if (type == "object") return object_problem(document, schema, value, place);
  if (type == "array" && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i) {
      auto problem = schema_problem(document, schema.at("items"), value[i],
                                    place + "[" + std::to_string(i) + "]");
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

}  // namespace sluice::tests
