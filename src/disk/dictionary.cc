#include "disk/dictionary.h"

#include <algorithm>

#include "base/printable.h"
#include "limit/decide.h"
#include "limit/kept_limits.h"

namespace sluice::disk {

namespace {

void set(std::vector<uint32_t>& numbers, uint32_t id, uint32_t number) {
  if (numbers.size() <= id) numbers.resize(std::max<size_t>(size_t{id} + 1, numbers.size() * 2));
  numbers[id] = number;
}

}  // namespace

bool Dictionary::load_space(uint32_t number, std::string_view value, std::string& problem) {
  limit::Space like;
  if (number != by_number_.size() + 1 || !parse_space(value, like)) {
    problem = "entry " + std::to_string(number) + " of its spaces is damaged";
    return false;
  }
  const std::string prefix = like.prefix, suffix = like.suffix;
  const auto windows = like.windows;
  const limit::Space* const space = spaces_.intern(prefix, suffix, std::move(like));
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
  const uint32_t id = spaces_.intern_limits(limits);
  limits_by_number_.push_back(id);
  set(limits_numbers_, id, number);
  return true;
}

uint32_t Dictionary::add(const limit::Space& space) {
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
  Fresh entry{false, static_cast<uint32_t>(limits_by_number_.size() + 1), {}};
  append_limits(entry.value, spaces_.limits(limits_id));
  limits_by_number_.push_back(limits_id);
  set(limits_numbers_, limits_id, entry.number);
  fresh_.push_back(std::move(entry));
  return fresh_.back().number;
}

uint32_t Dictionary::find(const limit::Space& space) const {
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
  if (stored.limits > limits_by_number_.size()) return false;
  record.limits_id = limits_by_number_[stored.limits - 1];
  return limit::cells(spaces_.limits(record.limits_id)) == stored.cell_count;
}

}  // namespace sluice::disk
