// Native rules as the YAML that reads as them (policy/read/native.h), and rules of other dialects
// as native ones that match the same requests. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::policy {

// How values of `match` begin that are not a text with stars: "cidr(10.0.0.0/8)",
// "regex(/^a.*b/i)".
inline constexpr std::string_view network_begin = "cidr(", expression_begin = "regex(/";

// A text in double quotes, on one line whatever is in it.
std::string yaml_quoted(std::string_view text);
// The same without quotes where YAML and a native rule read it alike.
std::string yaml_text(std::string_view text);

// How messages name a native rule: "rule NAME", or "rule [MATCH]", cut off, of one without a name.
std::string title_of(const Rule& rule);

// A list item for each rule, indented by two: what follows `rules:`. Rules are native.
std::string native_text(std::span<const Rule> rules);

// Rules of another dialect as native ones that fit the same requests, in their order, each with a
// name where its match alone does not tell it apart. What cannot be written as a native rule is an
// error, with that remedy.
std::vector<Rule> as_native(std::span<const Rule> rules, std::string_view remedy,
                            base::Diagnostics& diagnostics);

}  // namespace sluice::policy
