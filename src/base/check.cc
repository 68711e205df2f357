#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice::base {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "sluice: bug: check failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace sluice::base
