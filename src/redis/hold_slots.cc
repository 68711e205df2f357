#include "redis/hold_slots.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "redis/cluster_map.h"

namespace sluice::redis {

namespace {

constexpr std::string_view id_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t made_id_size = 22, slot_digits = 3;

std::array<char, 8> hex_of(uint32_t number) {
  std::array<char, 8> text;
  for (size_t i = text.size(); i-- > 0; number >>= 4) text[i] = "0123456789abcdef"[number & 15];
  return text;
}

// For each slot the first number whose text is in it.
std::vector<uint32_t> first_numbers() {
  std::vector<uint32_t> numbers(slot_count);
  std::vector<bool> found(slot_count);
  size_t missing = slot_count;
  for (uint32_t number = 0; missing > 0; ++number) {
    SLUICE_CHECK(number < UINT32_MAX);
    const auto text = hex_of(number);
    const uint16_t slot = slot_of({text.data(), text.size()});
    if (found[slot]) continue;
    found[slot] = true;
    numbers[slot] = number;
    --missing;
  }
  return numbers;
}

}  // namespace

std::string HoldSlots::tag_of(uint16_t slot) {
  static const std::vector<uint32_t> numbers = first_numbers();
  const auto text = hex_of(numbers[slot]);
  return '{' + std::string(text.data(), text.size()) + '}';
}

std::string HoldSlots::with_slot(std::string id, uint16_t slot) {
  for (size_t i = slot_digits; i-- > 0;) id += id_digits[slot >> (6 * i) & 63];
  return id;
}

std::optional<uint16_t> HoldSlots::slot_in(std::string_view id) {
  if (id.size() != made_id_size + slot_digits) return std::nullopt;
  uint32_t slot = 0;
  for (const char c : id.substr(made_id_size)) {
    const size_t digit = id_digits.find(c);
    if (digit == id_digits.npos) return std::nullopt;
    slot = slot << 6 | static_cast<uint32_t>(digit);
  }
  if (slot >= slot_count) return std::nullopt;
  return static_cast<uint16_t>(slot);
}

std::optional<uint16_t> HoldSlots::slot_said(std::string_view text) {
  uint16_t slot = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error != std::errc() || slot >= slot_count) return std::nullopt;
  return slot;
}

bool HoldSlots::is_told(uint16_t slot) const {
  const std::lock_guard lock(mutex_);
  const auto at = slots_.find(slot);
  return at != slots_.end() && at->second.told;
}

void HoldSlots::set_told(uint16_t slot) {
  const std::lock_guard lock(mutex_);
  slots_[slot].told = true;
}

std::vector<uint16_t> HoldSlots::learn(const std::vector<uint16_t>& told) {
  const std::lock_guard lock(mutex_);
  for (auto& [slot, its] : slots_) its.told = false;
  for (const uint16_t slot : told) slots_[slot].told = true;
  std::vector<uint16_t> lost;
  for (const auto& [slot, its] : slots_)
    if (!its.told) lost.push_back(slot);
  return lost;
}

std::vector<uint16_t> HoldSlots::known() const {
  const std::lock_guard lock(mutex_);
  std::vector<uint16_t> all;
  all.reserve(slots_.size());
  for (const auto& [slot, its] : slots_) all.push_back(slot);
  return all;
}

void HoldSlots::note(uint16_t slot, base::Duration ends_in, Clock::time_point now, int64_t more) {
  const std::lock_guard lock(mutex_);
  Slot& its = slots_[slot];
  if (ends_in != base::never)
    its.next = std::min(its.next, now + std::chrono::microseconds(ends_in.us));
  its.more += more;
  more_ += more;
}

void HoldSlots::looked(uint16_t slot, size_t reservations, size_t places,
                       std::optional<base::Duration> next, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Slot& its = slots_[slot];
  counts_.reservations += reservations - std::exchange(its.reservations, reservations);
  counts_.places += places - std::exchange(its.places, places);
  more_ -= std::exchange(its.more, 0);
  if (next) its.next = std::min(its.next, now + std::chrono::microseconds(next->us));
}

std::vector<uint16_t> HoldSlots::due(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  std::vector<uint16_t> all;
  for (auto& [slot, its] : slots_) {
    if (its.next > now) continue;
    its.next = Clock::time_point::max();
    all.push_back(slot);
  }
  if (now < turn_at_) return all;
  turn_at_ = now + in_turn_every;
  const size_t ends = all.size();
  auto at = slots_.lower_bound(turn_);
  for (size_t i = 0; i < std::min(slots_.size(), in_turn); ++i, ++at) {
    if (at == slots_.end()) at = slots_.begin();
    if (!std::binary_search(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(ends),
                            at->first))
      all.push_back(at->first);
  }
  turn_ = at == slots_.end() ? 0 : at->first;
  return all;
}

HoldSlots::Counts HoldSlots::counts() const {
  const std::lock_guard lock(mutex_);
  const size_t gone =
      std::min(counts_.reservations, static_cast<size_t>(std::max<int64_t>(-more_, 0)));
  return {counts_.reservations - gone + static_cast<size_t>(std::max<int64_t>(more_, 0)),
          counts_.places};
}

}  // namespace sluice::redis
