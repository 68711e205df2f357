// JSON text as a tree whose nodes know their place in the text, for messages with line and column.
// It is read as JavaScript reads it: numbers are doubles, and of equal keys the last value counts,
// in the order of the first key; equal keys are reported. Plain values, owned by the parser's
// caller.
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
  size_t at = 0;  // offset in the text: of an object's or list's bracket, of a member's key

  const JsonNode* find(std::string_view key) const;
};

struct JsonError {
  size_t at;
  std::string message;
};

struct JsonDocument {
  JsonNode root;
  std::vector<std::pair<std::string, size_t>> repeated_keys;  // each with its offset
};

// The most lists and objects within one another. A deeper text is refused.
inline constexpr size_t json_depth_max = 64;

std::optional<JsonError> parse_json(std::string_view text, JsonDocument& document);

// The text that JSON.stringify would write: compact, in the order of the tree.
std::string compact_json(const JsonNode& node);

}  // namespace sluice::policy
