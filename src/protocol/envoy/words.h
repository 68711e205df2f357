// The keys of Envoy's files of limits, and the check that a file has no others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "policy/read/yaml_tree.h"
#include "policy/read/yaml_tree_reader.h"

namespace sluice::envoy {

// The map that has a key.
enum class MapKind : uint8_t { file, descriptor, rate_limit, replaces };

std::string_view name_of(MapKind place);
// The keys that have a meaning in that map.
std::span<const std::string_view> words_of(MapKind place);
// Has sluice added the key to those of the original?
bool is_added_word(std::string_view key);

// Reports each key that has a meaning in no map, and each value that no key may have: a list with
// an item that is not a map, a number with a fraction. As in the original, only the key's text
// counts here, and not its place; anything is allowed below `metadata`. Each node is checked once,
// even if several aliases name it.
void check_words(policy::YamlNode root, const policy::YamlDocument& document,
                 policy::YamlReader& told);

// Words of the original's environment as Go's standard library reads them. Pure functions.

// As time.ParseDuration: `1h30m`, `150us`, `1.5s`, `0`; fractions of a microsecond are rounded up.
// Empty: it is not a duration, or is negative.
std::optional<base::Duration> read_go_duration(std::string_view text);

// As strconv.ParseInt(text, 0, 64): `8081`, `-1`, `0x1f91`, `0o17`, `017` (of base 8), `1_000`.
std::optional<int64_t> read_go_int(std::string_view text);

// As strconv.ParseFloat, without hexadecimal numbers: `0.8`, `8e-1`, `+Inf`.
std::optional<double> read_go_float(std::string_view text);

// As strconv.ParseBool: `1 t T TRUE true True`, `0 f F FALSE false False`.
std::optional<bool> read_go_bool(std::string_view text);

// The differences of Go's yaml.v2 from the readers of sluice's own files: the types of scalars, and
// which entry of a map counts. Pure functions on a parsed tree.

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
