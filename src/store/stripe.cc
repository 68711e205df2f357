#include "store/stripe.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace sluice::store {

namespace {

constexpr uint16_t long_key = 0xFFFF;
constexpr uint32_t heads_min = 8;
constexpr size_t page_bytes = 4096;

// Where a key lies that is too long for a place of the slab.
struct Long {
  char* key;
  size_t bytes;
};

size_t pages_of(uint32_t heads) {
  return (size_t{heads} * sizeof(Ref) + page_bytes - 1) / page_bytes;
}

size_t place_bytes(size_t slots, size_t key_bytes) {
  return sizeof(Entry) + slots * sizeof(limit::State) +
         (key_bytes > Entry::inline_key_bytes_max ? sizeof(Long) : key_bytes);
}

Long long_of(const char* behind_slots) {
  Long l;
  std::memcpy(&l, behind_slots, sizeof l);
  return l;
}

}  // namespace

static_assert(sizeof(Entry) == 12);
static_assert(sizeof(Entry) + limit::slots_max * sizeof(limit::State) +
                  Entry::inline_key_bytes_max <=
              Slab::bytes_max);

std::string_view Entry::key() const {
  const char* behind_slots = bytes() + slots_ * sizeof(limit::State);
  if (key_bytes_ != long_key) return {behind_slots, key_bytes_};
  const Long l = long_of(behind_slots);
  return {l.key, l.bytes};
}

void Stripe::open(Ref* heads, uint32_t heads_max) {
  SLUICE_CHECK(heads_max >= heads_min);
  heads_ = heads;
  heads_max_ = heads_max;
}

void Stripe::close(Region& region) {
  for (uint32_t chain = 0; chain < heads_count_; ++chain) {
    for (Ref at = heads_[chain]; at != 0;) {
      auto* entry = static_cast<Entry*>(region.at(at));
      at = entry->next_;
      if (entry->key_bytes_ == long_key) destroy(region, entry);
    }
  }
}

Entry* Stripe::find(const Region& region, uint64_t hash, uint32_t space,
                    std::string_view key) const {
  if (entries_ == 0) return nullptr;
  for (Ref at = heads_[chain_of(hash)]; at != 0;) {
    auto* entry = static_cast<Entry*>(region.at(at));
    if (entry->space_ == space && entry->key() == key) return entry;
    at = entry->next_;
  }
  return nullptr;
}

Entry* Stripe::insert(Region& region, const base::Hash& hash_of, uint64_t hash, uint32_t space,
                      std::string_view key, size_t slots) {
  SLUICE_CHECK(slots >= 1 && slots <= limit::slots_max);
  if (heads_count_ == 0 && !resize_heads(region, heads_min)) return nullptr;
  char* long_bytes = nullptr;
  if (key.size() > Entry::inline_key_bytes_max) {
    if (!region.charge(key.size())) return nullptr;
    long_bytes = static_cast<char*>(std::malloc(key.size()));
    SLUICE_CHECK(long_bytes != nullptr);
  }
  const Ref place = slab_.allocate(region, place_bytes(slots, key.size()));
  if (place == 0) {
    if (long_bytes != nullptr) {
      std::free(long_bytes);
      region.release(key.size());
    }
    return nullptr;
  }

  auto* entry = static_cast<Entry*>(region.at(place));
  entry->space_ = space;
  entry->slots_ = static_cast<uint8_t>(slots);
  std::memset(entry->bytes(), 0, slots * sizeof(limit::State));
  char* behind_slots = entry->bytes() + slots * sizeof(limit::State);
  if (long_bytes != nullptr) {
    std::memcpy(long_bytes, key.data(), key.size());
    const Long l{long_bytes, key.size()};
    std::memcpy(behind_slots, &l, sizeof l);
    entry->key_bytes_ = long_key;
  } else {
    if (!key.empty()) std::memcpy(behind_slots, key.data(), key.size());
    entry->key_bytes_ = static_cast<uint16_t>(key.size());
  }
  Ref& head = heads_[chain_of(hash)];
  entry->next_ = head;
  head = place;
  ++entries_;
  // Five heads for four entries: chains of 1.4 probes for a hit, and a growth step on most
  // insertions.
  while (uint64_t{heads_count_} * 4 < uint64_t{entries_} * 5 && heads_count_ < heads_max_) {
    const uint32_t before = heads_count_;
    split(region, hash_of);
    if (heads_count_ == before) break;  // no memory for a page of heads: chains just get longer
  }
  return entry;
}

void Stripe::erase(Region& region, uint64_t hash, Entry* entry) {
  const Ref place = region.ref_of(entry);
  for (Ref* at = &heads_[chain_of(hash)]; *at != 0;) {
    if (*at == place) {
      *at = entry->next_;
      destroy(region, entry);
      --entries_;
      return;
    }
    at = &static_cast<Entry*>(region.at(*at))->next_;
  }
  SLUICE_CHECK(false);
}

size_t Stripe::sweep(Region& region, base::Time now, uint32_t first, uint32_t count) {
  size_t dropped = 0;
  for (uint32_t chain = first; chain < heads_count_ && chain - first < count; ++chain) {
    for (Ref* at = &heads_[chain]; *at != 0;) {
      auto* entry = static_cast<Entry*>(region.at(*at));
      bool fresh = true;
      for (size_t slot = 0; slot < entry->slots_; ++slot)
        fresh &= entry->state(slot).mark_us <= now.us;
      if (!fresh) {
        at = &entry->next_;
        continue;
      }
      *at = entry->next_;
      destroy(region, entry);
      --entries_;
      ++dropped;
    }
  }
  // Shrinks well below the growth threshold, and no faster than it sweeps.
  for (uint32_t step = 0; step < count && heads_count_ > heads_min; ++step) {
    if (uint64_t{heads_count_} * 2 <= uint64_t{entries_} * 5) break;
    merge(region);
  }
  return dropped;
}

uint64_t Stripe::hash_of_entry(const base::Hash& hash_of, const Entry& entry) const {
  return hash_of(entry.space_, entry.key());
}

bool Stripe::resize_heads(Region& region, uint32_t count) {
  const size_t before = pages_of(heads_count_), after = pages_of(count);
  if (after > before && !region.charge((after - before) * page_bytes)) return false;
  if (after < before) {
    // The heads of a stripe start on a page of their own; a dropped page reads as zeros when it is
    // used again.
    SLUICE_CHECK(madvise(reinterpret_cast<char*>(heads_) + after * page_bytes,
                         (before - after) * page_bytes, MADV_DONTNEED) == 0);
    region.release((before - after) * page_bytes);
  }
  heads_count_ = count;
  floor_ = uint32_t{1} << (31 - __builtin_clz(count));
  return true;
}

// One more chain: the entries of its lower partner are dealt out anew.
void Stripe::split(Region& region, const base::Hash& hash_of) {
  const uint32_t partner = heads_count_ - floor_;
  const uint32_t upper = heads_count_;
  if (!resize_heads(region, heads_count_ + 1)) return;
  Ref rest = heads_[partner];
  heads_[partner] = heads_[upper] = 0;
  while (rest != 0) {
    auto* entry = static_cast<Entry*>(region.at(rest));
    Ref& head = heads_[chain_of(hash_of_entry(hash_of, *entry))];
    const Ref next = entry->next_;
    entry->next_ = head;
    head = rest;
    rest = next;
  }
}

// One chain fewer: its entries join their lower partner.
void Stripe::merge(Region& region) {
  const uint32_t upper = heads_count_ - 1;
  Ref rest = heads_[upper];
  heads_[upper] = 0;
  SLUICE_CHECK(resize_heads(region, upper));
  Ref* end = &heads_[upper & (floor_ - 1)];
  while (*end != 0) end = &static_cast<Entry*>(region.at(*end))->next_;
  *end = rest;
}

void Stripe::destroy(Region& region, Entry* entry) {
  const size_t slots = entry->slots_;
  size_t key_bytes = entry->key_bytes_;
  if (key_bytes == long_key) {
    const Long l = long_of(entry->bytes() + slots * sizeof(limit::State));
    std::free(l.key);
    region.release(l.bytes);
    key_bytes = l.bytes;
  }
  slab_.free(region, region.ref_of(entry), place_bytes(slots, key_bytes));
}

}  // namespace sluice::store
