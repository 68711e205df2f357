// YAML as Go's yaml.v2 reads it, in what differs from the readers of sluice's own files: what a
// scalar is, and which entry of a map counts. Pure functions over a parsed tree.
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

// What a scalar, or nothing, stands for.
struct GoValue {
  enum class Kind : uint8_t {
    null,
    boolean,
    whole,       // of 64 bits with sign
    number,      // any other
    text,        // the node's text as it stands
    unreadable,  // its tag says that it is something else than it is
  };
  Kind kind = Kind::null;
  bool boolean = false;
  int64_t whole = 0;
  double number = 0;  // of a whole one as well
};
// `node` is neither a list nor a map.
GoValue go_value(YamlNode node);

// The text that the value has as a key of a map whose keys are made into texts: `yes` is `true`,
// `0x10` is `16`.
std::string go_key_text(YamlNode node);

// A map's entries in the order in which they are set, those of maps that it merges (`<<`) among
// them: where one key is set again, the later entry counts. It stands where it was written.
struct GoMember {
  YamlNode key, value;
  // The merge key whose map it is from; none: it is the map's own.
  YamlNode merged_by{};
};
// Something of a map that cannot be merged, and why.
struct GoMergeProblem {
  YamlNode node;
  std::string_view why;
  bool too_many = false;  // entries
};
// Appends the entries; at most `most` of them in all.
std::optional<GoMergeProblem> append_members(YamlNode map, size_t most,
                                             std::vector<GoMember>& members);

}  // namespace sluice::envoy
