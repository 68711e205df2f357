#include "store/changes.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace sluice::store {

void Changes::remove(size_t stripe, Ref entry) {
  auto& list = lists_[stripe];
  // An entry that is removed has mostly changed a moment ago, so it stands near the end.
  const auto at = std::find(list.rbegin(), list.rend(), entry);
  SLUICE_CHECK(at != list.rend());
  *at = list.back();
  list.pop_back();
}

bool Changes::grow(size_t stripe, size_t count) noexcept {
  auto& list = lists_[stripe];
  try {
    list.reserve(std::max(2 * list.capacity(), list.size() + count));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Changes::raise_last(uint64_t to) {
  uint64_t last = last_.load();
  while (last < to && !last_.compare_exchange_weak(last, to)) {
  }
}

}  // namespace sluice::store
