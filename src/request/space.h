// The interned spaces and lists of limits of this process: a stored identity (prefix and suffix)
// has one Space while anybody names it, and equal lists of limits have one number, so that rule
// sets of different generations share counters. Owned by main; thread-safe; looking one up by its
// number takes no lock, as those who intern may be of a low priority.
//
// What is not named any more is forgotten in rounds (live/limits_collector.h drives them), and
// its id and memory are used again. Who names one, and what keeps it known meanwhile:
//
//   a rule, an override   a LimitsRef and a SpaceRef, counted
//   a charge              its plan, its waiter or whatever it is copied to has a LivePolicy that
//                         was taken before it was planned. What a round forgets was named by no
//                         rule and no override when it began, and it waits until all policies that
//                         were live before that are gone (Live::only_current).
//   a counter             the store tells which ones its counters name (Store::mark_named), after
//                         that; there is no charge any more that could write another
//   a list's shares       (divide_by) are known as long as the list
//   a store on disk       disk/dictionary.h: while it is loaded what it resolves is held, and the
//                         store marks nothing; numbers of its own are kept with what they stand for
//   who remembers ids     compares what they stand for (redis::LimitTexts, disk::Dictionary), or
//                         the Space's serial (engine/top_keys.h)
//
// So a charge, and each counter at each write, costs what it would if nothing were ever forgotten.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "request/charge.h"
#include "request/stable_list.h"

namespace sluice::request {

class Spaces;

// Keeps a list of limits known; it goes before the registry does. A copy takes no lock.
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

// The same of a space.
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

// What counters were seen to name in a round. One thread.
class Marks {
 public:
  void space(uint32_t id) {
    if (id < spaces_.size()) spaces_[id] = true;
  }
  void limits(uint32_t id) {
    if (id < lists_.size()) lists_[id] = true;
  }

 private:
  friend class Spaces;
  std::vector<bool> spaces_, lists_;  // by id; what is newer than the round stays
};

class Spaces {
  struct Less {
    bool operator()(std::span<const limit::Limit> a, std::span<const limit::Limit> b) const;
  };

 public:
  Spaces() = default;
  Spaces(const Spaces&) = delete;
  Spaces& operator=(const Spaces&) = delete;

  // The space of that identity. `like` tells all but the id and the identity; the first to intern
  // it settles it. None: it is none of those there are, which are `most` or more.
  SpaceRef hold(std::string_view prefix, std::string_view suffix, const Space& like = {},
                size_t most = SIZE_MAX);
  // All that begin with that prefix.
  std::vector<SpaceRef> hold_all(std::string_view prefix);
  // A number for a list of limits, from 1, so that a counter can say under which it was written.
  // None: as above.
  LimitsRef hold_limits(std::span<const limit::Limit> limits, size_t most = SIZE_MAX);
  // The same, for ever.
  const Space* intern(std::string_view prefix, std::string_view suffix, const Space& like = {},
                      size_t most = SIZE_MAX);
  uint32_t intern_limits(std::span<const limit::Limit> limits, size_t most = SIZE_MAX);

  // The space with that id, which is known.
  const Space& at(uint32_t id) const { return spaces_[id].space; }
  // Space::keep_fresh_for of the space with that id.
  base::Duration keep_fresh_for(uint32_t id) const { return spaces_[id].space.keep_fresh_for; }
  // The list of that number, which is known.
  std::span<const limit::Limit> limits(uint32_t id) const;

  // How many lists had that number before.
  uint32_t serial_of_limits(uint32_t id) const { return lists_[id - 1].serial; }

  // From here on each list that is interned, and each that is known, has another one with it: of
  // its limits as they hold for one of so many servers. Once.
  void divide_by(unsigned servers);
  // A limit's share, a unit at least.
  static limit::Limit share_of(limit::Limit limit, unsigned servers);
  // The number of a list's shares.
  uint32_t divided(uint32_t id) const;

  // Calls `visit(space)` if there is still a space with that id and serial. Not for a worker.
  template <class Visit>
  bool visit(uint32_t id, uint32_t serial, Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    if (id >= spaces_.size() || !spaces_[id].used || spaces_[id].space.serial != serial)
      return false;
    visit(spaces_[id].space);
    return true;
  }

  // How many spaces there are, or lists if these are more. Any thread.
  size_t known() const { return std::max(known_spaces(), known_lists()); }
  size_t known_spaces() const { return spaces_known_.load(std::memory_order_relaxed); }
  size_t known_lists() const { return lists_known_.load(std::memory_order_relaxed); }

  // A caller did not find room.
  void want_round() { full_.store(true, std::memory_order_relaxed); }
  // Are there so many that are not named, or did one not find room, that a round is worth its time?
  bool wants_round() const;
  // A round is begun by this, and ended by the other, which forgets what was not named since
  // and is not marked; one at a time. Returns how many were forgotten.
  Marks begin_round();
  size_t end_round(const Marks& marks);

 private:
  friend class LimitsRef;
  friend class SpaceRef;
  // Left unnamed before a round is needed.
  static constexpr int64_t unnamed_min = 1024;

  struct Named {
    std::atomic<uint32_t> refs{0};  // grows from 0 with the mutex held
    // These with the mutex.
    bool used = false;
    bool dying = false;  // it was not named since the round began
  };
  struct Place : Named {
    Space space;
  };
  struct List : Named {
    std::vector<limit::Limit> limits;
    uint32_t serial = 0;
    std::atomic<uint32_t> divided{0};
  };

  void take(Named& named);
  void copy(Named& named) { named.refs.fetch_add(1, std::memory_order_relaxed); }
  void drop(Named& named);
  uint32_t list_of(std::span<const limit::Limit> limits, size_t most);
  void divide(uint32_t id);
  void forget_space(uint32_t id);
  void forget_list(uint32_t id);

  mutable std::mutex mutex_;  // of threads that intern; no worker does
  StableList<Place> spaces_;
  std::map<std::pair<std::string_view, std::string_view>, uint32_t> by_identity_;
  StableList<List> lists_;  // the n-th has number n + 1
  std::map<std::span<const limit::Limit>, uint32_t, Less> by_limits_;
  std::vector<uint32_t> free_spaces_, free_lists_;  // ids that are used again
  unsigned servers_ = 0;                            // divide_by
  std::atomic<size_t> spaces_known_{0}, lists_known_{0};
  std::atomic<int64_t> unnamed_{0};  // of both kinds
  // After the last round: that many were unnamed, and known, of both kinds.
  std::atomic<int64_t> left_unnamed_{0}, left_known_{0};
  mutable std::atomic<bool> full_{false};  // a caller did not find room since the last round
};

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

}  // namespace sluice::request
