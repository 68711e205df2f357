// Dialects that belong to no protocol, for tests of what all dialects have in common.
#pragma once

#include <array>

#include "policy/dialect.h"

namespace sluice::policy {

inline constexpr Dialect first_dialect{.name = "first"};
inline constexpr Dialect second_dialect{.name = "second"};
// Its rules are not read from files.
inline constexpr Dialect third_dialect{.name = "third", .written = false};
inline constexpr std::array<const Dialect*, 3> test_dialects{&first_dialect, &second_dialect,
                                                             &third_dialect};

}  // namespace sluice::policy
