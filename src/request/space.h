// The spaces and lists of limits that this process has interned. A stored identity (prefix and
// suffix) has one Space while it is in use, and equal lists of limits have one number, so that rule
// sets of different generations share counters. Owned by main; thread-safe. A lookup by number
// takes no lock, because a thread that interns may have a low priority.
//
// An entry that is no longer in use is forgotten in a round (live::LimitsCollector drives them),
// and its id and memory are used again. These use an entry, and this keeps it known:
//
//   a rule, an override   holds a LimitsRef and a SpaceRef, which are counted.
//   a charge              Its plan, its waiter or any other copy holds a LivePolicy from before it
//                         was planned. A round forgets only entries that no rule and no override
//                         named when the round began, and it waits until all policies that were
//                         live before are destroyed (Live::is_only_one).
//   a counter             After that wait the store marks the entries that its counters name
//                         (Catalog::mark_named); no charge is left that could name another.
//   a list's shares       (divide_by) are known as long as the list.
//   a list that gives way Lists that came with requests have owners (request/limit_owners.h). One
//                         whose owner has lost it is not kept by the counters of requests that
//                         bring limits (Space::carry is `apart`): the store moves their states
//                         among those of limits that are left out, under the list `Marks::instead`,
//                         so that no counter loses anything. Where counters refer to so many lists
//                         that requests use the reserve (LimitShares), a list without an owner
//                         gives way as well: those that a store on disk brought back.
//   a store on disk       disk::Names: while it is being loaded it holds the entries that it
//                         resolves, and the store marks nothing, nor while a snapshot is written.
//   code that keeps ids   compares what they stand for (redis::LimitTexts, disk::Names), or
//                         Space::serial (engine/top_keys.h).
//
// So forgetting adds no cost to a charge or to the write of a counter.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "request/charge.h"
#include "request/limit_owners.h"

namespace sluice::request {

// A list that only grows and never moves its elements. One thread at a time appends, and other
// threads read meanwhile without a lock: they may read the elements whose index they received from
// the appending thread, or that is below a size() they read. Elements live as long as the list. A
// thread that changes an element must make sure that no other thread reads it at that time.

template <class T>
class StableList {
 public:
  StableList() = default;
  ~StableList() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }
  StableList(const StableList&) = delete;
  StableList& operator=(const StableList&) = delete;

  size_t size() const { return size_.load(std::memory_order_acquire); }
  const T& operator[](size_t i) const {
    SLUICE_CHECK(i < size());
    const ChunkPlace place = place_of(i);
    return chunks_[place.chunk].load(std::memory_order_relaxed)[place.at];
  }

  T& operator[](size_t i) { return const_cast<T&>(std::as_const(*this)[i]); }

  const T& push_back(T element) {
    return append([&](T& its) { its = std::move(element); });
  }
  // Appends an element; `fill(element)` completes it before any reader can see it.
  template <class Fill>
  T& append(Fill&& fill) {
    const size_t i = size_.load(std::memory_order_relaxed);
    const ChunkPlace place = place_of(i);
    auto& chunk = chunks_[place.chunk];
    if (place.at == 0) chunk.store(new T[first << place.chunk], std::memory_order_relaxed);
    T& its = chunk.load(std::memory_order_relaxed)[place.at];
    fill(its);
    size_.store(i + 1, std::memory_order_release);
    return its;
  }

 private:
  // Elements of the first chunk; each further chunk is twice as large as the one before.
  static constexpr size_t first = 16;
  struct ChunkPlace {
    size_t chunk, at;
  };
  static ChunkPlace place_of(size_t i) {
    const size_t chunk = static_cast<size_t>(std::bit_width(i / first + 1)) - 1;
    return {chunk, i - (first << chunk) + first};
  }

  std::array<std::atomic<T*>, 40> chunks_{};
  std::atomic<size_t> size_{0};
};

class Spaces;

// A counted reference that keeps a list of limits known. It must be destroyed before the registry.
// A copy takes no lock.
class LimitsRef {
 public:
  LimitsRef() = default;
  LimitsRef(const LimitsRef& other);
  LimitsRef(LimitsRef&& other) noexcept
      : spaces_(std::exchange(other.spaces_, nullptr)), id_(std::exchange(other.id_, 0)) {}
  LimitsRef& operator=(LimitsRef other) noexcept {
    std::swap(spaces_, other.spaces_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~LimitsRef();

  uint32_t id() const { return id_; }  // 0: of none
  explicit operator bool() const { return id_ != 0; }
  friend bool operator==(const LimitsRef& a, const LimitsRef& b) { return a.id_ == b.id_; }

 private:
  friend class Spaces;
  LimitsRef(Spaces& spaces, uint32_t id) : spaces_(&spaces), id_(id) {}
  Spaces* spaces_ = nullptr;
  uint32_t id_ = 0;
};

// The same for a space.
class SpaceRef {
 public:
  SpaceRef() = default;
  SpaceRef(const SpaceRef& other);
  SpaceRef(SpaceRef&& other) noexcept
      : spaces_(std::exchange(other.spaces_, nullptr)),
        space_(std::exchange(other.space_, nullptr)) {}
  SpaceRef& operator=(SpaceRef other) noexcept {
    std::swap(spaces_, other.spaces_);
    std::swap(space_, other.space_);
    return *this;
  }
  ~SpaceRef();

  const Space* get() const { return space_; }  // null: of none
  explicit operator bool() const { return space_ != nullptr; }

 private:
  friend class Spaces;
  SpaceRef(Spaces& spaces, const Space& space) : spaces_(&spaces), space_(&space) {}
  Spaces* spaces_ = nullptr;
  const Space* space_ = nullptr;
};

// The entries that a round found in use by counters. Used by one thread.
class Marks {
 public:
  void space(uint32_t id) {
    if (id < spaces_.size()) spaces_[id] = true;
  }
  void limits(uint32_t id) {
    if (id < lists_.size()) lists_[id] = true;
  }
  // Is a counter to be taken from the list, and written under `instead`?
  bool gives_way(uint32_t id) const { return id < giving_way_.size() && giving_way_[id]; }
  uint32_t instead() const { return instead_; }

 private:
  friend class Spaces;
  std::vector<bool> spaces_, lists_;  // by id; entries newer than the round are not forgotten
  std::vector<bool> giving_way_;      // by id; empty: no list gives way
  uint32_t instead_ = 0;
};

// A list whose only limit holds nothing for longer than a microsecond: of a counter that has
// nothing but limits that are left out.
inline constexpr limit::Limit instead_limit{limit::Algorithm::fixed_window, 1, {1}};

class Spaces {
  struct Less {
    bool operator()(std::span<const limit::Limit> a, std::span<const limit::Limit> b) const;
  };

 public:
  Spaces() = default;
  Spaces(const Spaces&) = delete;
  Spaces& operator=(const Spaces&) = delete;

  // The space with that identity, which is interned if it is new; then `like` gives everything
  // except the id and the identity. Empty: it is new, and there are `most` spaces or more.
  SpaceRef hold(std::string_view prefix, std::string_view suffix, const Space& like = {},
                size_t most = SIZE_MAX);
  // All spaces with that prefix, whatever their suffix.
  std::vector<SpaceRef> hold_all(std::string_view prefix);
  // A number, 1 or more, for a list of limits, so that a counter can name the list it was written
  // under. Empty: it is new, and there are `most` lists or more.
  LimitsRef hold_limits(std::span<const limit::Limit> limits, size_t most = SIZE_MAX);
  // The same for a list that comes with a request, of the client `owner`. Empty: it is new, and
  // there are too many, or too many of the owner.
  LimitsRef hold_brought(std::span<const limit::Limit> limits, uint64_t owner, base::Time now,
                         const LimitShares& shares);
  // A list that was held so is brought again. False: it has given way, so it must be held again.
  // Takes no lock. What is less than used_grain after the last use is not noted.
  static constexpr base::Duration used_grain = base::milliseconds(100);
  bool use_brought(uint32_t id, base::Time now);
  // Has a list that was held so not given way? Takes no lock.
  bool is_owned(uint32_t id) const {
    return lists_[id - 1].is_owned.load(std::memory_order_acquire);
  }
  // The lists that have given way since the start, and how often one was refused.
  struct BroughtCounts {
    uint64_t given_way = 0, refused = 0;
  };
  BroughtCounts brought() const;
  // The same, for entries that are never forgotten.
  const Space* intern(std::string_view prefix, std::string_view suffix, const Space& like = {},
                      size_t most = SIZE_MAX);
  uint32_t intern_limits(std::span<const limit::Limit> limits, size_t most = SIZE_MAX);

  // The space with that id, which must be known.
  const Space& at(uint32_t id) const { return spaces_[id].space; }
  // Space::keep_fresh_for of the space with that id.
  base::Duration keep_fresh_for(uint32_t id) const { return spaces_[id].space.keep_fresh_for; }
  // The list with that number, which must be known.
  std::span<const limit::Limit> limits(uint32_t id) const;

  // How many earlier lists had that number.
  uint32_t serial_of_limits(uint32_t id) const { return lists_[id - 1].serial; }

  // From this call on each list, known or new, has a second list beside it: the share of its limits
  // that one of `servers` servers may grant. Called once.
  void divide_by(unsigned servers);
  // That share of one limit, at least one unit.
  static limit::Limit share_of(limit::Limit limit, unsigned servers);
  // The number of the list of shares of list `id`.
  uint32_t divided(uint32_t id) const;

  // Calls `visit(space)` if there is still a space with that id and serial. Takes a lock: not for a
  // worker.
  template <class Visit>
  bool visit(uint32_t id, uint32_t serial, Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    if (id >= spaces_.size() || !spaces_[id].used || spaces_[id].space.serial != serial)
      return false;
    visit(spaces_[id].space);
    return true;
  }

  // The number of spaces or of lists, whichever is larger. Any thread.
  size_t known() const { return std::max(known_spaces(), known_lists()); }
  size_t known_spaces() const { return spaces_known_.load(std::memory_order_relaxed); }
  size_t known_lists() const { return lists_known_.load(std::memory_order_relaxed); }

  // Called when a caller found no room for a new entry.
  void want_round() { full_.store(true, std::memory_order_relaxed); }
  // Is a round worth its time, because many entries are not in use or a caller found no room?
  bool wants_round() const;
  // `begin_round` begins a round. `end_round` ends it: it forgets the entries that were not in use
  // since, and are not marked, and returns how many. One round at a time.
  Marks begin_round();
  size_t end_round(const Marks& marks);

 private:
  friend class LimitsRef;
  friend class SpaceRef;
  // Entries that may be out of use, or lists that may be leaving, before a round is needed.
  static constexpr int64_t unnamed_min = 1024;

  struct Named {
    std::atomic<uint32_t> refs{0};  // grows from 0 with the mutex held
    // These with the mutex.
    bool used = false;
    bool dying = false;  // not in use since the round began
  };
  struct NamedSpace : Named {
    Space space;
  };
  struct LimitList : Named {
    std::vector<limit::Limit> limits;
    uint32_t serial = 0;
    bool gives_way = false;  // it was an owner's, and is not any more
    std::atomic<uint32_t> divided{0};
    std::atomic<bool> is_owned{false};
    std::atomic<int64_t> used_us{0};  // by requests that brought it
  };

  void take(Named& named);
  void copy(Named& named) { named.refs.fetch_add(1, std::memory_order_relaxed); }
  void drop(Named& named);
  uint32_t list_of(std::span<const limit::Limit> limits, size_t most);
  void divide(uint32_t id);
  void forget_space(uint32_t id);
  void forget_list(uint32_t id);

  mutable std::mutex mutex_;  // of a worker only for limits that it does not remember
  StableList<NamedSpace> spaces_;
  std::map<std::pair<std::string_view, std::string_view>, uint32_t> by_identity_;
  StableList<LimitList> lists_;  // element n has number n + 1
  std::map<std::span<const limit::Limit>, uint32_t, Less> by_limits_;
  std::vector<uint32_t> free_spaces_, free_lists_;  // ids to be used again
  LimitOwners owners_{
      [this](uint32_t id) { return lists_[id - 1].used_us.load(std::memory_order_relaxed); }};
  std::vector<uint32_t> given_way_;  // scratch
  uint64_t refused_ = 0;
  bool unowned_give_way_ = false;  // since the last round a request has used the reserve
  uint32_t instead_ = 0;           // the number of the list of `instead_limit`; 0: not yet needed
  unsigned servers_ = 0;           // of divide_by; 0: not called
  std::atomic<size_t> spaces_known_{0}, lists_known_{0};
  std::atomic<int64_t> unnamed_{0};  // spaces and lists that are not in use
  // The numbers of spaces and lists after the last round: not in use, and known.
  std::atomic<int64_t> left_unnamed_{0}, left_known_{0};
  mutable std::atomic<bool> full_{false};  // since the last round a caller found no room
};

inline bool Spaces::use_brought(uint32_t id, base::Time now) {
  LimitList& list = lists_[id - 1];
  if (!is_owned(id)) return false;
  if (now.us - list.used_us.load(std::memory_order_relaxed) >= used_grain.us)
    list.used_us.store(now.us, std::memory_order_relaxed);
  return true;
}

inline LimitsRef::LimitsRef(const LimitsRef& other) : spaces_(other.spaces_), id_(other.id_) {
  if (id_ != 0) spaces_->copy(spaces_->lists_[id_ - 1]);
}
inline LimitsRef::~LimitsRef() {
  if (id_ != 0) spaces_->drop(spaces_->lists_[id_ - 1]);
}
inline SpaceRef::SpaceRef(const SpaceRef& other) : spaces_(other.spaces_), space_(other.space_) {
  if (space_ != nullptr) spaces_->copy(spaces_->spaces_[space_->id]);
}
inline SpaceRef::~SpaceRef() {
  if (space_ != nullptr) spaces_->drop(spaces_->spaces_[space_->id]);
}

// Finds the space of a stored counter's name, among the spaces of the live rules, by their
// prefixes. Built once, then read by any thread. The spaces must outlive it and its results.

class SpaceIndex {
 public:
  SpaceIndex() = default;
  // A space may be listed more than once.
  explicit SpaceIndex(std::span<const Space* const> spaces);

  struct Found {
    const Space* space;
    std::string_view key;  // within the space; a view into `stored`
  };
  // Keys may have any bytes, so several spaces may fit: the one with the longest prefix counts, and
  // among equal prefixes the one with the longest suffix.
  std::optional<Found> find(std::string_view stored) const;

  // The spaces by id; null: the space with that id is not in the index.
  std::span<const Space* const> by_id() const { return by_id_; }

 private:
  std::vector<const Space*> by_id_;
  std::unordered_map<std::string_view, std::vector<const Space*>> by_prefix_;
  std::vector<size_t> sizes_;  // of the prefixes, distinct, descending
};

}  // namespace sluice::request
