// The keys of Envoy's files of limits, and the check that a file has no others.
#pragma once

#include <span>
#include <string_view>

#include "policy/read/yaml_tree_reader.h"
#include "protocol/envoy/go_yaml.h"

namespace sluice::envoy {

// The map that has a key.
enum class Place : uint8_t { file, descriptor, rate_limit, replaces };

std::string_view name_of(Place place);
// The keys that have a meaning in that map.
std::span<const std::string_view> words_of(Place place);
// Has sluice added the key to those of the original?
bool is_added_word(std::string_view key);

// Reports each key that has a meaning in no map, and each value that no key may have: a list with
// an item that is not a map, a number with a fraction. As in the original, only the key's text
// counts here, and not its place; anything is allowed below `metadata`. Each node is checked once,
// even if several aliases name it.
void check_words(YamlNode root, const policy::YamlDocument& document, policy::YamlReader& told);

}  // namespace sluice::envoy
