// JSON text as a tree whose nodes know where they stand, for messages that name line and column.
// Read as JavaScript reads it: numbers are doubles, of equal keys the last one counts (at the first
// one's place) and is reported. Plain values, owned by the caller of the parser.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::policy {

struct JsonNode {
  enum class Kind { null, boolean, number, text, list, object };
  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;
  std::string text;
  std::vector<std::string> keys;  // of an object, in the file's order
  std::vector<JsonNode> items;    // of a list or an object
  size_t at = 0;  // byte in the text: of an object or list its bracket, of a member's value its key

  const JsonNode* find(std::string_view key) const;
};

struct JsonError {
  size_t at;
  std::string message;
};

struct JsonDocument {
  JsonNode root;
  std::vector<std::pair<std::string, size_t>> repeated_keys;  // each with its place
};

// Lists and objects inside each other, at most. Past it: refused.
inline constexpr size_t json_depth_max = 64;

std::optional<JsonError> parse_json(std::string_view text, JsonDocument& document);

// As JSON.stringify writes it: compact, in the order of the tree.
std::string compact_json(const JsonNode& node);

}  // namespace sluice::policy
