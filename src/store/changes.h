// Which counters of the table have changed since they were last committed. A list for each stripe,
// guarded by the stripe's lock, and a set of the stripes whose lists are not empty. Owned by the
// table; one thread collects.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "request/hold.h"
#include "store/region.h"

namespace sluice::store {

// Commits are numbered. A change that is made while number n is open is part of commit n at the
// latest. For this the collector of n opens n + 1 first and takes each stripe's lock afterwards: a
// change that it misses was made under that lock later, by a writer that has seen n + 1 open.
class Changes {
 public:
  // Makes room for that many entries, as `add` must not fail: what it notes is written already.
  // False: there is no memory. With the lock of the stripe.
  bool make_room(size_t stripe, size_t count) noexcept {
    const auto& list = lists_[stripe];
    return list.capacity() - list.size() >= count || grow(stripe, count);
  }
  // Adds an entry that is not on the list, for which there is room. With the lock of the stripe.
  void add(size_t stripe, Ref entry) {
    auto& list = lists_[stripe];
    if (list.empty()) announce(stripe);
    list.push_back(entry);
    const uint64_t open = open_.load();
    if (last_.load(std::memory_order_relaxed) < open) raise_last(open);
  }
  // Removes an entry that is about to be freed. With the lock of the stripe.
  void remove(size_t stripe, Ref entry);

  // The number that is open. Any thread.
  uint64_t open() const { return open_.load(); }
  // Says of a stripe that its list may not be empty. With its lock.
  void announce(size_t stripe) { stripes_[stripe / 64].fetch_or(uint64_t{1} << stripe % 64); }
  // Is the stripe's list of a later commit than that number? With its lock, as the next one.
  bool is_past(size_t stripe, uint64_t number) const { return past_[stripe] >= number; }
  void pass(size_t stripe, uint64_t number) { past_[stripe] = number; }

  // The number of the commit that contains the latest change, or of a later one; 0: nothing has
  // changed yet. Any thread.
  uint64_t last() const { return last_.load(); }

  // Opens the next number and returns that of the commit to be made. The collecting thread.
  uint64_t turn() { return open_.fetch_add(1); }
  // Calls `visit(stripe)` for each stripe whose list is not empty. If `visit` throws, the lists of
  // stripes that were not visited stay.
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

  // What is kept beside the counters: the last note of each name of each commit. Any thread.
  struct Kept {
    std::shared_ptr<request::HoldNote> note;
    bool is_first = false;  // before this commit there was none of the name
  };
  using Notes = std::map<std::pair<uint64_t, std::string>, Kept>;
  using Note = Notes::node_type;
  // Throws std::bad_alloc.
  static Note note_of(request::HoldNote& note);
  // Adds a note to the commit `number`, under the lock of a stripe that is past the one before; or
  // to the one that is open.
  void add_note(uint64_t number, Note note) noexcept;
  void add_note(Note note) noexcept;
  // Calls `visit(note)` for those of commits up to that number, which are forgotten. If it throws,
  // the rest stays. The collecting thread.
  template <class Visit>
  void take_notes(uint64_t number, Visit&& visit) {
    for (;;) {
      std::shared_ptr<request::HoldNote> note;
      {
        const std::lock_guard lock(notes_mutex_);
        if (notes_.empty() || notes_.begin()->first.first > number) return;
        note = notes_.begin()->second.note;
      }
      // Nothing is added to that commit any more.
      visit(*note);
      const std::lock_guard lock(notes_mutex_);
      notes_.erase(notes_.begin());
    }
  }

 private:
  void insert_note(uint64_t number, Note note) noexcept;
  bool grow(size_t stripe, size_t count) noexcept;
  void raise_last(uint64_t to);

  alignas(64) std::atomic<uint64_t> open_{1};
  std::atomic<uint64_t> last_{0};
  std::array<std::atomic<uint64_t>, Heads::stripes / 64> stripes_{};
  std::array<std::vector<Ref>, Heads::stripes> lists_;
  std::array<uint64_t, Heads::stripes> past_{};
  std::mutex notes_mutex_;
  Notes notes_;
};

}  // namespace sluice::store
