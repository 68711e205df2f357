// Patterns of keys as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash in front of a
// character that is meant as it is. Any thread.
#pragma once

#include <string_view>

namespace sluice::resp {

// Does all of `text` fit? Takes at most as many steps as both lengths multiplied.
bool fits_glob(std::string_view text, std::string_view pattern);

}  // namespace sluice::resp
