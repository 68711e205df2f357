#include "redis/name_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace sluice::redis {

namespace {

constexpr size_t slots_min = 16;
constexpr size_t first_place = 2;

}  // namespace

std::string_view NameSet::name_at(uint32_t place) const {
  uint32_t size;
  const char* const at = bytes_.data() + (place - first_place);
  std::memcpy(&size, at, sizeof size);
  return {at + sizeof size, size};
}

// The slot at which the search for a name begins.
size_t NameSet::first_slot(std::string_view name) const {
  static const base::Hash hash;
  return hash(0, name) & (table_.size() - 1);
}

// The slot of a name; table_.size(): it is not in the set.
size_t NameSet::find(std::string_view name) const {
  if (table_.empty()) return 0;
  const size_t mask = table_.size() - 1;
  for (size_t slot = first_slot(name);; slot = (slot + 1) & mask) {
    if (table_[slot] == free) return table_.size();
    if (table_[slot] > gone && name_at(table_[slot]) == name) return slot;
  }
}

size_t NameSet::longest_search() const {
  size_t longest = 0;
  each([&](std::string_view name) {
    const size_t first = first_slot(name), slots = table_.size();
    longest = std::max(longest, (find(name) + slots - first) % slots + 1);
  });
  return longest;
}

bool NameSet::contains(std::string_view name) const {
  return find(name) < table_.size();
}

bool NameSet::insert(std::string_view name) {
  if (contains(name)) return false;
  if (4 * (used_ + 1) > 3 * table_.size()) grow();
  const size_t mask = table_.size() - 1;
  size_t slot = first_slot(name);
  while (table_[slot] > gone) slot = (slot + 1) & mask;
  if (table_[slot] == free) ++used_;
  const size_t place = first_place + bytes_.size();
  SLUICE_CHECK(place + sizeof(uint32_t) + name.size() <= UINT32_MAX);
  const auto size = static_cast<uint32_t>(name.size());
  bytes_.append(reinterpret_cast<const char*>(&size), sizeof size).append(name);
  table_[slot] = static_cast<uint32_t>(place);
  ++size_;
  return true;
}

bool NameSet::erase(std::string_view name) {
  const size_t slot = find(name);
  if (slot >= table_.size()) return false;
  table_[slot] = gone;
  --size_;
  return true;
}

// Makes room for twice as many names, and drops the bytes of erased ones.
void NameSet::grow() {
  NameSet other;
  size_t slots = slots_min;
  while (slots < 3 * size_) slots *= 2;
  other.table_.assign(slots, free);
  each([&](std::string_view name) { other.insert(name); });
  *this = std::move(other);
}

}  // namespace sluice::redis
