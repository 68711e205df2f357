// A table for a terminal. Columns are as wide as their widest cell, or narrower where the window
// is. Cells are made safe for a terminal (config/screen_text.h). Plain value; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::config {
struct CommandIo;
}

namespace sluice::cli {

class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;    // aligned at the right, for numbers
    bool elastic = false;  // may be narrowed
  };
  static constexpr size_t any_width = std::numeric_limits<size_t>::max();

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row: a text for each column, not yet escaped.
  void add(const std::vector<std::string>& row);
  size_t rows() const { return rows_.size(); }

  // The line of titles, then a line for each row, none wider than `columns_max`. If they do not
  // fit, elastic columns are cut first; then columns are left out, beginning with the last.
  std::vector<std::string> lines(size_t columns_max = any_width) const;
  // The lines as one text, each with a line end.
  std::string text(bool coloured, size_t columns_max = any_width) const;
  // The text for a command's output; as wide as the terminal, if it is one.
  std::string text(const config::CommandIo& io) const;

 private:
  std::vector<size_t> widths(size_t columns_max) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Reads fields of JSON from a server, which may be of another version: a field that is missing or
// of another type counts as empty. Pure functions; views live as long as the JSON.

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
