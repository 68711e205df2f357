#include "request/limit_owners.h"

#include <utility>

#include "base/check.h"

namespace sluice::request {

LimitOwners::Place& LimitOwners::place_of(uint32_t list) {
  if (list >= places_.size()) places_.resize(list + size_t{1});
  return places_[list];
}

bool LimitOwners::admit(uint64_t owner, std::optional<size_t> known, const LimitShares& shares,
                        std::vector<uint32_t>& given_way) {
  const auto at = owners_.find(owner);
  Owner* const its = at == owners_.end() ? nullptr : &at->second;
  const size_t has = its == nullptr ? 0 : its->lists.size();
  const size_t leaves = its == nullptr ? 0 : its->leaving;
  if (known && *known >= shares.all - shares.reserve) {
    // Enough is leaving if all of the reserve will be there again.
    if (leaving_ < shares.reserve && !by_size_.empty())
      give_way(owners_.at(by_size_.rbegin()->second), given_way);
    if (*known >= shares.all || has + leaves > shares.few) return false;
  }
  if (has < shares.one) return true;
  if (leaves >= shares.one) return false;
  // It may have been the largest one just now.
  while (its->lists.size() >= shares.one) give_way(*its, given_way);
  return true;
}

void LimitOwners::own(uint64_t owner, uint32_t list, int64_t now_us) {
  Owner& its = owners_[owner];
  its.name = owner;
  Place& place = place_of(list);
  SLUICE_CHECK(place.owner == nullptr);
  place.owner = &its;
  place.noted_us = now_us;
  its.lists.emplace(now_us, list);
  resize(its, its.lists.size() - 1);
  arrive(place);
}

void LimitOwners::forget(uint32_t list) {
  if (list >= places_.size()) return;
  Place& place = places_[list];
  arrive(place);
  if (place.owner == nullptr) return;
  Owner& its = *std::exchange(place.owner, nullptr);
  its.lists.erase({place.noted_us, list});
  resize(its, its.lists.size() + 1);
  drop_if_idle(its);
}

size_t LimitOwners::held_by(uint64_t owner) const {
  const auto at = owners_.find(owner);
  return at == owners_.end() ? 0 : at->second.lists.size();
}

// Keeps by_size_ in order after the owner had `was` lists.
void LimitOwners::resize(Owner& owner, size_t was) {
  auto node = by_size_.extract({was, owner.name});
  if (owner.lists.empty()) return;
  if (node.empty()) {
    by_size_.emplace(owner.lists.size(), owner.name);
    return;
  }
  node.value().first = owner.lists.size();
  by_size_.insert(std::move(node));
}

// A use moves a list in the order only when it would be the next to go.
uint32_t LimitOwners::least_used(Owner& owner) {
  for (;;) {
    auto node = owner.lists.extract(owner.lists.begin());
    const uint32_t list = node.value().second;
    const int64_t used_us = used_at_(list);
    const bool is_least = used_us <= node.value().first;
    if (!is_least) places_[list].noted_us = node.value().first = used_us;
    owner.lists.insert(std::move(node));
    if (is_least) return list;
  }
}

void LimitOwners::give_way(Owner& owner, std::vector<uint32_t>& given_way) {
  const uint32_t list = least_used(owner);
  Place& place = places_[list];
  owner.lists.erase({place.noted_us, list});
  resize(owner, owner.lists.size() + 1);
  place.owner = nullptr;
  place.left = &owner;
  ++owner.leaving;
  ++leaving_;
  ++given_way_;
  given_way.push_back(list);
}

// It is not leaving any more.
void LimitOwners::arrive(Place& place) {
  if (place.left == nullptr) return;
  Owner& its = *std::exchange(place.left, nullptr);
  --its.leaving;
  --leaving_;
  drop_if_idle(its);
}

void LimitOwners::drop_if_idle(Owner& owner) {
  if (owner.lists.empty() && owner.leaving == 0) owners_.erase(owner.name);
}

}  // namespace sluice::request
