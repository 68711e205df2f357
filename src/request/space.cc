#include "request/space.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/check.h"
#include "limit/gcra.h"

namespace sluice::request {

bool Spaces::Less::operator()(std::span<const limit::Limit> a,
                              std::span<const limit::Limit> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](const limit::Limit& x, const limit::Limit& y) {
                                        const auto key = [](const limit::Limit& one) {
                                          return std::tuple(one.algorithm, one.quota, one.window.us,
                                                            one.burst, one.calendar.code());
                                        };
                                        return key(x) < key(y);
                                      });
}

// Needs the mutex: only with it may the count of an entry that is not in use grow from 0.
void Spaces::take(Named& named) {
  if (named.refs.fetch_add(1, std::memory_order_relaxed) == 0)
    unnamed_.fetch_sub(1, std::memory_order_relaxed);
  named.dying = false;
}

void Spaces::drop(Named& named) {
  // Release, so that a round that reads a count of 0 sees everything done under the reference.
  if (named.refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
    unnamed_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<SpaceRef> Spaces::hold_all(std::string_view prefix) {
  const std::lock_guard lock(mutex_);
  std::vector<SpaceRef> held;
  for (auto at = by_identity_.lower_bound({prefix, {}});
       at != by_identity_.end() && at->first.first == prefix; ++at) {
    NamedSpace& place = spaces_[at->second];
    take(place);
    held.push_back(SpaceRef(*this, place.space));
  }
  return held;
}

SpaceRef Spaces::hold(std::string_view prefix, std::string_view suffix, const Space& like,
                      size_t most) {
  const std::lock_guard lock(mutex_);
  const auto known = by_identity_.find({prefix, suffix});
  if (known != by_identity_.end()) {
    NamedSpace& place = spaces_[known->second];
    take(place);
    return {*this, place.space};
  }
  if (known_spaces() >= most) {
    want_round();
    return {};
  }
  const auto fill = [&](NamedSpace& place, uint32_t id, uint32_t serial) {
    place.space = like;
    place.space.id = id;
    place.space.serial = serial;
    place.space.prefix = prefix;
    place.space.suffix = suffix;
    place.used = true;
    place.refs.store(1, std::memory_order_relaxed);
  };
  NamedSpace* place = nullptr;
  if (free_spaces_.empty()) {
    const auto id = static_cast<uint32_t>(spaces_.size());
    place = &spaces_.append([&](NamedSpace& its) { fill(its, id, 0); });
  } else {
    const uint32_t id = free_spaces_.back();
    free_spaces_.pop_back();
    place = &spaces_[id];
    fill(*place, id, place->space.serial + 1);
  }
  spaces_known_.fetch_add(1, std::memory_order_relaxed);
  by_identity_.emplace(
      std::pair<std::string_view, std::string_view>(place->space.prefix, place->space.suffix),
      place->space.id);
  return {*this, place->space};
}

LimitsRef Spaces::hold_limits(std::span<const limit::Limit> limits, size_t most) {
  const std::lock_guard lock(mutex_);
  const uint32_t id = list_of(limits, most);
  if (id == 0) {
    want_round();
    return {};
  }
  divide(id);
  return {*this, id};
}

LimitsRef Spaces::hold_brought(std::span<const limit::Limit> limits, uint64_t owner, base::Time now,
                               const LimitShares& shares) {
  const std::lock_guard lock(mutex_);
  const auto known = by_limits_.find(limits);
  const bool is_new = known == by_limits_.end();
  if (is_new || !lists_[known->second - 1].is_owned.load(std::memory_order_relaxed)) {
    const size_t count = known_lists();
    unowned_give_way_ |= is_new && count >= shares.all - shares.reserve;
    const bool admitted =
        owners_.admit(owner, is_new ? std::optional(count) : std::nullopt, shares, given_way_);
    for (const uint32_t list : given_way_) {
      lists_[list - 1].is_owned.store(false, std::memory_order_release);
      lists_[list - 1].gives_way = true;
    }
    given_way_.clear();
    if (!admitted) ++refused_;
    if (!admitted || owners_.leaving() >= std::min<size_t>(unnamed_min, shares.one)) want_round();
    if (!admitted) return {};
  }
  const uint32_t id = list_of(limits, SIZE_MAX);
  LimitList& list = lists_[id - 1];
  if (!list.is_owned.load(std::memory_order_relaxed)) {
    list.used_us.store(now.us, std::memory_order_relaxed);
    owners_.own(owner, id, now.us);
    list.gives_way = false;
    list.is_owned.store(true, std::memory_order_release);
  } else {
    use_brought(id, now);
  }
  divide(id);
  return {*this, id};
}

Spaces::BroughtCounts Spaces::brought() const {
  const std::lock_guard lock(mutex_);
  return {owners_.given_way(), refused_};
}

// The number of the list, with a reference taken. Needs the mutex.
uint32_t Spaces::list_of(std::span<const limit::Limit> limits, size_t most) {
  const auto known = by_limits_.find(limits);
  if (known != by_limits_.end()) {
    take(lists_[known->second - 1]);
    return known->second;
  }
  if (known_lists() >= most) return 0;
  const auto fill = [&](LimitList& list) {
    list.limits.assign(limits.begin(), limits.end());
    list.used = true;
    list.refs.store(1, std::memory_order_relaxed);
  };
  uint32_t id = 0;
  if (free_lists_.empty()) {
    lists_.append(fill);
    id = static_cast<uint32_t>(lists_.size());
  } else {
    id = free_lists_.back();
    free_lists_.pop_back();
    fill(lists_[id - 1]);
  }
  lists_known_.fetch_add(1, std::memory_order_relaxed);
  by_limits_.emplace(lists_[id - 1].limits, id);
  return id;
}

const Space* Spaces::intern(std::string_view prefix, std::string_view suffix, const Space& like,
                            size_t most) {
  SpaceRef held = hold(prefix, suffix, like, most);
  held.spaces_ = nullptr;
  return std::exchange(held.space_, nullptr);
}

uint32_t Spaces::intern_limits(std::span<const limit::Limit> limits, size_t most) {
  LimitsRef held = hold_limits(limits, most);
  return std::exchange(held.id_, 0);
}

std::span<const limit::Limit> Spaces::limits(uint32_t id) const {
  SLUICE_CHECK(id >= 1);
  return lists_[id - 1].limits;
}

limit::Limit Spaces::share_of(limit::Limit limit, unsigned servers) {
  if (limit::gcra::is_gcra(limit.algorithm)) return limit::gcra::share_of(limit, servers);
  const auto share = [servers](int64_t units) {
    return units <= 0 ? units : std::max<int64_t>(1, units / servers);
  };
  limit.quota = share(limit.quota);
  if (limit::is_bucket(limit)) limit.burst = share(limit.burst);
  return limit;
}

void Spaces::divide_by(unsigned servers) {
  SLUICE_CHECK(servers > 0);
  const std::lock_guard lock(mutex_);
  if (servers_ == servers) return;
  SLUICE_CHECK(servers_ == 0);
  servers_ = servers;
  const size_t known = lists_.size();
  for (size_t i = 0; i < known; ++i)
    if (lists_[i].used) divide(static_cast<uint32_t>(i + 1));
}

// Gives a list that is in use its shares. Shares get none of their own, unless rules use them as
// well. Needs the mutex.
void Spaces::divide(uint32_t id) {
  LimitList& list = lists_[id - 1];
  if (servers_ == 0 || list.divided.load(std::memory_order_relaxed) != 0) return;
  std::vector<limit::Limit> shares;
  for (const limit::Limit& limit : list.limits) shares.push_back(share_of(limit, servers_));
  const bool same = !Less()(shares, list.limits) && !Less()(list.limits, shares);
  list.divided.store(same ? id : list_of(shares, SIZE_MAX), std::memory_order_release);
}

uint32_t Spaces::divided(uint32_t id) const {
  SLUICE_CHECK(id >= 1);
  return lists_[id - 1].divided.load(std::memory_order_acquire);
}

bool Spaces::wants_round() const {
  const int64_t unnamed = unnamed_.load(std::memory_order_relaxed);
  if (full_.load(std::memory_order_relaxed)) return unnamed > 0;
  return unnamed - left_unnamed_.load(std::memory_order_relaxed) >=
         std::max(unnamed_min, left_known_.load(std::memory_order_relaxed) / 4);
}

Marks Spaces::begin_round() {
  const std::lock_guard lock(mutex_);
  const auto begin = [](auto& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      Named& named = all[i];
      named.dying = named.used && named.refs.load(std::memory_order_acquire) == 0;
    }
  };
  begin(spaces_);
  begin(lists_);
  full_.store(false, std::memory_order_relaxed);
  Marks marks;
  marks.spaces_.resize(spaces_.size());
  marks.lists_.resize(lists_.size() + 1);
  const bool all_unowned = std::exchange(unowned_give_way_, false);
  for (uint32_t id = 1; id < marks.lists_.size(); ++id) {
    const LimitList& list = lists_[id - 1];
    if (!list.dying || !(list.gives_way || (all_unowned && !list.is_owned.load()))) continue;
    if (marks.giving_way_.empty()) marks.giving_way_.resize(marks.lists_.size());
    marks.giving_way_[id] = true;
  }
  if (!marks.giving_way_.empty()) {
    if (instead_ == 0) instead_ = list_of({&instead_limit, 1}, SIZE_MAX);
    if (instead_ < marks.giving_way_.size()) marks.giving_way_[instead_] = false;
    marks.instead_ = instead_;
  }
  return marks;
}

size_t Spaces::end_round(const Marks& marks) {
  const std::lock_guard lock(mutex_);
  size_t forgotten = 0;
  for (uint32_t id = 0; id < marks.spaces_.size(); ++id) {
    if (!std::exchange(spaces_[id].dying, false) || marks.spaces_[id]) continue;
    forget_space(id);
    ++forgotten;
  }
  for (uint32_t id = 1; id < marks.lists_.size(); ++id) {
    if (!std::exchange(lists_[id - 1].dying, false) || marks.lists_[id]) continue;
    forget_list(id);
    ++forgotten;
  }
  left_unnamed_.store(unnamed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  left_known_.store(static_cast<int64_t>(known_spaces() + known_lists()),
                    std::memory_order_relaxed);
  return forgotten;
}

// Only the serial remains. Needs the mutex, as does the next function.
void Spaces::forget_space(uint32_t id) {
  NamedSpace& place = spaces_[id];
  by_identity_.erase({place.space.prefix, place.space.suffix});
  const uint32_t serial = place.space.serial;
  place.space = {};
  place.space.serial = serial;
  place.used = false;
  free_spaces_.push_back(id);
  spaces_known_.fetch_sub(1, std::memory_order_relaxed);
  unnamed_.fetch_sub(1, std::memory_order_relaxed);
}

void Spaces::forget_list(uint32_t id) {
  LimitList& list = lists_[id - 1];
  by_limits_.erase(list.limits);
  list.limits = std::vector<limit::Limit>();
  ++list.serial;
  list.used = false;
  list.gives_way = false;
  list.is_owned.store(false, std::memory_order_relaxed);
  owners_.forget(id);
  const uint32_t divided = list.divided.exchange(0, std::memory_order_relaxed);
  // A counter may still name the shares; a later round forgets them.
  if (divided != 0 && divided != id) drop(lists_[divided - 1]);
  free_lists_.push_back(id);
  lists_known_.fetch_sub(1, std::memory_order_relaxed);
  unnamed_.fetch_sub(1, std::memory_order_relaxed);
}

SpaceIndex::SpaceIndex(std::span<const Space* const> spaces) {
  for (const Space* space : spaces) {
    if (space->id >= by_id_.size()) by_id_.resize(space->id + 1, nullptr);
    if (by_id_[space->id] != nullptr) continue;
    by_id_[space->id] = space;
    by_prefix_[space->prefix].push_back(space);
    sizes_.push_back(space->prefix.size());
  }
  for (auto& [prefix, its] : by_prefix_)
    std::sort(its.begin(), its.end(),
              [](const Space* a, const Space* b) { return a->suffix.size() > b->suffix.size(); });
  std::sort(sizes_.begin(), sizes_.end(), std::greater<>());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
}

std::optional<SpaceIndex::Found> SpaceIndex::find(std::string_view stored) const {
  for (const size_t size : sizes_) {
    if (size > stored.size()) continue;
    const auto its = by_prefix_.find(stored.substr(0, size));
    if (its == by_prefix_.end()) continue;
    const std::string_view rest = stored.substr(size);
    for (const Space* space : its->second)
      if (rest.ends_with(space->suffix))
        return Found{space, rest.substr(0, rest.size() - space->suffix.size())};
  }
  return std::nullopt;
}

}  // namespace sluice::request
