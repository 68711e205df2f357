// Always-on checks of the program's own promises. A failed one is a bug of sluice, never of its
// input: it prints where and what, and ends the process, because a limiter that goes on with broken
// state answers wrongly.
#pragma once

#define SLUICE_CHECK(condition)       \
  (__builtin_expect(!!(condition), 1) \
       ? void()                       \
       : ::sluice::base::check_failed(#condition, __FILE__, __LINE__))

namespace sluice::base {

[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace sluice::base
