// Redis' patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a character that
// stands for itself. Any thread.
#pragma once

#include <string_view>

namespace sluice::resp {

// Does the pattern match the whole text? Takes at most the product of both lengths in steps.
bool fits_glob(std::string_view text, std::string_view pattern);

}  // namespace sluice::resp
