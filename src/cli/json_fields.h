// Reads fields of JSON from a server, which may be of another version: a field that is missing or
// of another type counts as empty. Pure functions; views live as long as the JSON.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

using Json = nlohmann::ordered_json;

inline const Json& field(const Json& json, std::string_view key) {
  static const Json none;
  if (!json.is_object()) return none;
  const auto at = json.find(key);
  return at == json.end() ? none : *at;
}

// The list; empty: there is none.
inline const Json& list_field(const Json& json, std::string_view key) {
  static const Json none = Json::array();
  const Json& found = field(json, key);
  return found.is_array() ? found : none;
}

inline std::string text_field(const Json& json, std::string_view key) {
  const Json& found = field(json, key);
  return found.is_string() ? found.get<std::string>() : std::string();
}

inline bool true_field(const Json& json, std::string_view key) {
  const Json& found = field(json, key);
  return found.is_boolean() && found.get<bool>();
}

inline std::optional<double> number_field(const Json& json, std::string_view key) {
  const Json& found = field(json, key);
  if (!found.is_number()) return std::nullopt;
  return found.get<double>();
}

// The integer; 0: there is none.
inline int64_t integer_field(const Json& json, std::string_view key) {
  const Json& found = field(json, key);
  if (found.is_number_unsigned() &&
      found.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::numeric_limits<int64_t>::max();
  return found.is_number_integer() ? found.get<int64_t>() : 0;
}

}  // namespace sluice::cli
