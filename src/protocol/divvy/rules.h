// Divvy's policy dialect: its INI and JSON files read into rules, with its validation. Called off
// the workers. The behaviour is documented, difference by difference, in docs/compat/divvy.md.
#pragma once

#include <string_view>

#include "base/diagnostic.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::divvy {

enum class DivvyFormat { ini, json };

// How `*` matches. code: as Divvy 1.7.1 does it (see Pattern::loose). documented: as its README
// says (`*` needs the key, every star is a wildcard, anchored at the end).
enum class DivvyMatching { code, documented };

// The format that Divvy takes from a file's name: `.ini` or `.json`, case-sensitive; nothing for
// all else.
std::optional<DivvyFormat> divvy_format(std::string_view file_name);

// Reads `text` and appends its rules to `rules`. Everything wrong or doubtful is appended to
// `diagnostics`; with an error among them `rules` is not to be used. `file` is how the user named
// the file, for messages only. `on_store_error` is that of
// all its rules: the format has no word for it.
void read_divvy(std::string_view text, DivvyFormat format, DivvyMatching matching,
                std::string_view file, request::Spaces& spaces, policy::RuleSet& rules,
                base::Diagnostics& diagnostics,
                request::OnError on_store_error = request::OnError::error);

}  // namespace sluice::divvy
