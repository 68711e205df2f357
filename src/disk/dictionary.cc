#include "disk/dictionary.h"

#include <algorithm>

#include "base/printable.h"
#include "limit/kept_limits.h"
#include "limit/left_out.h"

namespace sluice::disk {

namespace {

template <class T>
void set(std::vector<T>& numbers, uint32_t id, T number) {
  if (numbers.size() <= id) numbers.resize(std::max<size_t>(size_t{id} + 1, numbers.size() * 2));
  numbers[id] = number;
}

}  // namespace

Dictionary::~Dictionary() {
  free_all(families_.places);
  free_all(lists_.places);
}

template <class T>
void Dictionary::free_all(Slots<T>& places) {
  for (size_t i = 0; i < places.size(); ++i) delete places[i].its.load();
}

// Null: there is no such number.
template <class T>
T* Dictionary::at(const Slots<T>& places, uint32_t number) {
  if (number < 1 || number > places.size()) return nullptr;
  return places[number - 1].its.load(std::memory_order_acquire);
}

std::pair<std::string_view, std::string_view> Dictionary::key_of(const Family& family) {
  return {family.like.prefix, family.like.suffix};
}

std::string Dictionary::key_of(const LimitList& list) {
  std::string value;
  append_limits(value, list.limits);
  return value;
}

// Gives it a number. What had that before is read no more but by a round that has just ended.
template <class T, class Numbers, class Key>
uint32_t Dictionary::put(Kind<T, Numbers>& kind, std::unique_ptr<T> one, const Key& key) {
  uint32_t number = 0;
  ++used_;
  while (!kind.free.empty() && number == 0) {
    // It may have been named again.
    if (at(kind.places, kind.free.back())->is_free) number = kind.free.back();
    kind.free.pop_back();
  }
  if (number == 0) {
    kind.places.append([&](Slot<T>& place) { place.its.store(one.release()); });
    number = static_cast<uint32_t>(kind.places.size());
  } else {
    auto& its = kind.places[number - 1].its;
    kind.numbers.erase(key_of(*its.load()));
    kind.retired.emplace_back(its.exchange(one.release()));
  }
  kind.numbers.insert_or_assign(key, number);
  return number;
}

// Of what must be committed; 0: it has none.
template <class T, class Numbers, class Key>
uint32_t Dictionary::name(Kind<T, Numbers>& kind, const Key& key) {
  if (all_met_.exchange(false)) find_free();
  const auto known = kind.numbers.find(key);
  if (known == kind.numbers.end()) return 0;
  T& its = *at(kind.places, known->second);
  its.named.store(true);
  if (std::exchange(its.is_free, false)) ++used_;
  return known->second;
}

base::Done Dictionary::load_space(uint32_t number, std::string_view value) {
  auto family = std::make_unique<Family>();
  if (number != spaces() + 1 || !parse_space(value, family->like))
    return base::Problem{"entry " + std::to_string(number) + " of its spaces is damaged"};
  const request::Space& like = family->like;
  family->held = spaces_.hold(like.prefix, like.suffix, like);
  const request::Space* const space = family->held.get();
  if (space->windows != like.windows)
    return base::Problem{"its counters of `" + base::printable(like.prefix, 64) +
                         "` have other windows than this program gives them"};
  family->space.store(space);
  const auto key = key_of(*family);
  put(families_, std::move(family), key);
  const std::lock_guard lock(mutex_);
  set(shared_numbers_, space->id, number);
  return {};
}

base::Done Dictionary::load_limits(uint32_t number, std::string_view value) {
  auto list = std::make_unique<LimitList>();
  if (number != lists() + 1 || !parse_limits(value, list->limits))
    return base::Problem{"entry " + std::to_string(number) + " of its limits is damaged"};
  put(lists_, std::move(list), std::string(value));
  return {};
}

uint32_t Dictionary::add(const request::Space& space) {
  uint32_t number =
      name(families_, std::pair<std::string_view, std::string_view>(space.prefix, space.suffix));
  if (number == 0) {
    auto family = std::make_unique<Family>();
    family->like = space;
    family->named.store(true);
    const auto key = key_of(*family);
    number = put(families_, std::move(family), key);
    Fresh entry{true, number, {}};
    append_space(entry.value, space);
    fresh_.push_back(std::move(entry));
  }
  set(space_numbers_, space.id, {number, space.serial});
  const std::lock_guard lock(mutex_);
  set(shared_numbers_, space.id, number);
  return number;
}

uint32_t Dictionary::add_limits(uint32_t limits_id) {
  const auto limits = spaces_.limits(limits_id);
  Fresh entry{false, 0, {}};
  append_limits(entry.value, limits);
  entry.number = name(lists_, entry.value);
  const uint32_t number = entry.number;
  if (number == 0) {
    auto list = std::make_unique<LimitList>();
    list->limits.assign(limits.begin(), limits.end());
    list->named.store(true);
    entry.number = put(lists_, std::move(list), entry.value);
    fresh_.push_back(std::move(entry));
  }
  set(limits_numbers_, limits_id,
      {number != 0 ? number : fresh_.back().number, spaces_.serial_of_limits(limits_id)});
  return number != 0 ? number : fresh_.back().number;
}

void Dictionary::find_free() {
  find_free(families_);
  find_free(lists_);
  left_ = used_;
}

// The entries stay as they are until something else takes their numbers.
template <class T, class Numbers>
void Dictionary::find_free(Kind<T, Numbers>& kind) {
  for (const auto& [key, number] : kind.numbers) {
    T& its = *at(kind.places, number);
    if (its.named.load() || its.is_free) continue;
    its.is_free = true;
    kind.free.push_back(number);
    --used_;
  }
}

bool Dictionary::wants_round() {
  if (all_met_.exchange(false)) find_free();
  return used_ >= left_ + std::max(more_min_, left_ / 4);
}

void Dictionary::begin_round() {
  const auto begin = [](auto& kind) {
    kind.retired.clear();
    for (const auto& [key, number] : kind.numbers) at(kind.places, number)->named.store(false);
  };
  all_met_.store(false);
  begin(families_);
  begin(lists_);
  // So whatever is committed from here on says that it is named.
  space_numbers_.clear();
  limits_numbers_.clear();
}

void Dictionary::all_is_loaded() {
  const std::lock_guard lock(mutex_);
  shared_numbers_.clear();
  for (size_t i = 0; i < spaces(); ++i) {
    Family& family = *families_.places[i].its.load();
    family.space.store(nullptr);
    family.held = {};
  }
  for (size_t i = 0; i < lists(); ++i) {
    LimitList& list = *lists_.places[i].its.load();
    list.id.store(0);
    list.held = {};
  }
}

uint32_t Dictionary::find(const request::Space& space) const {
  const std::lock_guard lock(mutex_);
  return space.id < shared_numbers_.size() ? shared_numbers_[space.id] : 0;
}

const request::Space* Dictionary::space_of(Family& family) const {
  if (const request::Space* const space = family.space.load(std::memory_order_acquire))
    return space;
  const std::lock_guard lock(mutex_);
  if (!family.held) family.held = spaces_.hold(family.like.prefix, family.like.suffix, family.like);
  family.space.store(family.held.get(), std::memory_order_release);
  return family.held.get();
}

uint32_t Dictionary::id_of(LimitList& list) const {
  if (const uint32_t id = list.id.load(std::memory_order_acquire); id != 0) return id;
  const std::lock_guard lock(mutex_);
  if (!list.held) list.held = spaces_.hold_limits(list.limits);
  list.id.store(list.held.id(), std::memory_order_release);
  return list.held.id();
}

bool Dictionary::resolve(const StoredCounter& stored, Record& record) const {
  Family* const family = family_of(stored);
  if (family == nullptr) return false;
  record.space = space_of(*family);
  record.key = stored.key;
  record.cells = stored.state();
  record.forget_us = stored.forget_us;
  record.limits_id = 0;
  if (stored.cell_count == 0) return true;
  if (stored.limits == 0)
    return !record.space->windows.empty() &&
           limit::kept_limits::is_valid(record.space->windows, record.cells);
  LimitList* const list = list_of(stored);
  if (list == nullptr) return false;
  record.limits_id = id_of(*list);
  return true;
}

// The space that it names, which is one that is named from now on.
Dictionary::Family* Dictionary::family_of(const StoredCounter& stored) const {
  Family* const family = at(families_.places, stored.space);
  if (family != nullptr) family->named.store(true, std::memory_order_relaxed);
  return family;
}

// The list that it names and whose state it has, which is one that is named from now on.
Dictionary::LimitList* Dictionary::list_of(const StoredCounter& stored) const {
  LimitList* const list = at(lists_.places, stored.limits);
  if (list == nullptr) return nullptr;
  list->named.store(true, std::memory_order_relaxed);
  return limit::left_out::fits(list->limits, stored.state()) ? list : nullptr;
}

bool Dictionary::is_known(const StoredCounter& stored) const {
  const Family* const family = family_of(stored);
  if (family == nullptr) return false;
  if (stored.cell_count == 0) return true;
  if (stored.limits != 0) return list_of(stored) != nullptr;
  const request::Space& space = family->like;
  return !space.windows.empty() && limit::kept_limits::is_valid(space.windows, stored.state());
}

}  // namespace sluice::disk
