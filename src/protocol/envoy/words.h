// The keys of Envoy's files of limits, and the check that a file has no others.
#pragma once

#include <span>
#include <string_view>

#include "policy/read/yaml_tree_reader.h"
#include "protocol/envoy/go_yaml.h"

namespace sluice::envoy {

// Where a key stands.
enum class Place : uint8_t { file, descriptor, rate_limit, replaces };

std::string_view name_of(Place place);
// The keys that mean something there.
std::span<const std::string_view> words_of(Place place);
// Is it one that sluice has added to the original's?
bool is_added_word(std::string_view key);

// Tells each key that means nothing anywhere, and each value that no key may have: a list of
// anything but maps, a number with a fraction. As in the original only the word counts here, and
// not its place; what stands below `metadata` is free. Each node is looked at once, whatever names
// it.
void check_words(YamlNode root, const policy::YamlDocument& document, policy::YamlReader& told);

}  // namespace sluice::envoy
