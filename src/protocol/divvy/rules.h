// Reads Divvy's policies, INI and JSON files, into rules, with Divvy's validation. Not called by
// workers. docs/compat/divvy.md documents each difference from Divvy.
#pragma once

#include <string_view>

#include "base/diagnostic.h"
#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::divvy {

// How its rules differ from others. Constant; any thread.
extern const policy::Dialect dialect;

enum class DivvyFormat { ini, json };

// The meaning of `*`. code: that of Divvy 1.7.1 (Pattern::loose). documented: that of its README
// (the key must be present, every star is a wildcard, and the whole value must match).
enum class DivvyMatching { code, documented };

// The format that Divvy derives from a file's name: `.ini` or `.json`, case-sensitive; empty:
// another name.
std::optional<DivvyFormat> divvy_format(std::string_view file_name);

// Reads `text` and appends its rules to `rules`. Errors and warnings are appended to `diagnostics`;
// after an error `rules` must not be used. `file` is the file's name as the user gave it, for
// messages only. `on_store_error` is for all its rules, because the format cannot express it.
void read_divvy(std::string_view text, DivvyFormat format, DivvyMatching matching,
                std::string_view file, request::Spaces& spaces, policy::RuleSet& rules,
                base::Diagnostics& diagnostics,
                request::OnError on_store_error = request::OnError::error);

}  // namespace sluice::divvy
