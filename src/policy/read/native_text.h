// Writes native rules as YAML that policy/read/native.h reads as the same rules, and converts rules
// of other dialects to native rules that apply to the same requests. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// The text in double quotes, on one line whatever its characters.
std::string yaml_quoted(std::string_view text);
// The same, but without quotes where YAML and a native rule read it as the same text.
std::string yaml_text(std::string_view text);

// How messages name a native rule: "rule NAME", or "rule [MATCH]", cut off, of one without a name.
std::string title_of(const Rule& rule);

// The text that follows `rules:`, a list item for each rule, indented by two. The rules must be
// native.
std::string native_text(std::span<const Rule> rules);

// Rules of another dialect as native rules that apply to the same requests, in their order. A rule
// gets a name if its `match` alone does not distinguish it. A rule that cannot be written as a
// native rule is reported as an error with `remedy`.
std::vector<Rule> as_native(std::span<const Rule> rules, std::string_view remedy,
                            base::Diagnostics& diagnostics);

}  // namespace sluice::policy
