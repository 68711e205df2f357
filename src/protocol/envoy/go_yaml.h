// The differences of Go's yaml.v2 from the readers of sluice's own files: the types of scalars, and
// which entry of a map counts. Pure functions on a parsed tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/read/yaml_tree.h"

namespace sluice::envoy {

using policy::YamlNode;

// The value of a scalar, or of a missing node.
struct GoValue {
  enum class Kind : uint8_t {
    null,
    boolean,
    whole,       // a signed integer of 64 bits
    number,      // another number
    text,        // the node's text
    unreadable,  // its tag names another type
  };
  Kind kind = Kind::null;
  bool boolean = false;
  int64_t whole = 0;
  double number = 0;  // also set for a whole number
};
// `node` must be neither a list nor a map.
GoValue go_value(YamlNode node);

// The text of the value as a key of a map whose keys become texts: `yes` becomes `true`, `0x10`
// becomes `16`.
std::string go_key_text(YamlNode node);

// An entry of a map. The entries are in the order in which they are set, with those of merged maps
// (`<<`). If a key is set again, the later entry counts. Its place is where it was written.
struct GoMember {
  YamlNode key, value;
  // The merge key of the map that it comes from; a null node: it is the map's own.
  YamlNode merged_by{};
};
// A node that cannot be merged, and the reason.
struct GoMergeProblem {
  YamlNode node;
  std::string_view why;
  bool too_many = false;  // there are too many entries
};
// Appends the entries, at most `most` in all.
std::optional<GoMergeProblem> append_members(YamlNode map, size_t most,
                                             std::vector<GoMember>& members);

}  // namespace sluice::envoy
