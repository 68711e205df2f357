// JSON text as the tree that YAML text becomes (yaml_tree.h). It is read as JavaScript reads it:
// numbers are doubles, and of equal keys the last value counts, in the order of the first key. A
// text is a quoted scalar; a number, true and false are plain ones, a number as JavaScript prints
// it. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/read/yaml_tree.h"

namespace sluice::policy {

// A key that its object has already.
struct RepeatedKey {
  std::string key;
  size_t line = 0, column = 0;
};

// Refuses what is not JSON, or is deeper than yaml_depth_max. A scalar of an object has the place
// of its key.
std::optional<YamlError> parse_json(std::string_view text, YamlDocument& document,
                                    std::vector<RepeatedKey>& repeated);

// The text that JSON.stringify would write: compact, in the order of the tree.
std::string compact_json(YamlNode node);

}  // namespace sluice::policy
