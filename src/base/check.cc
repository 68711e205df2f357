#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace sluice::base {

#ifdef SLUICE_CHECK_THROWS
void check_failed(const char* condition, const char* file, int line) {
  throw CheckFailed(std::string(condition) + " (" + file + ":" + std::to_string(line) + ")");
}
#else
void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "sluice: bug: check failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}
#endif

}  // namespace sluice::base
