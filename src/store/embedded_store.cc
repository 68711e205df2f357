#include "store/embedded_store.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/decide.h"

namespace sluice::store {

using limit::Charge;
using limit::Decision;
using limit::State;

namespace {

// What one call of the housekeeping may take.
constexpr auto time_max = std::chrono::milliseconds(5),
               pressed_time_max = std::chrono::milliseconds(30);
// No entry is smaller, so no stripe can need more chains than this many bytes allow.
constexpr size_t entry_bytes_min = sizeof(Entry) + sizeof(State);

// Room for the cells of a charge. Not zeroed: there may be many, and mostly one is used.
class Cells {
 public:
  State* data() { return reinterpret_cast<State*>(room_); }

 private:
  alignas(State) std::byte room_[limit::cells_max * sizeof(State)];
};

// One charge on its way: where its counter is and what becomes of it.
struct Settling {
  uint64_t hash;
  uint32_t charge;
  Entry* entry;
  size_t cells;
  Cells next;
};

void load(const Entry* entry, State* state, size_t cells) {
  if (entry != nullptr) {
    entry->load(state);
  } else {
    std::fill_n(state, cells, State{});
  }
}

// What the charge's limits answer; `state` becomes what taking it would leave. True: all allow it.
bool evaluate(const Charge& charge, base::Time now, Decision* decisions, State* state) {
  bool allowed = true;
  for (const limit::Limit& limit : charge.limits) {
    *decisions = limit::decide(state, limit, charge.cost, now, state);
    allowed &= decisions->allowed;
    ++decisions;
    state += limit::cells(limit);
  }
  return allowed;
}

// The group was refused: nothing is taken. A limit that refused has left its state so already; one
// that would have allowed says what it has.
[[gnu::noinline]] void hold_back(const Entry* entry, const Charge& charge, base::Time now,
                                 Decision* decisions, State* state) {
  size_t first = 0;
  for (const limit::Limit& limit : charge.limits) {
    const size_t cells = limit::cells(limit);
    if (decisions->allowed) {
      for (size_t i = 0; i < cells; ++i)
        state[first + i] = entry != nullptr ? entry->cell(first + i) : State{};
      *decisions = limit::decide(state + first, limit, 0, now, state + first);
    }
    ++decisions;
    first += cells;
  }
}

bool worth_storing(const State* next, size_t cells) {
  return std::any_of(next, next + cells, [](const State& s) { return s != State{}; });
}

}  // namespace

std::unique_ptr<EmbeddedStore> EmbeddedStore::open(size_t memory_bytes, const base::Hash& hash) {
  try {
    return std::make_unique<EmbeddedStore>(memory_bytes, hash);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

EmbeddedStore::EmbeddedStore(size_t memory_bytes, const base::Hash& hash)
    : hash_(hash),
      region_(std::max(memory_bytes, base::bounds::table_bytes_min)),
      heads_(region_,
             static_cast<uint32_t>(region_.bytes_max() / entry_bytes_min * 5 / 4 / stripes)),
      table_(std::make_unique<std::array<Locked, stripes>>()) {
  for (uint32_t i = 0; i < stripes; ++i) (*table_)[i].stripe.open(heads_, i);
}

EmbeddedStore::~EmbeddedStore() {
  for (auto& locked : *table_) locked.stripe.close(region_);
}

size_t EmbeddedStore::apply(const limit::Batch& batch, base::Time now) {
  prepare(batch);
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    auto& group = batch.groups[i];
    group.allowed = false;
    group.error = limit::Error::none;
    bool settled;
    if (group.charge_count == 1) {
      const auto& charge = batch.charges[group.charge_first];
      settled = settle_alone(group, charge, &batch.decisions[charge.decision_first], now);
    } else {
      settled = settle_together(group, batch, now);
    }
    if (!settled) {
      group.error = limit::Error::memory;
      refused_.fetch_add(1, std::memory_order_relaxed);
      if (!group.may_fail) return i + 1;
    }
  }
  return batch.groups.size();
}

// Hashes every key, and has the processor fetch what the look-ups will need while it goes on to the
// next.
void EmbeddedStore::prepare(const limit::Batch& batch) const {
  for (const auto& group : batch.groups) {
    for (auto& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
      charge.counted = limit::is_counted(charge.limits);
      if (!charge.counted) continue;
      charge.hash = hash_(charge.space->id, charge.key);
      (*table_)[stripe_of(charge.hash)].stripe.prefetch_head(charge.hash);
    }
  }
  if (batch.groups.size() == 1) return;
  for (const auto& group : batch.groups) {
    for (auto& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
      if (charge.counted)
        (*table_)[stripe_of(charge.hash)].stripe.prefetch_entry(region_, charge.hash);
    }
  }
}

bool EmbeddedStore::settle_alone(limit::Group& group, const Charge& charge, Decision* decisions,
                                 base::Time now) {
  Cells state;
  if (!charge.counted) {
    group.allowed = evaluate(charge, now, decisions, state.data());
    return true;
  }
  const size_t cells = limit::cells(charge.limits);
  SLUICE_CHECK(charge.limits.size() <= limit::slots_max && cells <= limit::cells_max);
  const uint64_t hash = charge.hash;
  auto& [mutex, stripe] = (*table_)[stripe_of(hash)];
  const std::lock_guard lock(mutex);
  Entry* entry = stripe.find(region_, hash, charge.space->id, charge.key);
  SLUICE_CHECK(entry == nullptr || entry->cells() == cells);
  load(entry, state.data(), cells);
  const bool allowed = evaluate(charge, now, decisions, state.data());
  if (!allowed && charge.limits.size() > 1) hold_back(entry, charge, now, decisions, state.data());
  if (entry == nullptr && worth_storing(state.data(), cells)) {
    entry = stripe.insert(region_, hash_, hash, charge.space->id, charge.key, cells);
    if (entry == nullptr) return false;
  }
  if (entry != nullptr) entry->store(state.data());
  group.allowed = allowed;
  return true;
}

bool EmbeddedStore::settle_together(limit::Group& group, const limit::Batch& batch,
                                    base::Time now) {
  SLUICE_CHECK(group.charge_count <= base::bounds::group_charges_max);
  std::array<Settling, base::bounds::group_charges_max> room;
  const std::span settling(room.data(), group.charge_count);
  for (uint32_t i = 0; i < group.charge_count; ++i) {
    const auto& charge = batch.charges[group.charge_first + i];
    settling[i].cells = limit::cells(charge.limits);
    SLUICE_CHECK(charge.limits.size() <= limit::slots_max);
    SLUICE_CHECK(settling[i].cells <= limit::cells_max);
    settling[i].charge = group.charge_first + i;
    settling[i].hash = charge.counted ? charge.hash : 0;
    settling[i].entry = nullptr;
  }
  // By hash is by stripe: every group locks in the same order, and equal keys would stand together.
  std::sort(settling.begin(), settling.end(),
            [](const Settling& a, const Settling& b) { return a.hash < b.hash; });

  std::array<std::unique_lock<std::mutex>, base::bounds::group_charges_max> locks;
  const Settling* before = nullptr;
  for (size_t i = 0; i < settling.size(); ++i) {
    auto& s = settling[i];
    const auto& charge = batch.charges[s.charge];
    if (!charge.counted) continue;
    auto& [mutex, stripe] = (*table_)[stripe_of(s.hash)];
    if (before == nullptr || stripe_of(before->hash) != stripe_of(s.hash))
      locks[i] = std::unique_lock(mutex);
    if (before != nullptr && before->hash == s.hash) {
      const auto& other = batch.charges[before->charge];
      SLUICE_CHECK(other.space != charge.space || other.key != charge.key);
    }
    s.entry = stripe.find(region_, s.hash, charge.space->id, charge.key);
    SLUICE_CHECK(s.entry == nullptr || s.entry->cells() == s.cells);
    before = &s;
  }

  bool allowed = true;
  for (auto& s : settling) {
    const auto& charge = batch.charges[s.charge];
    load(s.entry, s.next.data(), s.cells);
    allowed &= evaluate(charge, now, &batch.decisions[charge.decision_first], s.next.data());
  }
  if (!allowed) {
    for (auto& s : settling) {
      const auto& charge = batch.charges[s.charge];
      hold_back(s.entry, charge, now, &batch.decisions[charge.decision_first], s.next.data());
    }
  }

  // Every counter that is to be gets its place before anything is taken.
  std::array<bool, base::bounds::group_charges_max> added{};
  for (size_t i = 0; i < settling.size(); ++i) {
    auto& s = settling[i];
    const auto& charge = batch.charges[s.charge];
    if (!charge.counted || s.entry != nullptr || !worth_storing(s.next.data(), s.cells)) continue;
    auto& stripe = (*table_)[stripe_of(s.hash)].stripe;
    s.entry = stripe.insert(region_, hash_, s.hash, charge.space->id, charge.key, s.cells);
    added[i] = s.entry != nullptr;
    if (added[i]) continue;
    for (size_t j = 0; j < i; ++j) {
      if (added[j])
        (*table_)[stripe_of(settling[j].hash)].stripe.erase(region_, settling[j].hash,
                                                            settling[j].entry);
    }
    return false;
  }
  for (auto& s : settling) {
    if (s.entry != nullptr) s.entry->store(s.next.data());
  }
  group.allowed = allowed;
  return true;
}

Stats EmbeddedStore::stats() const {
  Stats stats;
  for (const auto& locked : *table_) {
    const std::lock_guard lock(locked.mutex);
    stats.counters += locked.stripe.entries();
  }
  stats.memory_bytes = region_.bytes();
  stats.swept = swept_.load(std::memory_order_relaxed);
  stats.refused = refused_.load(std::memory_order_relaxed);
  return stats;
}

uint64_t EmbeddedStore::chains() const {
  uint64_t chains = 0;
  for (const auto& locked : *table_) {
    const std::lock_guard lock(locked.mutex);
    chains += locked.stripe.chains();
  }
  return chains;
}

void EmbeddedStore::housekeep(base::Time now) {
  using std::chrono::steady_clock;
  const bool pressed = region_.bytes() > region_.bytes_max() / 8 * 7;
  const auto calls = static_cast<uint64_t>((pressed ? base::seconds(1) : base::seconds(10)).us /
                                           housekeeping_period.us);
  const auto end = steady_clock::now() + (pressed ? pressed_time_max : time_max);
  uint64_t left = std::max(round_chains_, chains_seen_) / calls + stripes / calls + 1;
  while (left > 0 && steady_clock::now() < end) {
    const uint64_t step = std::min<uint64_t>(left, 1024);
    sweep(now, step);
    left -= step;
  }
}

void EmbeddedStore::sweep(base::Time now, uint64_t chains) {
  // An empty stripe costs a step as well, so that the call ends.
  for (uint64_t steps = 0; steps < chains;) {
    auto& [mutex, stripe] = (*table_)[sweep_stripe_];
    const std::lock_guard lock(mutex);
    const uint32_t count =
        std::min(sweep_chains_per_lock, stripe.chains() - std::min(stripe.chains(), sweep_chain_));
    steps += 1 + count;
    chains_seen_ += count;
    const size_t dropped = stripe.sweep(region_, now, sweep_chain_, sweep_chains_per_lock);
    swept_.fetch_add(dropped, std::memory_order_relaxed);
    sweep_chain_ += sweep_chains_per_lock;
    if (sweep_chain_ < stripe.chains()) continue;
    sweep_chain_ = 0;
    sweep_stripe_ = (sweep_stripe_ + 1) % stripes;
    if (sweep_stripe_ == 0) round_chains_ = std::exchange(chains_seen_, 0);
  }
}

}  // namespace sluice::store
