// Which counters of the table have changed since they were last committed. A list for each stripe,
// guarded by the stripe's lock, and a set of the stripes whose lists are not empty. Owned by the
// table; one thread collects.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "store/heads.h"
#include "store/region.h"

namespace sluice::store {

// Commits are numbered. While number n is `open`, whatever changes will be in commit n at the
// latest: the collector for n opens n + 1 first and then takes each stripe's lock, so a change
// that it does not meet was made, under that lock, by a writer that has seen n + 1 open.
class Changes {
 public:
  // With the lock of the stripe; an entry is on the list once at most.
  void add(size_t stripe, Ref entry) {
    auto& list = lists_[stripe];
    if (list.empty()) stripes_[stripe / 64].fetch_or(uint64_t{1} << stripe % 64);
    list.push_back(entry);
    const uint64_t open = open_.load();
    if (last_.load(std::memory_order_relaxed) < open) raise_last(open);
  }
  // The entry goes. With the lock of the stripe.
  void remove(size_t stripe, Ref entry);

  // The commit that holds the latest change, at the latest; 0: nothing ever changed. Any thread.
  uint64_t last() const { return last_.load(); }

  // The collecting thread: opens the next number and returns that of the commit to be made.
  uint64_t turn() { return open_.fetch_add(1); }
  // Calls `visit(stripe)` for each stripe that has a list. After an exception of `visit` those that
  // it has not been through have theirs still.
  template <class Visit>
  void each_stripe(Visit&& visit) {
    for (size_t word = 0; word < stripes_.size(); ++word) {
      uint64_t bits = stripes_[word].exchange(0);
      try {
        for (; bits != 0; bits &= bits - 1)
          visit(word * 64 + static_cast<size_t>(__builtin_ctzll(bits)));
      } catch (...) {
        stripes_[word].fetch_or(bits);
        throw;
      }
    }
  }
  // With the lock of the stripe.
  std::vector<Ref>& list(size_t stripe) { return lists_[stripe]; }

 private:
  void raise_last(uint64_t to);

  alignas(64) std::atomic<uint64_t> open_{1};
  std::atomic<uint64_t> last_{0};
  std::array<std::atomic<uint64_t>, Heads::stripes / 64> stripes_{};
  std::array<std::vector<Ref>, Heads::stripes> lists_;
};

}  // namespace sluice::store
