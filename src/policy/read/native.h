// Reads native policy: the rules under `rules:` of a sluice.yaml, which can express everything that
// the engine can do. Not called by workers. docs/policy.md describes every key.
#pragma once

#include <string_view>

#include "base/diagnostic.h"
#include "policy/read/yaml_tree.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::policy {

// Reads the top-level key `rules` of a YAML text and appends its rules, in order, to the native
// rules of `rules`; without the key, or without a rule under it, that is an error. Other readers
// read the other top-level keys; one that is nearly `rules` is an error.
// Errors and warnings are appended to `diagnostics`; after an error `rules` must not be used.
// `file` is the file's name as the user gave it, for messages only.
void read_native(std::string_view text, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics);

// The same for a text that was parsed already.
void read_native(const YamlDocument& document, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics);

// May a rule have that name?
bool sound_rule_name(std::string_view name);

}  // namespace sluice::policy
