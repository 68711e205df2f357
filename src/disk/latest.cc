#include "disk/latest.h"

#include <algorithm>
#include <array>

namespace sluice::disk {

namespace {

constexpr size_t step_records = 512;
constexpr size_t ahead = 32;  // records whose slots are fetched at once
constexpr uint64_t tag_mask = ~uint64_t{UINT32_MAX};

// Eight bytes of a key as a number that sorts as they do.
uint64_t order_at(std::string_view key, size_t depth) {
  uint64_t n = 0;
  if (depth + sizeof n <= key.size()) {
    std::memcpy(&n, key.data() + depth, sizeof n);
    return __builtin_bswap64(n);
  }
  for (size_t i = 0; i < sizeof n; ++i)
    n = n << 8 | (depth + i < key.size() ? static_cast<unsigned char>(key[depth + i]) : 0);
  return n;
}

}  // namespace

void Latest::open(std::string_view block) {
  reader_.emplace(block);
  bases_us_.push_back(reader_->base_us());
  if (slots_.empty()) slots_.resize(size_t{1} << 12);
}

bool Latest::step() {
  std::array<Read, ahead> reads;
  for (size_t done = 0; done < step_records;) {
    size_t count = 0;
    while (count < ahead && reader_->next(reads[count].counter)) {
      Read& read = reads[count++];
      read.hash = hash_(read.counter.space, read.counter.key);
      __builtin_prefetch(&slots_[read.hash & (slots_.size() - 1)]);
    }
    // What a lookup needs is far apart: it is fetched for all of them, one part after the other.
    for (size_t i = 0; i < count; ++i) {
      const uint64_t slot = slots_[reads[i].hash & (slots_.size() - 1)];
      reads[i].likely = (slot & ~tag_mask) - 1;
      if (slot != 0) __builtin_prefetch(&entries_[reads[i].likely]);
    }
    for (size_t i = 0; i < count; ++i)
      if (reads[i].likely < entries_.size())
        __builtin_prefetch(keys_.data() + entries_[reads[i].likely].key_at);
    for (size_t i = 0; i < count; ++i) keep(reads[i]);
    if (count < ahead) {
      sound_ = sound_ && reader_->sound();
      return false;
    }
    done += count;
  }
  return true;
}

void Latest::keep(const Read& read) {
  if ((entries_.size() + 1) * 2 > slots_.size()) grow();
  const auto block = static_cast<uint32_t>(bases_us_.size() - 1);
  key_.clear();
  append_key(key_, read.counter.space, read.counter.key);
  const size_t mask = slots_.size() - 1;
  for (size_t at = read.hash & mask;; at = (at + 1) & mask) {
    uint64_t& slot = slots_[at];
    if (slot == 0) {
      slot = (read.hash & tag_mask) | (entries_.size() + 1);
      entries_.push_back({read.hash, read.counter.state.data(),
                          static_cast<uint32_t>(read.counter.state.size()), block,
                          static_cast<uint32_t>(keys_.size()), static_cast<uint32_t>(key_.size())});
      keys_ += key_;
      return;
    }
    if ((slot & tag_mask) != (read.hash & tag_mask)) continue;
    Entry& entry = entries_[(slot & ~tag_mask) - 1];
    if (key_of(entry) != key_) continue;
    // Of a block the last record counts, of all blocks the first one, which is the newest.
    if (entry.block == block) {
      entry.state = read.counter.state.data();
      entry.state_bytes = static_cast<uint32_t>(read.counter.state.size());
    }
    return;
  }
}

void Latest::grow() {
  std::vector<uint64_t> slots(slots_.size() * 2);
  const size_t mask = slots.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    // Before the sort `order` is the hash.
    size_t at = entries_[i].order & mask;
    while (slots[at] != 0) at = (at + 1) & mask;
    slots[at] = (entries_[i].order & tag_mask) | (i + 1);
  }
  slots_.swap(slots);
}

std::string_view Latest::key(size_t i) const {
  return key_of(entries_[i]);
}

void Latest::append_value(size_t i, std::string& out) const {
  const Entry& entry = entries_[i];
  disk::append_value(out, bases_us_[entry.block], {entry.state, entry.state_bytes});
}

void Latest::sort() {
  sort(entries_, 0);
}

// Keys tend to begin alike, so they are compared eight bytes at a time, and only those that are the
// same so far are looked at again.
void Latest::sort(std::span<Entry> some, size_t depth) {
  for (; some.size() > 1; depth += sizeof(uint64_t)) {
    uint64_t least = UINT64_MAX, most = 0;
    size_t shortest = SIZE_MAX;
    for (Entry& entry : some) {
      entry.order = order_at(key_of(entry), depth);
      least = std::min(least, entry.order);
      most = std::max(most, entry.order);
      shortest = std::min<size_t>(shortest, entry.key_bytes);
    }
    if (shortest < depth + sizeof(uint64_t)) {
      std::sort(some.begin(), some.end(), [this](const Entry& a, const Entry& b) {
        return a.order != b.order ? a.order < b.order : key_of(a) < key_of(b);
      });
      return;
    }
    if (least != most) break;
  }
  if (some.size() <= 1) return;
  std::sort(some.begin(), some.end(),
            [](const Entry& a, const Entry& b) { return a.order < b.order; });
  for (size_t first = 0; first < some.size();) {
    const uint64_t order = some[first].order;
    size_t last = first + 1;
    while (last < some.size() && some[last].order == order) ++last;
    if (last - first > 1) sort(some.subspan(first, last - first), depth + sizeof(uint64_t));
    first = last;
  }
}

void Latest::clear() {
  reader_.reset();
  sound_ = true;
  bases_us_.clear();
  entries_.clear();
  keys_.clear();
  std::fill(slots_.begin(), slots_.end(), 0);
}

}  // namespace sluice::disk
