// What the numbers in stored records stand for: the spaces and lists of limits of the store, and
// which of this process's they are. Filled at open by one thread; then the one that commits gives
// out numbers while any others look them up. A list is this process's, too, from when a counter is
// met that names it; a number that no counter names stands for another list in time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "disk/journal.h"
#include "disk/record.h"
#include "request/stable_list.h"

namespace sluice::disk {

class Dictionary {
 public:
  // `spaces` outlives it.
  explicit Dictionary(request::Spaces& spaces) : spaces_(spaces) {}

  // One stored entry; the numbers of each kind come in order, from 1. False: `problem`.
  bool load_space(uint32_t number, std::string_view value, std::string& problem);
  bool load_limits(uint32_t number, std::string_view value, std::string& problem);

  size_t spaces() const { return by_number_.size(); }
  size_t lists() const { return limits_by_number_.size(); }

  // The number of what a record names; a new one if it has none, which is then among the fresh.
  uint32_t number_of(const request::Space& space) {
    const uint32_t number = space.id < space_numbers_.size() ? space_numbers_[space.id] : 0;
    if (number != 0) [[likely]]
      return number;
    return add(space);
  }
  uint32_t number_of_limits(uint32_t limits_id) {
    const uint32_t number = limits_id < limits_numbers_.size() ? limits_numbers_[limits_id] : 0;
    if (number != 0) [[likely]]
      return number;
    return limits_id == 0 ? 0 : add_limits(limits_id);
  }

  // Entries that are not committed yet: written with the first block that uses them.
  struct Fresh {
    bool is_space;
    uint32_t number;
    std::string value;
  };
  const std::vector<Fresh>& fresh() const { return fresh_; }
  void all_are_committed() { fresh_.clear(); }

  // Any thread. 0: nothing of that space is stored.
  uint32_t find(const request::Space& space) const;
  // What a stored counter is here. False: it names what the dictionary lacks, or its state does not
  // fit its limits.
  bool resolve(const StoredCounter& stored, Record& record) const;
  // The same of one that is past its time: what it names is not to be known for that.
  bool is_known(const StoredCounter& stored) const;
  // Every counter that is stored has been resolved, or is known, since this was filled: the numbers
  // of lists that none of them names are free. Any thread.
  void all_are_met() { all_met_.store(true); }

 private:
  // A list of limits. Who reads it may not wait, so it lives as long as the dictionary.
  struct List {
    std::vector<limit::Limit> limits;
    std::atomic<uint32_t> id{0};  // of this process's lists; 0: no counter that names it was met
    std::atomic<bool> named{false};
  };
  // Its number stands for another list in time.
  using Place = std::unique_ptr<std::atomic<List*>>;

  uint32_t add(const request::Space& space);
  uint32_t add_limits(uint32_t limits_id);
  List& make_list(std::vector<limit::Limit> limits);
  const List* list_of(const StoredCounter& stored) const;
  void find_free();

  request::Spaces& spaces_;
  request::StableList<const request::Space*> by_number_;  // the n-th has number n + 1
  request::StableList<Place> limits_by_number_;
  std::vector<std::unique_ptr<List>> lists_;  // all there ever were
  // Those that were stored before, by what is stored of them; the committer's, as is the next.
  std::unordered_map<std::string, uint32_t> number_by_value_;
  std::vector<uint32_t> free_;
  std::atomic<bool> all_met_{false};
  std::vector<uint32_t> space_numbers_, limits_numbers_;  // by the process's ids; the committer's
  std::vector<Fresh> fresh_;
  mutable std::mutex mutex_;
  std::vector<uint32_t> shared_numbers_;  // as space_numbers_, for the others; guarded
};

}  // namespace sluice::disk
