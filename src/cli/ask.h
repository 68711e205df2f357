// What the kinds of `ask` have in common. Main thread.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands.h"

namespace sluice::cli {

inline constexpr int exit_allowed = 0, exit_denied = 1, exit_undecided = 2;
inline constexpr uint64_t timeout_ms_max = 3'600'000;

// Says why there is no decision, and returns exit_undecided.
int tell_undecided(const std::string& error, bool json, Outside& outside);

// `words` as `ask` has them.
int ask_limitd(const Words& words, Outside& outside);

}  // namespace sluice::cli
