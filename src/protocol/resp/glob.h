// Redis' glob patterns for keys: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a character that
// stands for itself. Any thread.
#pragma once

#include <string_view>

namespace sluice::resp {

// Does the pattern match the whole text? The number of steps is at most the product of both
// lengths.
bool fits_glob(std::string_view text, std::string_view pattern);

}  // namespace sluice::resp
