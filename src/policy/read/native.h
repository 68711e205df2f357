// Native policy: the rules under `rules:` of a sluice.yaml, which can say whatever the engine can
// do. Called off the workers. docs/policy.md has every key.
#pragma once

#include <string_view>

#include "base/diagnostic.h"
#include "policy/read/yaml_tree.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::policy {

// Reads the top-level key `rules` of a YAML text and appends its rules to the native ones of
// `rules`, in order; without the key there are none. Other top-level keys belong to other readers.
// Everything wrong or doubtful is appended to `diagnostics`; with an error among them `rules` is
// not to be used. `file` is how the user named the file, for messages only.
void read_native(std::string_view text, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics);

// The same of a text that has been parsed.
void read_native(const YamlDocument& document, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics);

// Can a rule have that name?
bool sound_rule_name(std::string_view name);

}  // namespace sluice::policy
