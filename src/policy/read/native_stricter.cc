#include "policy/read/native_stricter.h"

#include <algorithm>

#include "limit/sliding_log.h"
#include "limit/wide.h"

namespace sluice::policy {

namespace {

using limit::Algorithm;
using limit::Limit;
using limit::Wide;

// The most units that the limit admits in [a, a + length_us), for any a. Products are below 2^108,
// because quota and window are bounded (base/bounds.h).
Wide most(const Limit& limit, Wide length_us) {
  const Wide quota = limit.quota, window = limit.window.us, burst = limit.burst;
  const Wide last = length_us - 1;
  switch (limit.algorithm) {
    case Algorithm::fixed_window:
      return last % window == 0 ? quota * (last / window + 1) : quota * (last / window + 2) - 1;
    case Algorithm::aligned_window:
      return quota * ((last + window - 1) / window + 1);
    case Algorithm::token_bucket:
      return std::min(burst + last * quota / window, burst * length_us);
    case Algorithm::sliding_window:
      return quota * (window + last) / window;
    case Algorithm::sliding_log:
      return quota * (last / window + 1);
    case Algorithm::fixed_bucket:  // as much as is put back
    case Algorithm::unlimited:
    case Algorithm::deny:
    case Algorithm::gcra_cell:  // no policy has these
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      break;
  }
  return 0;
}

// The B for which every interval admits at most B + (length_us - 1) * quota / window units.
Wide burst_of(const Limit& limit) {
  if (limit.algorithm == Algorithm::token_bucket) return limit.burst;
  const bool opens_twice =
      limit.algorithm == Algorithm::fixed_window || limit.algorithm == Algorithm::aligned_window;
  return Wide{limit.quota} * (opens_twice ? 2 : 1);
}

// Does it follow from the bounds of the two algorithms alone?
bool within_bounds(const Limit& loose, const Limit& strict) {
  const Wide window = loose.window.us;
  switch (loose.algorithm) {
    case Algorithm::fixed_window:
    case Algorithm::aligned_window:
      return most(strict, window) <= loose.quota;
    case Algorithm::sliding_window:
      // `loose` counts the units of two adjacent windows.
      return most(strict, 2 * window) <= loose.quota;
    case Algorithm::sliding_log:
      // When `loose` has to merge times, it counts units for longer than its window.
      return most(strict, window) <=
             std::min(Wide{loose.quota}, Wide{limit::sliding_log::times_max});
    case Algorithm::token_bucket:
      return burst_of(strict) <= loose.burst &&
             Wide{strict.quota} * window <= Wide{loose.quota} * strict.window.us;
    case Algorithm::fixed_bucket:  // what was taken stays taken
    case Algorithm::unlimited:
    case Algorithm::deny:
    case Algorithm::gcra_cell:  // no policy has these
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      break;
  }
  return false;
}

}  // namespace

bool never_refuses(const Limit& loose, const Limit& strict, bool same_requests) {
  if (loose.algorithm == Algorithm::unlimited || strict.algorithm == Algorithm::deny) return true;
  if (loose.algorithm == Algorithm::deny || strict.algorithm == Algorithm::unlimited) return false;
  // A bucket without refill grants units that were put back; time brings none.
  if (strict.algorithm == Algorithm::fixed_bucket) return false;
  if (within_bounds(loose, strict)) return true;
  if (loose.algorithm != strict.algorithm || strict.quota > loose.quota) return false;
  // Both count in the same way, and `strict` has counted at least the units of `loose`.
  const bool same_window = loose.window == strict.window;
  switch (loose.algorithm) {
    case Algorithm::aligned_window:
      return strict.window.us % loose.window.us == 0;
    case Algorithm::sliding_window:
      return same_window;
    case Algorithm::fixed_window:  // with other requests its windows open at other times,
    case Algorithm::sliding_log:   // and other times are merged
      return same_window && same_requests;
    case Algorithm::token_bucket:  // the bounds have said it all
    case Algorithm::fixed_bucket:
    case Algorithm::unlimited:
    case Algorithm::deny:
    case Algorithm::gcra_cell:  // no policy has these
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      break;
  }
  return false;
}

}  // namespace sluice::policy
