// Whose requests brought which lists of limits, and which lists give way when there are too many:
// so one client cannot use up the numbers of all. A list belongs to the client that brought it
// first; whoever brings it again makes it used, and of its lists a client loses the one that was
// used least recently. It is not forgotten at once: that takes a round (request/space.h), until
// which it counts as `leaving`. No lock of its own: Spaces has one around every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::request {

// How many lists there may be of those that come with requests. Values.
struct LimitShares {
  // The lists that the process knows, those of rules and overrides included. Past it a new one is
  // refused until some are forgotten.
  size_t all = SIZE_MAX;
  // Of `all`, the last ones, of which each new one makes a list of the largest owner give way. They
  // are for owners that have at most `few`; others are refused.
  size_t reserve = 0;
  size_t few = SIZE_MAX;
  // The lists of one owner; as many more may be leaving. Past the first its own give way, past both
  // it is refused.
  size_t one = SIZE_MAX;
};

class LimitOwners {
 public:
  // The last use of a list, by any client.
  using UsedAt = std::function<int64_t(uint32_t list)>;
  explicit LimitOwners(UsedAt used_at) : used_at_(std::move(used_at)) {}

  // May the owner bring a list that nobody owns? `known`: the lists that the process knows; nothing
  // if this one is among them. Appends to `given_way` the lists that nobody owns from now on. True:
  // the caller calls `own`. By logarithmic time.
  bool admit(uint64_t owner, std::optional<size_t> known, const LimitShares& shares,
             std::vector<uint32_t>& given_way);
  void own(uint64_t owner, uint32_t list, int64_t now_us);
  // The list is no longer known.
  void forget(uint32_t list);

  // The lists that are leaving, of all owners; and of how many owners it knows.
  size_t leaving() const { return leaving_; }
  size_t owners() const { return owners_.size(); }
  size_t held_by(uint64_t owner) const;
  // The lists that have given way, since the start.
  uint64_t given_way() const { return given_way_; }

 private:
  struct Owner {
    uint64_t name = 0;
    std::set<std::pair<int64_t, uint32_t>> lists;  // by a time not after their last use
    size_t leaving = 0;
  };
  struct Place {
    Owner* owner = nullptr;  // null: of nobody
    Owner* left = nullptr;   // whom it is leaving; null: it is not
    int64_t noted_us = 0;    // its time in Owner::lists
  };

  Place& place_of(uint32_t list);
  void resize(Owner& owner, size_t was);
  uint32_t least_used(Owner& owner);
  void give_way(Owner& owner, std::vector<uint32_t>& given_way);
  void arrive(Place& place);
  void drop_if_idle(Owner& owner);

  const UsedAt used_at_;
  std::unordered_map<uint64_t, Owner> owners_;     // whoever has lists or leaving ones
  std::set<std::pair<size_t, uint64_t>> by_size_;  // those that have lists
  std::vector<Place> places_;                      // by list
  size_t leaving_ = 0;
  uint64_t given_way_ = 0;
};

}  // namespace sluice::request
