#include "disk/dictionary.h"

#include <algorithm>

#include "base/printable.h"
#include "limit/kept_limits.h"
#include "limit/left_out.h"

namespace sluice::disk {

namespace {

void set(std::vector<uint32_t>& numbers, uint32_t id, uint32_t number) {
  if (numbers.size() <= id) numbers.resize(std::max<size_t>(size_t{id} + 1, numbers.size() * 2));
  numbers[id] = number;
}

}  // namespace

bool Dictionary::load_space(uint32_t number, std::string_view value, std::string& problem) {
  request::Space like;
  if (number != by_number_.size() + 1 || !parse_space(value, like)) {
    problem = "entry " + std::to_string(number) + " of its spaces is damaged";
    return false;
  }
  const std::string prefix = like.prefix, suffix = like.suffix;
  const auto windows = like.windows;
  const request::Space* const space = spaces_.intern(prefix, suffix, std::move(like));
  if (space->windows != windows) {
    problem = "its counters of `" + base::printable(prefix, 64) +
              "` have other windows than this program gives them";
    return false;
  }
  by_number_.push_back(space);
  set(space_numbers_, space->id, number);
  const std::lock_guard lock(mutex_);
  set(shared_numbers_, space->id, number);
  return true;
}

bool Dictionary::load_limits(uint32_t number, std::string_view value, std::string& problem) {
  std::vector<limit::Limit> limits;
  if (number != limits_by_number_.size() + 1 || !parse_limits(value, limits)) {
    problem = "entry " + std::to_string(number) + " of its limits is damaged";
    return false;
  }
  limits_by_number_.push_back(std::make_unique<std::atomic<List*>>(&make_list(std::move(limits))));
  number_by_value_.insert_or_assign(std::string(value), number);
  return true;
}

Dictionary::List& Dictionary::make_list(std::vector<limit::Limit> limits) {
  lists_.push_back(std::make_unique<List>());
  lists_.back()->limits = std::move(limits);
  return *lists_.back();
}

uint32_t Dictionary::add(const request::Space& space) {
  Fresh entry{true, static_cast<uint32_t>(by_number_.size() + 1), {}};
  append_space(entry.value, space);
  by_number_.push_back(&space);
  set(space_numbers_, space.id, entry.number);
  const std::lock_guard lock(mutex_);
  set(shared_numbers_, space.id, entry.number);
  fresh_.push_back(std::move(entry));
  return fresh_.back().number;
}

uint32_t Dictionary::add_limits(uint32_t limits_id) {
  Fresh entry{false, 0, {}};
  const auto limits = spaces_.limits(limits_id);
  append_limits(entry.value, limits);
  if (all_met_.exchange(false)) find_free();
  if (const auto at = number_by_value_.find(entry.value); at != number_by_value_.end()) {
    limits_by_number_[at->second - 1]->load()->named.store(true);
    set(limits_numbers_, limits_id, at->second);
    return at->second;
  }
  List& list = make_list({limits.begin(), limits.end()});
  list.id.store(limits_id);
  list.named.store(true);
  if (free_.empty()) {
    limits_by_number_.push_back(std::make_unique<std::atomic<List*>>(&list));
    entry.number = static_cast<uint32_t>(limits_by_number_.size());
  } else {
    entry.number = free_.back();
    free_.pop_back();
    limits_by_number_[entry.number - 1]->store(&list);
  }
  set(limits_numbers_, limits_id, entry.number);
  number_by_value_.emplace(entry.value, entry.number);
  fresh_.push_back(std::move(entry));
  return fresh_.back().number;
}

// The entries stay as they are until another list takes their numbers.
void Dictionary::find_free() {
  for (auto at = number_by_value_.begin(); at != number_by_value_.end();) {
    if (limits_by_number_[at->second - 1]->load()->named.load()) {
      ++at;
      continue;
    }
    free_.push_back(at->second);
    at = number_by_value_.erase(at);
  }
}

uint32_t Dictionary::find(const request::Space& space) const {
  const std::lock_guard lock(mutex_);
  return space.id < shared_numbers_.size() ? shared_numbers_[space.id] : 0;
}

bool Dictionary::resolve(const StoredCounter& stored, Record& record) const {
  if (stored.space < 1 || stored.space > by_number_.size()) return false;
  record.space = by_number_[stored.space - 1];
  record.key = stored.key;
  record.cells = stored.state();
  record.forget_us = stored.forget_us;
  record.limits_id = 0;
  if (stored.cell_count == 0) return true;
  if (stored.limits == 0)
    return !record.space->windows.empty() &&
           limit::kept_limits::is_valid(record.space->windows, record.cells);
  const List* const list = list_of(stored);
  if (list == nullptr) return false;
  record.limits_id = list->id.load(std::memory_order_acquire);
  if (record.limits_id == 0) {
    record.limits_id = spaces_.intern_limits(list->limits);
    const_cast<List*>(list)->id.store(record.limits_id, std::memory_order_release);
  }
  return true;
}

// The list that it names and whose state it has, which is one that is named from now on.
const Dictionary::List* Dictionary::list_of(const StoredCounter& stored) const {
  if (stored.limits < 1 || stored.limits > limits_by_number_.size()) return nullptr;
  List* const list = limits_by_number_[stored.limits - 1]->load(std::memory_order_acquire);
  list->named.store(true, std::memory_order_relaxed);
  return limit::left_out::fits(list->limits, stored.state()) ? list : nullptr;
}

bool Dictionary::is_known(const StoredCounter& stored) const {
  if (stored.space < 1 || stored.space > by_number_.size()) return false;
  if (stored.cell_count == 0) return true;
  if (stored.limits != 0) return list_of(stored) != nullptr;
  const request::Space& space = *by_number_[stored.space - 1];
  return !space.windows.empty() && limit::kept_limits::is_valid(space.windows, stored.state());
}

}  // namespace sluice::disk
