#include "limit/fixed_window.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace sluice::limit::fixed_window::detail {

void broken_precondition(const Limit& limit, int64_t cost) {
  std::fprintf(stderr,
               "sluice: fixed_window: cost %" PRId64 ", quota %" PRId64 ", window %" PRId64 " us\n",
               cost, limit.quota, limit.window.us);
  std::abort();
}

}  // namespace sluice::limit::fixed_window::detail
