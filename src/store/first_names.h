// The first names of those that a search comes upon, in byte order, within a number and a sum of
// bytes; one at least, however long. One search's; one thread.
#pragma once

#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "store/store.h"

namespace sluice::store {

class FirstNames {
 public:
  FirstNames(size_t max, size_t bytes_max) : max_(max), bytes_max_(bytes_max) {}

  // From this name on none is needed; null: all are.
  const std::string* end() const {
    if (names_.size() == max_ && max_ > 0) return &*names_.rbegin();
    return cut_ ? &cut_at_ : nullptr;
  }
  // One that is needed.
  void add(std::string name) {
    const auto [at, fresh] = names_.insert(std::move(name));
    if (!fresh) return;
    bytes_ += at->size();
    while (names_.size() > max_ || (bytes_ > bytes_max_ && names_.size() > 1)) drop_last();
  }
  void move_to(ScanPage& stored) {
    stored.more = cut_;
    while (!names_.empty())
      stored.keys.push_back(std::move(names_.extract(names_.begin()).value()));
  }

 private:
  // Nor are those behind it, which may come upon later and be shorter.
  void drop_last() {
    const bool for_bytes = names_.size() <= max_;
    auto last = names_.extract(std::prev(names_.end()));
    bytes_ -= last.value().size();
    if (!for_bytes && !cut_) return;
    cut_ = true;
    cut_at_ = std::move(last.value());
  }

  const size_t max_, bytes_max_;
  std::set<std::string, std::less<>> names_;
  size_t bytes_ = 0;
  bool cut_ = false;    // for bytes
  std::string cut_at_;  // the first name that was
};

}  // namespace sluice::store
