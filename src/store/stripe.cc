#include "store/stripe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/same.h"

namespace sluice::store {

namespace {

constexpr uint16_t long_key = 0xFFFF;
constexpr uint32_t chains_min = 8;

// The heap block of a key that is too long for a place of the slab.
struct Long {
  char* key;
  size_t bytes;
};

size_t place_bytes(size_t cells, size_t key_bytes) {
  return sizeof(Entry) + cells * sizeof(limit::State) +
         (key_bytes > Entry::inline_key_bytes_max ? sizeof(Long) : key_bytes);
}

Long long_of(const char* behind_cells) {
  Long l;
  std::memcpy(&l, behind_cells, sizeof l);
  return l;
}

}  // namespace

static_assert(sizeof(Entry) == 16);
static_assert(sizeof(Entry) + limit::counter_cells_max * sizeof(limit::State) +
                  Entry::inline_key_bytes_max <=
              Slab::bytes_max);

std::string_view Entry::key() const {
  const char* behind_cells = bytes() + cells_ * sizeof(limit::State);
  if (key_bytes_ != long_key) return {behind_cells, key_bytes_};
  const Long l = long_of(behind_cells);
  return {l.key, l.bytes};
}

void Stripe::open(Heads& heads, uint32_t index, Slab& slab) {
  heads_ = &heads;
  index_ = index;
  slab_ = &slab;
}

void Stripe::close(Region& region) {
  for (uint32_t chain = 0; chain < chains(); ++chain) {
    for (Ref at = head(chain); at != 0;) {
      auto* entry = static_cast<Entry*>(region.at(at));
      at = entry->next_;
      if (entry->key_bytes_ == long_key) destroy(region, entry);
    }
  }
}

void Stripe::reserve(uint32_t entries) {
  const uint32_t wanted = entries / 4 * 5;
  if (this->entries() == 0 && wanted > chains() && heads_->reach(wanted)) set_chains(wanted);
}

Entry* Stripe::find(const Region& region, uint64_t hash, uint32_t space,
                    std::string_view key) const {
  if (entries() == 0) return nullptr;
  for (Ref at = head(chain_of(hash)); at != 0;) {
    auto* entry = static_cast<Entry*>(region.at(at));
    // Most entries cover two cache lines; without this the second would be fetched only after the
    // first has arrived.
    __builtin_prefetch(reinterpret_cast<const char*>(entry) + second_line);
    if (entry->space_ == space && base::same(entry->key(), key)) return entry;
    at = entry->next_;
  }
  return nullptr;
}

Entry* Stripe::insert(Region& region, const base::Hash& hash_of, uint64_t hash, uint32_t space,
                      std::string_view key, size_t cells) {
  SLUICE_CHECK(cells >= 1 && cells <= limit::counter_cells_max);
  if (chains() == 0) {
    if (!heads_->reach(chains_min)) return nullptr;
    set_chains(chains_min);
  }
  char* long_bytes = nullptr;
  if (key.size() > Entry::inline_key_bytes_max) {
    if (!region.charge(key.size())) return nullptr;
    long_bytes = static_cast<char*>(std::malloc(key.size()));
    if (long_bytes == nullptr) {
      region.release(key.size());
      return nullptr;
    }
  }
  const Ref place = slab_->allocate(region, place_bytes(cells, key.size()));
  if (place == 0) {
    if (long_bytes != nullptr) {
      std::free(long_bytes);
      region.release(key.size());
    }
    return nullptr;
  }

  auto* entry = static_cast<Entry*>(region.at(place));
  entry->space_ = space;
  entry->limits_ = 0;
  entry->cells_ = static_cast<uint8_t>(cells);
  entry->flags_ = 0;
  std::memset(entry->bytes(), 0, cells * sizeof(limit::State));
  char* behind_cells = entry->bytes() + cells * sizeof(limit::State);
  if (long_bytes != nullptr) {
    std::memcpy(long_bytes, key.data(), key.size());
    const Long l{long_bytes, key.size()};
    std::memcpy(behind_cells, &l, sizeof l);
    entry->key_bytes_ = long_key;
  } else {
    if (!key.empty()) std::memcpy(behind_cells, key.data(), key.size());
    entry->key_bytes_ = static_cast<uint16_t>(key.size());
  }
  Ref& first = head(chain_of(hash));
  entry->next_ = get(first);
  set(first, place);
  set_entries(entries() + 1);
  // Five chains for four entries: a hit takes 1.4 probes, and the table grows one chain at a time.
  // Without memory for another row of heads the chains only get longer.
  while (uint64_t{chains()} * 4 < uint64_t{entries()} * 5 && heads_->reach(chains() + 1))
    split(region, hash_of);
  return entry;
}

void Stripe::erase(Region& region, uint64_t hash, Entry* entry) {
  const Ref place = region.ref_of(entry);
  for (Ref* at = &head(chain_of(hash)); *at != 0;) {
    if (*at == place) {
      set(*at, entry->next_);
      destroy(region, entry);
      set_entries(entries() - 1);
      return;
    }
    at = &static_cast<Entry*>(region.at(*at))->next_;
  }
  SLUICE_CHECK(false);
}

// The first cell of each limit has the time from which the limit equals a fresh one; the times of
// its other cells are no later.
bool Sweep::drops(const Entry& entry) const {
  if (entry.waited_for() || entry.dirty()) return false;
  if (std::find(held.begin(), held.end(), &entry) != held.end()) return false;
  // A state that is loaded from the disk later may be older than this one and replace it, if this
  // one were dropped.
  if (loading && entry.newer() && entry.outlived()) return false;
  // The request that had it looked up on the disk is about to use it; without the entry it would be
  // looked up again.
  if (replaces && loading && entry.erased() && !entry.newer()) return false;
  if (entry.erased()) return !purges;
  if (entry.keeps_limits() != purges) return false;
  return purges ? entry.cell(0).fresh_at_us <= now.us : is_as_fresh(entry);
}

bool Sweep::drops_changed(const Entry& entry) const {
  if (entry.waited_for() || entry.outlived()) return false;
  if (entry.erased()) return !entry.stored();
  return !entry.keeps_limits() && is_as_fresh(entry);
}

bool Sweep::is_as_fresh(const Entry& entry) const {
  int64_t keep_us = 0;
  if (entry.keeps_fresh() && spaces != nullptr) keep_us = spaces->keep_fresh_for(entry.space()).us;
  for (size_t cell = 0; cell < entry.cells(); ++cell) {
    if (entry.cell(cell).fresh_at_us > now.us - keep_us) return false;
  }
  return true;
}

size_t Stripe::sweep(Region& region, const Sweep& sweep, uint32_t first, uint32_t count) {
  const uint32_t before = entries();
  for (uint32_t chain = first; chain < chains() && chain - first < count; ++chain) {
    sweep_chain(region, sweep, chain);
  }
  // Shrinks only well below the growth threshold, and no faster than it sweeps. A chain is swept
  // before its entries move, so that a round misses none.
  for (uint32_t step = 0; step < count && chains() > chains_min; ++step) {
    if (uint64_t{chains()} * 2 <= uint64_t{entries()} * 5) break;
    sweep_chain(region, sweep, chains() - 1);
    merge(region);
  }
  return before - entries();
}

size_t Stripe::sweep_next(Region& region, const Sweep& sweep, uint32_t count) {
  const uint32_t before = entries();
  uint32_t left = 4 * count;
  for (; count > 0 && left > 0 && before > 0; --count) {
    if (next_swept_ >= chains()) next_swept_ = 0;
    left -= std::min(left, sweep_chain(region, sweep, next_swept_++));
  }
  return before - entries();
}

// Sweeps a chain. Returns how many entries it had.
uint32_t Stripe::sweep_chain(Region& region, const Sweep& sweep, uint32_t chain) {
  uint32_t seen = 0;
  for (Ref* at = &head(chain); *at != 0; ++seen) {
    auto* entry = static_cast<Entry*>(region.at(*at));
    if (!sweep.drops(*entry)) {
      at = &entry->next_;
      continue;
    }
    set(*at, entry->next_);
    destroy(region, entry);
    set_entries(entries() - 1);
  }
  return seen;
}

void Stripe::set_chains(uint32_t chains) {
  chains_.store(chains, std::memory_order_relaxed);
  floor_.store(uint32_t{1} << (31 - __builtin_clz(chains)), std::memory_order_relaxed);
}

// Adds a chain: the entries of its lower partner are distributed over both.
void Stripe::split(Region& region, const base::Hash& hash_of) {
  const uint32_t partner = chains() - floor_.load(std::memory_order_relaxed);
  set_chains(chains() + 1);
  Ref rest = head(partner);
  set(head(partner), 0);
  while (rest != 0) {
    auto* entry = static_cast<Entry*>(region.at(rest));
    Ref& first = head(chain_of(hash_of(entry->space_, entry->key())));
    const Ref next = entry->next_;
    entry->next_ = get(first);
    set(first, rest);
    rest = next;
  }
}

// Removes the last chain: its entries join the chain of its lower partner.
void Stripe::merge(Region& region) {
  const uint32_t upper = chains() - 1;
  const Ref rest = head(upper);
  set(head(upper), 0);  // empty, for when the chain is used again
  set_chains(upper);
  ++merges_;
  Ref* end = &head(upper - floor_.load(std::memory_order_relaxed));
  while (*end != 0) end = &static_cast<Entry*>(region.at(*end))->next_;
  set(*end, rest);
}

void Stripe::destroy(Region& region, Entry* entry) {
  if (entry->key_bytes_ == long_key) {
    const Long l = long_of(entry->bytes() + entry->cells_ * sizeof(limit::State));
    std::free(l.key);
    region.release(l.bytes);
  }
  slab_->free(region, region.ref_of(entry));
}

}  // namespace sluice::store
