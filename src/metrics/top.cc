#include "metrics/top.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace sluice::metrics {
namespace {

// As memcpy for what is mostly short; the compiler's own for a bounded length is several times
// slower.
void copy(char* to, const char* from, size_t bytes) {
  if (bytes >= 16) {
    for (size_t at = 0; at + 16 < bytes; at += 16) std::memcpy(to + at, from + at, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (size_t at = 0; at < bytes; ++at) to[at] = from[at];
  }
}

}  // namespace

void TopSketch::Order::clear() {
  counts.fill(untracked);
  tracked = least = 0;
  cursor = slots;
}

uint64_t TopSketch::Order::untracked_max() const {
  return is_full() ? *std::min_element(counts.begin(), counts.end()) : 0;
}

uint16_t TopSketch::Order::find_least() {
  for (;;) {
    while (cursor < slots) {
      const uint32_t at = cursor++;
      if (counts[at] == least) return static_cast<uint16_t>(at);
    }
    uint32_t found = untracked;
    for (size_t i = 0; i < slots; ++i) found = counts[i] < found ? counts[i] : found;
    least = found;
    cursor = 0;
  }
}

void TopSketch::clear() {
  heads_.fill(none);
  free_count_ = used_ = 0;
  active_.clear();
  denied_.clear();
}

// The slot of a key that is not tracked among the active; none: it has no slot yet.
uint16_t TopSketch::admit(uint16_t slot, uint64_t hash, const Named& named) {
  uint32_t error = 0;
  uint16_t room = none;
  if (active_.is_full()) [[likely]] {
    const uint16_t least = active_.find_least();
    error = active_.counts[least];
    active_.counts[least] = untracked;
    if (denied_.counts[least] == untracked) [[likely]] {
      unlink(least);
      room = least;
    } else {
      slots_[least].active_before += error - slots_[least].active_error;
    }
  } else {
    ++active_.tracked;
  }
  if (slot == none) [[likely]] {
    if (room == none) room = free_count_ > 0 ? free_[--free_count_] : used_++;
    slot = room;
    put(slot, hash, named);
  } else if (room != none) {
    free_[free_count_++] = room;
  }
  active_.counts[slot] = error + 1;
  slots_[slot].active_error = error;
  return slot;
}

void TopSketch::admit_denied(uint16_t slot) {
  uint32_t error = 0;
  if (denied_.is_full()) {
    const uint16_t least = denied_.find_least();
    error = denied_.counts[least];
    denied_.counts[least] = untracked;
    if (active_.counts[least] == untracked) {
      unlink(least);
      free_[free_count_++] = least;
    } else {
      slots_[least].denied_before += error - slots_[least].denied_error;
    }
  } else {
    ++denied_.tracked;
  }
  denied_.counts[slot] = error + 1;
  slots_[slot].denied_error = error;
}

void TopSketch::unlink(uint16_t slot) {
  uint16_t* at = &heads_[hashes_[slot] & (heads - 1)];
  while (*at != slot) at = &next_[*at];
  *at = next_[slot];
}

void TopSketch::put(uint16_t slot, uint64_t hash, const Named& named) {
  uint16_t& head = heads_[hash & (heads - 1)];
  next_[slot] = head;
  head = slot;
  hashes_[slot] = hash;
  Slot& s = slots_[slot];
  s.family = named.family;
  s.rule = named.rule;
  s.name = named.name;
  s.has_actor = named.actor.data() != nullptr;
  // Where both do not fit, each has half of the room, or what the other leaves.
  const size_t key_size = named.key.size(), actor_size = named.actor.size();
  const size_t for_actor =
      std::min(actor_size, key_bytes_max - std::min(key_size, key_bytes_max / 2));
  const size_t for_key = std::min(key_size, key_bytes_max - for_actor);
  s.cut = for_key < key_size || for_actor < actor_size;
  s.key_bytes = static_cast<uint16_t>(for_key);
  s.actor_bytes = static_cast<uint16_t>(for_actor);
  s.active_before = s.denied_before = 0;
  copy(s.key.data(), named.key.data(), for_key);
  copy(s.key.data() + for_key, named.actor.data(), for_actor);
}

void TopSketch::copy_to(TopSketch& other) const {
  other.heads_ = heads_;
  other.active_ = active_;
  other.denied_ = denied_;
  other.free_count_ = free_count_;
  other.used_ = used_;
  std::copy_n(hashes_.begin(), used_, other.hashes_.begin());
  std::copy_n(next_.begin(), used_, other.next_.begin());
  std::copy_n(free_.begin(), free_count_, other.free_.begin());
  for (size_t i = 0; i < used_; ++i) {
    constexpr size_t fixed = offsetof(Slot, key);
    const Slot& s = slots_[i];
    std::memcpy(&other.slots_[i], &s, fixed + s.key_bytes + s.actor_bytes);
  }
}

std::vector<Tracked> TopSketch::tracked() const {
  std::vector<Tracked> all;
  for (size_t i = 0; i < used_; ++i) {
    const Slot& s = slots_[i];
    Tracked t;
    t.active.is_tracked = active_.counts[i] != untracked;
    t.denied.is_tracked = denied_.counts[i] != untracked;
    if (!t.active.is_tracked && !t.denied.is_tracked) continue;
    t.hash = hashes_[i];
    t.family = s.family;
    t.name = s.name;
    t.rule = s.rule;
    t.key.assign(s.key.data(), s.key_bytes);
    t.has_actor = s.has_actor;
    t.actor.assign(s.key.data() + s.key_bytes, s.actor_bytes);
    t.cut = s.cut;
    // Every decision of a key that has a slot is one among the active.
    uint64_t seen = s.active_before;
    t.seen_denied = s.denied_before;
    if (t.active.is_tracked) {
      t.active = {true, active_.counts[i], s.active_error};
      seen += active_.counts[i] - s.active_error;
    }
    if (t.denied.is_tracked) {
      t.denied = {true, denied_.counts[i], s.denied_error};
      t.seen_denied += denied_.counts[i] - s.denied_error;
    }
    t.seen_allowed = seen - t.seen_denied;
    all.push_back(std::move(t));
  }
  return all;
}

Top::Top() {
  for (Generation& generation : all_)
    generation.sketch = std::unique_ptr<TopSketch>(new TopSketch);  // not zeroed
}

void Top::begin_period(base::Time now) {
  const int64_t period = period_of(now);
  Generation& generation = all_[static_cast<size_t>(period) % generations];
  // The clock may have gone back to it.
  if (std::exchange(generation.period, period) != period) generation.sketch->clear();
  current_ = generation.sketch.get();
  begins_us_ = period * period_us;
}

const TopSketch* Top::at(int64_t period) const {
  if (period < 0) return nullptr;
  const Generation& generation = all_[static_cast<size_t>(period) % generations];
  return generation.period == period ? generation.sketch.get() : nullptr;
}

void TopMerge::add(const TopSketch& sketch) {
  const uint64_t active_max = sketch.active_untracked_max();
  const uint64_t denied_max = sketch.denied_untracked_max();
  active_untracked_max_ += active_max;
  denied_untracked_max_ += denied_max;
  const auto add_to = [](Sum& sum, const Tracked::Count& count, uint64_t untracked_max) {
    if (!count.is_tracked) return;
    sum.is_tracked = true;
    sum.count += count.count;
    sum.error += count.error;
    sum.known_max += untracked_max;
  };
  for (Tracked& t : sketch.tracked()) {
    auto [at, end] = places_.equal_range(t.hash);
    at = std::find_if(at, end, [&](const auto& place) {
      const Tracked& other = keys_[place.second].what;
      return other.family == t.family && other.key == t.key && other.cut == t.cut;
    });
    const bool fresh = at == end;
    if (fresh) {
      at = places_.emplace(t.hash, keys_.size());
      keys_.emplace_back();
    }
    Key& key = keys_[at->second];
    add_to(key.active, t.active, active_max);
    add_to(key.denied, t.denied, denied_max);
    key.seen_allowed += t.seen_allowed;
    key.seen_denied += t.seen_denied;
    if (fresh) key.what = std::move(t);
  }
}

std::vector<TopMerge::Item> TopMerge::ordered(bool denied) const {
  std::vector<Item> items;
  for (const Key& key : keys_) {
    const Sum& sum = denied ? key.denied : key.active;
    if (!sum.is_tracked) continue;
    const uint64_t hidden =
        (denied ? denied_untracked_max_ : active_untracked_max_) - sum.known_max;
    items.push_back({.hash = key.what.hash,
                     .family = key.what.family,
                     .rule = key.what.rule,
                     .name = key.what.name,
                     .key = key.what.key,
                     .actor = key.what.has_actor ? key.what.actor : key.what.key,
                     .cut = key.what.cut,
                     .count = sum.count + hidden,
                     .error = sum.error + hidden,
                     .seen_allowed = key.seen_allowed,
                     .seen_denied = key.seen_denied});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    if (a.count != b.count) return a.count > b.count;
    if (a.error != b.error) return a.error < b.error;
    return a.key != b.key ? a.key < b.key : a.hash < b.hash;
  });
  return items;
}

}  // namespace sluice::metrics
