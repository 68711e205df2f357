// Always-on checks of the program's own promises. A failed one is a bug of sluice, never of its
// input. In the server it prints where and what, and ends the process, because a limiter that goes
// on with broken state answers wrongly. In libraries for other programs (SLUICE_CHECK_THROWS) it
// throws, and their public functions make an error of it: the process is not sluice's to end.
#pragma once

#ifdef SLUICE_CHECK_THROWS
#include <stdexcept>
#endif

#define SLUICE_CHECK(condition)       \
  (__builtin_expect(!!(condition), 1) \
       ? void()                       \
       : ::sluice::base::check_failed(#condition, __FILE__, __LINE__))

namespace sluice::base {

#ifdef SLUICE_CHECK_THROWS
class CheckFailed : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
#else
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
#endif

}  // namespace sluice::base
