#include "store/embedded_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/decide.h"
#include "store/first_names.h"
#include "store/locked_group.h"

namespace sluice::store {

using limit::Decision;
using limit::State;
using limit::Wide;
using request::Charge;
using request::Verb;

namespace {

// No entry is smaller, so no stripe can need more chains than this many bytes allow.
constexpr size_t entry_bytes_min = sizeof(Entry) + sizeof(State);
// The table has one slab for so much memory. With keys of all lengths a slab has about 40 chunks
// that are only partly used, so a twelfth of the memory is idle.
constexpr size_t bytes_per_slab = size_t{1} << 20;

size_t slabs_for(size_t memory_bytes) {
  return std::min(std::bit_floor(memory_bytes / bytes_per_slab), EmbeddedStore::stripes);
}

}  // namespace

std::unique_ptr<EmbeddedStore> EmbeddedStore::open(size_t memory_bytes, const base::Hash& hash,
                                                   const request::Spaces& spaces) {
  try {
    return std::make_unique<EmbeddedStore>(memory_bytes, hash, spaces);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

EmbeddedStore::EmbeddedStore(size_t memory_bytes, const base::Hash& hash,
                             const request::Spaces& spaces, size_t waiting_max)
    : hash_(hash),
      spaces_(spaces),
      waiting_max_(waiting_max),
      region_(std::max(memory_bytes, base::bounds::table_bytes_min)),
      heads_(region_,
             static_cast<uint32_t>(region_.bytes_max() / entry_bytes_min * 5 / 4 / stripes)),
      slab_count_(slabs_for(region_.bytes_max())),
      slabs_(std::make_unique<Slab[]>(slab_count_)),
      table_(std::make_unique<std::array<Locked, stripes>>()) {
  for (size_t i = 0; slab_count_ < stripes && i < slab_count_; ++i) slabs_[i].share();
  for (uint32_t i = 0; i < stripes; ++i)
    (*table_)[i].stripe.open(heads_, i, slabs_[i % slab_count_]);
}

EmbeddedStore::~EmbeddedStore() {
  for (auto& locked : *table_) locked.stripe.close(region_);
}

Applied EmbeddedStore::apply(const request::Batch& batch, base::Time now,
                             CompletionQueue* completions, const Pin& pin, request::Ticket) {
  prepare(batch);
  const auto settled_with = [&](const request::Group& last) {
    return Applied{.settled = static_cast<size_t>(&last - batch.groups.data()) + 1};
  };
  for (auto& group : batch.groups) {
    group.allowed = group.parked = group.answered = false;
    group.error = request::Error::none;
    if (group.answer_by <= now) [[unlikely]] {
      group.error = request::Error::deadline;
      if (group.may_fail) continue;
      return settled_with(group);
    }
    bool settled;
    if (group.arrival != 0) [[unlikely]] {
      settled = settle_again(group, batch, now, completions, pin);
    } else if (group.charge_count == 1) {
      auto& charge = batch.charges[group.charge_first];
      settled = settle_alone(group, charge, batch.decisions, now, completions, pin);
    } else {
      settled = settle_together(group, batch, now, completions, pin);
    }
    if (!settled) {
      group.error = request::Error::memory;
      refused_.fetch_add(1, std::memory_order_relaxed);
      if (!group.may_fail) return settled_with(group);
    }
  }
  return {.settled = batch.groups.size()};
}

// Hashes every key, and prefetches the memory that the lookups will need, which the processor loads
// while the next key is hashed.
void EmbeddedStore::prepare(const request::Batch& batch) const {
  for (const auto& group : batch.groups) {
    for (auto& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
      charge.counted = charge.keeps_limits || limit::is_counted(charge.limits);
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

// Makes room for `next`, if the counter needs more. Other counters are replaced only if they equal
// a fresh one. `group`: the charges that are settled with this one, and `allowed`: whether they are
// allowed. False: there is no memory.
bool EmbeddedStore::make_place(PendingCharge& s, std::span<const PendingCharge> group, bool allowed,
                               base::Time now) {
  const Charge& charge = *s.charge;
  if (!charge.counted || request::only_looks(charge.verb) || s.passed_on) return true;
  if (charge.all && allowed && s.queue == nullptr) return true;
  const bool keeps_fresh = charge.space->keep_fresh_for.us > 0;
  if (keeps_fresh && s.queue == nullptr && s.drops_fresh()) return true;
  if (!s.is_there()) {
    if (!s.worth_storing() && !keeps_fresh) return true;
  } else if (s.entry->cells() == s.cells) [[likely]] {
    return true;
  }
  s.place = insert(s, group, now);
  if (s.place == nullptr && s.left_out > 0 && s.forget_left_out()) {
    if (s.is_there() && s.entry->cells() == s.cells) return true;
    s.place = insert(s, group, now);
  }
  if (s.place == nullptr) return false;
  if (charge.keeps_limits) s.place->set_keeps_limits();
  if (keeps_fresh) s.place->set_keeps_fresh();
  return true;
}

Entry* EmbeddedStore::insert(const PendingCharge& s, std::span<const PendingCharge> group,
                             base::Time now) {
  const Charge& charge = *s.charge;
  Stripe& stripe = locked_of(charge).stripe;
  if (!is_pressed()) [[likely]]
    return stripe.insert(region_, hash_, charge.hash, charge.space->id, charge.key, s.cells);
  std::array<const Entry*, 2 * base::bounds::group_charges_max> held;
  size_t count = 0;
  for (const PendingCharge& other : group) {
    if (other.entry != nullptr) held[count++] = other.entry;
    if (other.place != nullptr) held[count++] = other.place;
  }
  return insert_replacing(stripe, charge.hash, *charge.space, charge.key, s.cells,
                          {.now = now,
                           .loading = loading_.load(),
                           .replaces = true,
                           .held = std::span(held).first(count)});
}

// Inserts an entry. While memory is short it first sweeps some chains of its own stripe; if there
// is none left it sweeps until there is room, or the bound of steps is reached.
Entry* EmbeddedStore::insert_replacing(Stripe& stripe, uint64_t hash, const request::Space& space,
                                       std::string_view key, size_t cells, const Sweep& sweep) {
  Entry* entry = nullptr;
  uint32_t chains = 0;
  const uint32_t chains_max = std::min(base::bounds::replaced_chains_max, stripe.chains());
  do {
    const size_t dropped = stripe.sweep_next(region_, sweep, chains_per_new_counter);
    swept_.fetch_add(dropped, std::memory_order_relaxed);
    if (chains == 0 || dropped > 0)
      entry = stripe.insert(region_, hash_, hash, space.id, key, cells);
    chains += chains_per_new_counter;
  } while (entry == nullptr && chains < chains_max);
  return entry;
}

// Moves the counter to its new place: `next` has its state, and the queue of its waiters moves
// along.
void EmbeddedStore::move_in(PendingCharge& s) {
  Entry* const place = std::exchange(s.place, nullptr);
  if (s.entry != nullptr) {
    Locked& locked = locked_of(*s.charge);
    if (s.queue != nullptr) {
      auto node = locked.queues->extract(s.entry);
      node.key() = place;
      locked.queues->insert(std::move(node));
      s.queue->entry = place;
      place->set_waited_for(true);
    }
    if (changes_ != nullptr) move_note(s, *place);
    locked.stripe.erase(region_, s.charge->hash, s.entry);
  }
  s.entry = place;
}

void EmbeddedStore::store(PendingCharge& s, bool allowed, base::Time now) {
  const Charge& charge = *s.charge;
  if (s.place != nullptr) [[unlikely]]
    move_in(s);
  if (!s.is_there() || request::only_looks(charge.verb) || s.passed_on) return;
  if (s.queue == nullptr) {
    if (charge.all && allowed) return erase(s);
    if (charge.space->keep_fresh_for.us > 0 && s.drops_fresh()) return erase(s);
  }
  // A counter that is full is kept for a while from now on. A second less is written: other
  // workers' clocks may be behind, and must not see a counter that still fills.
  if (s.entry->keeps_fresh() && s.next.data()->units == 0)
    s.next.data()->fresh_at_us = now.us - base::seconds(1).us;
  SLUICE_CHECK(s.entry->cells() == s.cells);
  write(s);
}

bool EmbeddedStore::settle_alone(request::Group& group, Charge& charge, std::span<Decision> all,
                                 base::Time now, CompletionQueue* completions, const Pin& pin) {
  Decision* const decisions = &all[charge.decision_first];
  PendingCharge s;
  s.charge = &charge;
  if (!charge.counted) {
    group.allowed = s.evaluate(spaces_, now, 0, decisions);
    // It may wait even for a `deny`, as another policy may allow it.
    if (!group.allowed && group.may_wait && completions != nullptr)
      park(group, {&s, 1}, all, now, *completions, pin);
    return true;
  }
  Locked& locked = locked_of(charge);
  const std::lock_guard lock(locked.mutex);
  find(s);
  const Wide ahead = s.queue != nullptr && !charge.reset_first ? s.queue->units() : 0;
  const bool allowed = s.evaluate(spaces_, now, ahead, decisions);
  if (!allowed && charge.limits.size() > 1 && !charge.keeps_limits)
    s.deny_all(spaces_, now, ahead, decisions, group.sparing);
  const bool in_place = s.entry != nullptr && s.entry->cells() == s.cells && s.entry->is_plain();
  if (in_place && charge.verb == Verb::take) [[likely]] {
    write(s);
  } else if (in_place && charge.verb == Verb::charge) {
    write(s);
  } else {
    if (!make_place(s, {&s, 1}, allowed, now)) return false;
    store(s, allowed, now);
  }
  group.allowed = allowed;
  if (!allowed && group.may_wait && completions != nullptr) [[unlikely]]
    park(group, {&s, 1}, all, now, *completions, pin);
  if (s.queue != nullptr && s.brings()) [[unlikely]]
    release_for(s, now);
  return true;
}

bool EmbeddedStore::settle_together(request::Group& group, const request::Batch& batch,
                                    base::Time now, CompletionQueue* completions, const Pin& pin) {
  const LockedGroup group_lock(*this,
                               batch.charges.subspan(group.charge_first, group.charge_count));
  return settle_locked(group, batch, group_lock.settling, now, completions, pin);
}

bool EmbeddedStore::settle_locked(request::Group& group, const request::Batch& batch,
                                  std::span<PendingCharge> settling, base::Time now,
                                  CompletionQueue* completions, const Pin& pin) {
  const auto decisions_of = [&](const PendingCharge& s) {
    return &batch.decisions[s.charge->decision_first];
  };
  bool allowed = true;
  for (auto& s : settling)
    allowed &= s.evaluate(spaces_, now, units_ahead(s, group.arrival), decisions_of(s));
  if (!allowed) {
    for (auto& s : settling)
      s.deny_all(spaces_, now, units_ahead(s, group.arrival), decisions_of(s), group.sparing);
  }
  if (group.sparing) [[unlikely]] {
    for (size_t i = 1; i < settling.size(); ++i) {
      if (!settling[i].charge->follows) continue;
      // The earlier charge on the same counter: only charges with the same hash stand between them.
      size_t j = i - 1;
      while (settling[j].charge->space != settling[i].charge->space ||
             settling[j].charge->key != settling[i].charge->key) {
        SLUICE_CHECK(j > 0);
        --j;
      }
      settling[i].follow(settling[j], spaces_, allowed, now, decisions_of(settling[i]));
    }
  }
  if (!make_places(settling, allowed, now)) return false;
  for (auto& s : settling) store(s, allowed, now);
  group.allowed = allowed;
  if (!allowed && group.may_wait && completions != nullptr)
    park(group, settling, batch.decisions, now, *completions, pin);
  for (auto& s : settling) {
    if (s.queue != nullptr && s.brings()) release_for(s, now);
  }
  return true;
}

// Makes a place for every counter that needs one, before anything is taken.
bool EmbeddedStore::make_places(std::span<PendingCharge> settling, bool allowed, base::Time now) {
  for (size_t i = 0; i < settling.size(); ++i) {
    if (make_place(settling[i], settling, allowed, now)) continue;
    for (auto& s : settling.first(i)) {
      if (s.place != nullptr) locked_of(*s.charge).stripe.erase(region_, s.charge->hash, s.place);
      s.place = nullptr;
    }
    return false;
  }
  return true;
}

Stats EmbeddedStore::stats() const {
  Stats stats;
  // Reads without the stripes' locks, as the calling thread has a low priority.
  for (const auto& locked : *table_) stats.counters += locked.stripe.entries();
  stats.memory_bytes = region_.bytes();
  stats.memory_bytes_max = region_.bytes_max();
  stats.swept = swept_.load(std::memory_order_relaxed);
  stats.purged = purged_.load(std::memory_order_relaxed);
  stats.refused = refused_.load(std::memory_order_relaxed);
  stats.waiting = waiting_.load(std::memory_order_relaxed);
  return stats;
}

uint64_t EmbeddedStore::chains() const {
  uint64_t chains = 0;
  for (const auto& locked : *table_) chains += locked.stripe.chains();
  return chains;
}

void EmbeddedStore::housekeep(base::Time now) {
  using std::chrono::steady_clock;
  const bool pressed = is_pressed();
  const auto calls = static_cast<uint64_t>((pressed ? base::seconds(1) : base::seconds(10)).us /
                                           housekeeping_period.us);
  const auto end = steady_clock::now() + (pressed ? pressed_time_max : time_max);
  uint64_t left = std::max(round_chains_, chains_seen_) / calls + stripes / calls + 1;
  while (left > 0 && steady_clock::now() < end) {
    const uint64_t step = std::min<uint64_t>(left, 1024);
    sweep(now, step);
    left -= step;
  }
  if (changes_ != nullptr && pressed) sweep_changed(now);
}

void EmbeddedStore::sweep(base::Time now, uint64_t chains) {
  // While memory is short counters are not kept only to be listed.
  const request::Spaces* const keeping = is_pressed() ? nullptr : &spaces_;
  const bool loading = loading_.load();
  // An empty stripe counts as a step, so that the call ends.
  for (uint64_t steps = 0; steps < chains;) {
    auto& stripe = (*table_)[sweep_stripe_].stripe;
    const std::lock_guard lock((*table_)[sweep_stripe_].mutex);
    const uint32_t count =
        std::min(sweep_chains_per_lock, stripe.chains() - std::min(stripe.chains(), sweep_chain_));
    steps += 1 + count;
    chains_seen_ += count;
    const size_t dropped =
        stripe.sweep(region_, {.now = now, .spaces = keeping, .loading = loading}, sweep_chain_,
                     sweep_chains_per_lock);
    swept_.fetch_add(dropped, std::memory_order_relaxed);
    sweep_chain_ += sweep_chains_per_lock;
    if (sweep_chain_ < stripe.chains()) continue;
    sweep_chain_ = 0;
    sweep_stripe_ = (sweep_stripe_ + 1) % stripes;
    if (sweep_stripe_ == 0) round_chains_ = std::exchange(chains_seen_, 0);
  }
}

size_t EmbeddedStore::purge(base::Time now) {
  if (changes_) return purge_noted(now);
  size_t gone = 0;
  each_step([&](Stripe& stripe, uint32_t chain) {
    gone += stripe.sweep(region_, {.now = now, .purges = true, .spaces = &spaces_}, chain,
                         sweep_chains_per_lock);
  });
  purged_.fetch_add(gone, std::memory_order_relaxed);
  return gone;
}

// Takes no longer than housekeeping may, but does one stripe at least.
bool EmbeddedStore::mark_named(request::Marks& marks, bool first) {
  using std::chrono::steady_clock;
  if (first) marked_stripes_ = 0;
  for (const auto end = steady_clock::now() + time_max; marked_stripes_ < stripes;) {
    mark_stripe(marked_stripes_++, marks);
    if (steady_clock::now() >= end) break;
  }
  return marked_stripes_ == stripes;
}

void EmbeddedStore::mark_stripe(size_t index, request::Marks& marks) {
  const auto step = [&](Stripe& stripe, uint32_t from) {
    const uint32_t end = std::min(from + sweep_chains_per_lock, stripe.chains());
    for (uint32_t chain = from; chain < end; ++chain) stripe.prefetch_chain(region_, chain);
    for (uint32_t chain = from; chain < end; ++chain) {
      stripe.each(region_, chain, [&](const Entry& entry) {
        marks.space(entry.space());
        marks.limits(entry.limits_id());
      });
    }
  };
  each_step_of((*table_)[index], step, [] { return true; });
}

std::vector<std::string> EmbeddedStore::list(const request::Space& space, std::string_view prefix,
                                             size_t max) {
  ListPass pass({max, SIZE_MAX});
  pass.add(space, prefix);
  list_all(pass);
  return pass.take(0);
}

// Most of its time is spent waiting for memory, so the entries of a step are prefetched together.
void EmbeddedStore::list_all(ListPass& pass) {
  const auto step = [&](Stripe& stripe, uint32_t from) {
    const uint32_t end = std::min(from + sweep_chains_per_lock, stripe.chains());
    for (uint32_t chain = from; chain < end; ++chain) stripe.prefetch_chain(region_, chain);
    for (uint32_t chain = from; chain < end; ++chain) {
      stripe.each(region_, chain, [&](const Entry& entry) {
        if (!entry.erased()) pass.visit(entry.space(), entry.key());
      });
    }
  };
  each_step(step, [&] { return pass.is_wanted(); });
}

namespace {

// A counter's stored name in its three parts, which are joined only when that is needed.
struct Name {
  std::string_view prefix, key, suffix;

  std::string text() const {
    std::string all;
    all.reserve(prefix.size() + key.size() + suffix.size());
    return all.append(prefix).append(key).append(suffix);
  }
  // Like std::string_view::compare.
  int compare(std::string_view text) const {
    for (const std::string_view part : {prefix, key, suffix}) {
      const int order = part.compare(text.substr(0, part.size()));
      if (order != 0) return order;
      text.remove_prefix(part.size());
    }
    return text.empty() ? 0 : -1;
  }
  bool starts_with(std::string_view text) const {
    for (const std::string_view part : {prefix, key, suffix}) {
      const size_t size = std::min(part.size(), text.size());
      if (part.substr(0, size) != text.substr(0, size)) return false;
      text.remove_prefix(size);
    }
    return text.empty();
  }
};

// Can names of the space begin with `prefix`?
bool may_begin(const request::Space& space, std::string_view prefix) {
  const size_t size = std::min(space.prefix.size(), prefix.size());
  return std::string_view(space.prefix).substr(0, size) == prefix.substr(0, size);
}

}  // namespace

ScanPage EmbeddedStore::scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                                  std::string_view after, size_t max, std::string_view) {
  std::vector<const request::Space*> wanted(spaces.by_id().begin(), spaces.by_id().end());
  for (const request::Space*& space : wanted)
    if (space != nullptr && !may_begin(*space, prefix)) space = nullptr;
  FirstNames first(max, base::bounds::listed_names_bytes_max);
  if (max == 0) return {};
  each_step([&](Stripe& stripe, uint32_t from) {
    for (uint32_t chain = from; chain < std::min(from + sweep_chains_per_lock, stripe.chains());
         ++chain) {
      stripe.each(region_, chain, [&](const Entry& entry) {
        if (entry.space() >= wanted.size() || entry.erased()) return;
        const request::Space* const space = wanted[entry.space()];
        if (space == nullptr) return;
        const Name name{space->prefix, entry.key(), space->suffix};
        if (first.end() != nullptr && name.compare(*first.end()) >= 0) return;
        if (!name.starts_with(prefix) || name.compare(after) <= 0) return;
        first.add(name.text());
      });
    }
  });
  ScanPage stored;
  first.move_to(stored);
  return stored;
}

}  // namespace sluice::store
