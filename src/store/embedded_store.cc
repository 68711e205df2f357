#include "store/embedded_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/carry_list.h"
#include "limit/decide.h"
#include "limit/left_out.h"
#include "request/hold.h"
#include "store/first_names.h"
#include "store/pending_charge.h"

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

// The most charges of a group: those of requests, and the id that a durable store keeps with them.
constexpr size_t group_max = base::bounds::group_charges_max + 1;

}  // namespace

// The charges of a group, by hash, with the locks of all their stripes held: used when a group is
// settled, and when a waiting group is tried again. Lives on the stack as long as the locks are
// held.
struct EmbeddedStore::LockedGroup {
  // `also`: more charges whose stripes are locked.
  // has_note: the group has one, or may have.
  LockedGroup(EmbeddedStore& store, std::span<Charge> charges, std::span<const Charge> also = {},
              bool has_note = false)
      : settling(reinterpret_cast<PendingCharge*>(room), charges.size()) {
    constexpr size_t max = group_max;
    SLUICE_CHECK(charges.size() <= max && also.size() <= max);
    std::array<Charge*, max> order;
    for (size_t i = 0; i < charges.size(); ++i) order[i] = &charges[i];
    const auto by_hash = std::span(order).first(charges.size());
    std::sort(by_hash.begin(), by_hash.end(), [](const Charge* a, const Charge* b) {
      return hash_of(*a) != hash_of(*b) ? hash_of(*a) < hash_of(*b) : a < b;
    });
    also.empty() ? lock(store, by_hash) : lock(store, by_hash, also);
    if (store.changes_ != nullptr && (count > 1 || has_note || (count > 0 && locked[0]->held))) {
      try {
        commit = store.collect_before({locked.data(), count});
      } catch (...) {
        unlock();
        throw;
      }
    }
    const Charge* before = nullptr;
    for (size_t i = 0; i < charges.size(); ++i) {
      Charge& charge = *by_hash[i];
      PendingCharge& s = *new (&settling[i]) PendingCharge;
      s.charge = &charge;
      s.commit = commit;
      if (!charge.counted) continue;
      // Equal keys have equal hashes, so they stand side by side.
      if (before != nullptr && before->hash == charge.hash)
        SLUICE_CHECK(charge.follows || before->space != charge.space || before->key != charge.key);
      store.find(s);
      before = &charge;
    }
  }
  ~LockedGroup() { unlock(); }
  LockedGroup(const LockedGroup&) = delete;
  LockedGroup& operator=(const LockedGroup&) = delete;

  static uint64_t hash_of(const Charge& charge) { return charge.counted ? charge.hash : 0; }

  // The order of hashes is the order of stripes, so every group locks in the same order.
  void lock(EmbeddedStore& store, std::span<Charge* const> by_hash) {
    for (const Charge* charge : by_hash)
      if (charge->counted) lock_after(store.locked_of(*charge));
  }
  [[gnu::noinline]] void lock(EmbeddedStore& store, std::span<Charge* const> by_hash,
                              std::span<const Charge> also) {
    std::array<const Charge*, 2 * group_max> all;
    auto end = std::copy(by_hash.begin(), by_hash.end(), all.begin());
    for (const Charge& charge : also) *end++ = &charge;
    end = std::remove_if(all.begin(), end, [](const Charge* charge) { return !charge->counted; });
    std::sort(all.begin(), end, [](const Charge* a, const Charge* b) { return a->hash < b->hash; });
    for (auto at = all.begin(); at != end; ++at) lock_after(store.locked_of(**at));
  }
  void unlock() {
    for (size_t i = 0; i < count; ++i) locked[i]->mutex.unlock();
  }
  void lock_after(Locked& one) {
    if (count > 0 && locked[count - 1] == &one) return;
    one.mutex.lock();
    locked[count++] = &one;
  }

  // Not zeroed: there is room for many charges, and mostly few are used.
  alignas(PendingCharge) std::byte room[group_max * sizeof(PendingCharge)];
  const std::span<PendingCharge> settling;
  std::array<Locked*, 2 * group_max> locked;
  size_t count = 0;
  uint64_t commit = 0;  // in which its changes will be, if it has a note
};

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
    : Store(*this, nullptr),
      hash_(hash),
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
    } else if (group.charge_count == 1 && !group.holds && group.note == nullptr) [[likely]] {
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
// while the next key is hashed. Flat: the hash is a call elsewhere, which would cost 4 % of a
// decision here.
[[gnu::flatten]] void EmbeddedStore::prepare(const request::Batch& batch) const {
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

// Makes room for `next`, if the counter needs more, and to note that it has changed. Other counters
// are replaced only if they equal a fresh one. `group`: the charges that are settled with this one,
// and `allowed`: whether they are allowed. False: there is no memory.
bool EmbeddedStore::make_place(PendingCharge& s, std::span<const PendingCharge> group, bool allowed,
                               base::Time now) {
  const Charge& charge = *s.charge;
  if (!charge.counted || request::only_looks(charge.verb) || s.passed_on) return true;
  if (changes_ != nullptr && !changes_->make_room(stripe_of(charge.hash), group.size()))
    return false;
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
  std::array<const Entry*, 2 * group_max> held;
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
  if (charge.counted && !request::only_looks(charge.verb) &&
      (s.changed || (allowed && (s.gives_back() || charge.held != nullptr || charge.reset_first))))
      [[unlikely]]
    note_given(s, allowed, now);
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
  const bool written = write(s);
  SLUICE_CHECK(written);  // make_place has made room
}

bool EmbeddedStore::settle_alone(request::Group& group, Charge& charge, std::span<Decision> all,
                                 base::Time now, CompletionQueue* completions, const Pin& pin) {
  Decision* const decisions = &all[charge.decision_first];
  PendingCharge s;
  s.charge = &charge;
  if (!charge.counted) {
    group.allowed = s.evaluate(spaces_, now, 0, decisions);
    // It may wait even for a `deny`, as another policy may allow it.
    return group.allowed || !group.may_wait || completions == nullptr ||
           park(group, {&s, 1}, all, now, *completions, pin);
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
    if ((allowed && charge.reset_first) || s.changed) [[unlikely]]
      note_given(s, allowed, now);
    if (!write(s)) return false;
  } else if (in_place && charge.verb == Verb::charge) {
    if (s.changed) [[unlikely]]
      note_given(s, allowed, now);
    if (!write(s)) return false;
  } else {
    if (!make_place(s, {&s, 1}, allowed, now)) return false;
    store(s, allowed, now);
  }
  group.allowed = allowed;
  bool settled = true;
  if (!allowed && group.may_wait && completions != nullptr) [[unlikely]]
    settled = park(group, {&s, 1}, all, now, *completions, pin);
  if (s.queue != nullptr && s.brings()) [[unlikely]]
    release_for(s, now);
  return settled;
}

bool EmbeddedStore::settle_together(request::Group& group, const request::Batch& batch,
                                    base::Time now, CompletionQueue* completions, const Pin& pin) {
  const LockedGroup group_lock(*this, batch.charges.subspan(group.charge_first, group.charge_count),
                               {}, group.holds || group.note != nullptr);
  return settle_locked(group, batch, group_lock, now, completions, pin);
}

bool EmbeddedStore::settle_locked(request::Group& group, const request::Batch& batch,
                                  const LockedGroup& group_lock, base::Time now,
                                  CompletionQueue* completions, const Pin& pin,
                                  const Waiter* before) {
  const uint64_t turn = before == nullptr ? 0 : before->turn;
  const std::span<PendingCharge> settling = group_lock.settling;
  const auto decisions_of = [&](const PendingCharge& s) {
    return &batch.decisions[s.charge->decision_first];
  };
  bool allowed = true;
  Changes::Note note;
  if (!make_note(group.note, note) || (group.holds && !open_held(settling))) [[unlikely]]
    return false;
  for (auto& s : settling)
    allowed &= s.evaluate(spaces_, now, units_ahead(s, group.arrival, turn), decisions_of(s));
  if (!allowed) {
    for (auto& s : settling)
      s.deny_all(spaces_, now, units_ahead(s, group.arrival, turn), decisions_of(s), group.sparing);
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
  const bool has_room = make_places(settling, allowed, now);
  for (auto& s : settling)
    if (has_room) store(s, allowed, now);
  if (group.holds) [[unlikely]]
    close_held(settling);
  if (!note.empty() && has_room && allowed) [[unlikely]]
    keep_note(group_lock, std::move(note));
  if (!has_room) return false;
  group.allowed = allowed;
  if (allowed && before != nullptr) [[unlikely]]
    pass_turn(*before);
  const bool settled = allowed || !group.may_wait || completions == nullptr ||
                       park(group, settling, batch.decisions, now, *completions, pin, turn);
  for (auto& s : settling) {
    if (s.queue != nullptr && s.brings()) release_for(s, now);
  }
  return settled;
}

// Makes room for what is to be kept with a group's changes, if anything is. False: there is no
// memory.
bool EmbeddedStore::make_note(request::HoldNote* its_note, Changes::Note& note) {
  if (its_note == nullptr || changes_ == nullptr) [[likely]]
    return true;
  try {
    note = Changes::note_of(*its_note);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void EmbeddedStore::keep_note(const LockedGroup& group_lock, Changes::Note note) {
  group_lock.count > 0 ? changes_->add_note(group_lock.commit, std::move(note))
                       : changes_->add_note(std::move(note));
}

// Tells each charge of a hold what its counter was given. False: there is no memory.
bool EmbeddedStore::open_held(std::span<PendingCharge> settling) {
  try {
    for (PendingCharge& s : settling) {
      Charge& charge = *s.charge;
      if (!charge.counted) continue;
      Locked& locked = locked_of(charge);
      if (!locked.held) locked.held = std::make_unique<std::unordered_map<uint64_t, HeldCounter>>();
      charge.held->given = (*locked.held)[charge.hash].given;
    }
  } catch (const std::bad_alloc&) {
    close_held(settling);
    return false;
  }
  return true;
}

// Forgets what has no holds any more.
void EmbeddedStore::close_held(std::span<PendingCharge> settling) {
  for (const PendingCharge& s : settling) {
    if (!s.charge->counted) continue;
    Locked& locked = locked_of(*s.charge);
    if (!locked.held) continue;
    const auto its = locked.held->find(s.charge->hash);
    if (its == locked.held->end() || its->second.parts > 0) continue;
    if (changes_ != nullptr && its->second.given != limit::Given())
      keep_given(*s.charge, nullptr, s.commit);
    locked.held->erase(its);
  }
}

// Notes what was given back to a counter that has holds; null: it has none any more. The stripe is
// past the last commit. What finds no memory is as if nothing had gone back: after a kill its holds
// may give back more than they should.
void EmbeddedStore::keep_given(const Charge& charge, const limit::Given* given,
                               uint64_t commit) noexcept {
  try {
    std::string name(1, given_note);
    name.append(charge.space->prefix).append(charge.key).append(charge.space->suffix);
    const auto note = std::make_shared<request::HoldNote>(std::move(name));
    note->fill(given == nullptr ? std::nullopt : std::optional(text_of(*given)));
    Locked* const locked = &locked_of(charge);
    Changes::Note kept = Changes::note_of(*note);
    // That of its group, if it has one: what a group changes is in one commit.
    if (commit == 0) commit = collect_before({&locked, 1});
    changes_->add_note(commit, std::move(kept));
  } catch (const std::bad_alloc&) {
  }
}

void EmbeddedStore::hold_again(const request::Space& space, std::string_view key, size_t parts,
                               const limit::Given& given) {
  const uint64_t hash = hash_(space.id, key);
  Locked& locked = (*table_)[stripe_of(hash)];
  const std::lock_guard lock(locked.mutex);
  if (!locked.held) locked.held = std::make_unique<std::unordered_map<uint64_t, HeldCounter>>();
  HeldCounter& counter = (*locked.held)[hash];
  counter.parts += parts;
  counter.given.units = std::max(counter.given.units, given.units);
  counter.given.puts = std::max(counter.given.puts, given.puts);
  counter.given.resets = std::max(counter.given.resets, given.resets);
}

// What holds must know of a charge: that it was written under other limits; and if it was allowed,
// that its parts are taken or settled, or that units went back. Before the counter is written: a
// commit has both.
[[gnu::noinline]] void EmbeddedStore::note_given(PendingCharge& s, bool allowed, base::Time now) {
  const Charge& charge = *s.charge;
  const Locked& locked = locked_of(charge);
  if (!locked.held) return;
  const auto its = locked.held->find(charge.hash);
  if (its == locked.held->end()) return;
  HeldCounter& counter = its->second;
  const limit::Given before = counter.given;
  // Other limits may have had another rate: as if all units had gone back, of which a bucket alone
  // takes notice (limit/held.h).
  if (s.changed) counter.given.units += uint64_t{limit::used_max} + 1;
  if (!allowed) {
    // Nothing was taken or given back.
  } else if (charge.verb == Verb::reserve) {
    charge.held->given = counter.given;
    s.note_held(now);
    ++counter.parts;
  } else if (charge.verb == Verb::settle) {
    counter.given.units += static_cast<uint64_t>(charge.held->returned);
    if (charge.held->ends) counter.parts -= charge.held->parts.size();
  } else if (charge.all || charge.reset_first) {
    ++counter.given.resets;
  } else if (charge.verb == Verb::put) {
    ++counter.given.puts;
    counter.given.units += static_cast<uint64_t>(std::max<int64_t>(charge.cost, 0));
  }
  if (changes_ != nullptr && counter.given != before) keep_given(charge, &counter.given, s.commit);
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
  // A walk names what the counters that it has copied named.
  if (is_walking()) return false;
  for (const auto end = steady_clock::now() + time_max; marked_stripes_ < stripes;) {
    mark_stripe(marked_stripes_++, marks);
    if (steady_clock::now() >= end) break;
  }
  return marked_stripes_ == stripes && !is_walking();
}

bool EmbeddedStore::is_walking() const {
  const int process = walking_.load();
  return process != 0 && process == ::getpid();
}

void EmbeddedStore::mark_stripe(size_t index, request::Marks& marks) {
  const auto step = [&](Stripe& stripe, uint32_t from) {
    size_t taken = 0;
    const uint32_t end = std::min(from + sweep_chains_per_lock, stripe.chains());
    for (uint32_t chain = from; chain < end; ++chain) stripe.prefetch_chain(region_, chain);
    for (uint32_t chain = from; chain < end; ++chain) {
      stripe.each(region_, chain, [&](Entry& entry) {
        marks.space(entry.space());
        if (marks.gives_way(entry.limits_id()) && taken < taken_per_lock)
          to_take_[taken++] = &entry;
        else
          marks.limits(entry.limits_id());
      });
    }
    for (Entry* const entry : std::span(to_take_).first(taken)) take_from_limits(*entry, marks);
  };
  each_step_of((*table_)[index], step, [] { return true; });
}

// Leaves out all limits of a counter, so that it does not name their list any more. Its states are
// all there when a request brings these limits again. The list stays named while requests wait for
// the counter, and while there is no memory for the limits that are left out.
void EmbeddedStore::take_from_limits(Entry& entry, request::Marks& marks) {
  const request::Space& space = spaces_.at(entry.space());
  const uint32_t id = entry.limits_id();
  if (space.carry != limit::CarryOver::apart || entry.waited_for() || entry.keeps_limits())
    return marks.limits(id);
  request::Charge charge;
  charge.space = &space;
  charge.key = entry.key();
  charge.hash = hash_(space.id, charge.key);
  charge.limits_id = marks.instead();
  charge.limits = spaces_.limits(charge.limits_id);
  PendingCharge own;
  own.charge = &charge;
  own.entry = &entry;
  Cells was;
  entry.load(was.data());
  // What is fresh by now is dropped at the next request.
  const auto count =
      limit::carry_over_list({was.data(), entry.cells()}, spaces_.limits(id), charge.limits,
                             space.carry, base::Time{INT64_MIN}, own.next.data());
  own.cells = count.all;
  own.left_out = count.left_out;
  if (changes_ != nullptr && !changes_->make_room(stripe_of(charge.hash), 1))
    return marks.limits(id);
  if (own.cells != entry.cells()) {
    own.place = locked_of(charge).stripe.insert(region_, hash_, charge.hash, space.id, charge.key,
                                                own.cells);
    if (own.place == nullptr) return marks.limits(id);
    if (entry.keeps_fresh()) own.place->set_keeps_fresh();
    move_in(own);
  }
  const bool written = write(own);
  SLUICE_CHECK(written);  // there is room
  marks.limits(charge.limits_id);
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

// The table's part in a store that keeps counters elsewhere as well: it records which counters
// changed, and restores stored ones.

using limit::State;

namespace {

// The time from which a counter with the entry's cells equals a fresh one.
int64_t end_us(const Entry& entry) {
  int64_t end_us = INT64_MIN;
  for (size_t cell = 0; cell < entry.cells(); ++cell)
    end_us = std::max(end_us, entry.cell(cell).fresh_at_us);
  return end_us;
}

int64_t end_us(const PendingCharge& s) {
  int64_t end_us = INT64_MIN;
  for (size_t cell = 0; cell < s.cells; ++cell)
    end_us = std::max(end_us, s.next.data()[cell].fresh_at_us);
  return end_us;
}

// When the counter may be forgotten, as the sweep sees it.
int64_t forget_us(const Entry& entry, const request::Space& space) {
  if (entry.keeps_limits()) return INT64_MAX;  // until it is purged
  const int64_t fresh_at_us = end_us(entry);
  return fresh_at_us > INT64_MAX - space.keep_fresh_for.us ? INT64_MAX
                                                           : fresh_at_us + space.keep_fresh_for.us;
}

bool holds(const Entry& entry, const State* cells) {
  for (size_t i = 0; i < entry.cells(); ++i)
    if (entry.cell(i) != cells[i]) return false;
  return true;
}

}  // namespace

void EmbeddedStore::keep_changes() {
  changes_ = std::make_unique<Changes>();
}

bool EmbeddedStore::write_noted(PendingCharge& s) {
  // Most refusals change nothing.
  if (s.entry->limits_id() == s.charge->limits_id && s.entry->leaves_out() == (s.left_out > 0) &&
      holds(*s.entry, s.next.data()))
    return true;
  if (!changes_->make_room(stripe_of(s.charge->hash), 1)) return false;
  if (s.entry->stored() && end_us(s) < end_us(*s.entry)) s.entry->set_outlived(true);
  s.write();
  note(stripe_of(s.charge->hash), *s.entry);
  return true;
}

// The counter moves from its entry to `place`, which is to hold `next`: takes its flags along. The
// disk's record of it stays valid.
void EmbeddedStore::move_note(const PendingCharge& s, Entry& place) {
  const Entry& entry = *s.entry;
  if (entry.dirty()) changes_->remove(stripe_of(s.charge->hash), region_.ref_of(s.entry));
  if (entry.newer()) place.set_newer();
  place.set_stored(entry.stored());
  place.set_outlived(entry.outlived() || (entry.stored() && end_us(s) < end_us(entry)));
}

// Erases the counter. Its entry stays in the table until the disk does not hold the counter either.
void EmbeddedStore::erase_noted(size_t stripe, Entry& entry) {
  entry.clear();
  entry.set_erased(true);
  if (entry.stored()) entry.set_outlived(true);
  note(stripe, entry);
}

void EmbeddedStore::note(size_t stripe, Entry& entry) {
  if (loading_.load(std::memory_order_relaxed)) entry.set_newer();
  if (entry.dirty()) return;
  entry.set_dirty(true);
  changes_->add(stripe, region_.ref_of(&entry));
}

void EmbeddedStore::erase(PendingCharge& s) {
  if (changes_ == nullptr) {
    locked_of(*s.charge).stripe.erase(region_, s.charge->hash, s.entry);
    s.entry = nullptr;
    return;
  }
  erase_noted(stripe_of(s.charge->hash), *s.entry);
}

// A group with counters in several stripes is part of one commit as a whole. With the locks of all
// of them it says so in the set of stripes, and reads which commit is open: all that it changes is
// of that one. So what had changed in these stripes before is collected first, if the commit before
// is being collected and has not come to them yet.
uint64_t EmbeddedStore::collect_before(std::span<Locked* const> locked) {
  const auto stripe_of = [&](const Locked* one) {
    return static_cast<size_t>(one - table_->data());
  };
  for (const Locked* const one : locked) changes_->announce(stripe_of(one));
  const uint64_t before = changes_->open() - 1;
  for (const Locked* const one : locked) {
    const size_t stripe = stripe_of(one);
    if (changes_->is_past(stripe, before)) continue;
    const std::lock_guard lock(collecting_mutex_);
    if (collecting_ != nullptr && collecting_process_ == ::getpid())
      collect_stripe(stripe, SIZE_MAX);
    changes_->pass(stripe, before);
  }
  return before + 1;
}

// With the lock of the stripe, and collecting_mutex_.
void EmbeddedStore::collect_stripe(size_t stripe, size_t most) {
  Cells cells;
  auto& list = changes_->list(stripe);
  for (size_t left = std::min(list.size(), most); left > 0; --left) {
    auto& entry = *static_cast<Entry*>(region_.at(list.back()));
    const request::Space& space = spaces_.at(entry.space());
    request::CounterRecord record{
        .space = &space, .limits_id = entry.limits_id(), .key = entry.key(), .cells = {}};
    if (!entry.erased()) {
      entry.load(cells.data());
      record.cells = {cells.data(), entry.cells()};
      record.forget_us = forget_us(entry, space);
    }
    (*collecting_)(record);  // if it throws, the counter still counts as changed
    list.pop_back();
    entry.set_dirty(false);
    // Until all is loaded, a lookup on the disk may still find the older record.
    if (loading_.load()) {
      entry.set_stored(true);
    } else {
      entry.set_stored(!entry.erased());
      entry.set_outlived(false);
    }
  }
}

uint64_t EmbeddedStore::collect(const request::VisitCounter& visit,
                                const VisitHoldNote& visit_note) {
  {
    const std::lock_guard lock(collecting_mutex_);
    collecting_ = &visit;
    collecting_process_ = ::getpid();
  }
  const uint64_t turned = changes_->turn();
  const auto end = [this] {
    const std::lock_guard lock(collecting_mutex_);
    collecting_ = nullptr;
  };
  try {
    changes_->each_stripe([&](size_t stripe) {
      for (bool more = true; more;) {
        const std::lock_guard lock((*table_)[stripe].mutex);
        // What is there now is of the next commit.
        if (changes_->is_past(stripe, turned)) {
          changes_->announce(stripe);
          return;
        }
        const std::lock_guard collecting(collecting_mutex_);
        collect_stripe(stripe, collected_per_lock);
        more = !changes_->list(stripe).empty();
      }
    });
    changes_->take_notes(turned, visit_note);
  } catch (...) {
    end();
    throw;
  }
  end();
  return turned;
}

bool EmbeddedStore::walk(const std::function<bool(const request::CounterRecord&)>& visit) {
  // What one step copies: an entry's space, list of limits, and when it may be forgotten; the cells
  // and keys of all.
  struct Copied {
    uint32_t space, limits_id, cells, key_bytes;
    int64_t forget_us;
  };
  std::vector<Copied> copied;
  std::vector<State> states;
  std::string keys;
  bool goes_on = true;
  const struct Walking {
    explicit Walking(std::atomic<int>& its) : walking(its) { walking.store(::getpid()); }
    ~Walking() { walking.store(0); }
    std::atomic<int>& walking;
  } while_walking(walking_);
  const auto visit_copied = [&] {
    const State* state = states.data();
    size_t key = 0;
    for (const Copied& one : copied) {
      goes_on = goes_on && visit({.space = &spaces_.at(one.space),
                                  .limits_id = one.limits_id,
                                  .key = std::string_view(keys).substr(key, one.key_bytes),
                                  .cells = {state, one.cells},
                                  .forget_us = one.forget_us});
      state += one.cells;
      key += one.key_bytes;
    }
    copied.clear();
    states.clear();
    keys.clear();
    return goes_on;
  };
  each_step(
      [&](Stripe& stripe, uint32_t from) {
        const uint32_t last = std::min(from + sweep_chains_per_lock, stripe.chains());
        for (uint32_t chain = from; chain < last; ++chain) stripe.prefetch_chain(region_, chain);
        for (uint32_t chain = from; chain < last; ++chain) {
          stripe.each(region_, chain, [&](Entry& entry) {
            if (entry.erased()) return;
            // What is not committed yet may be found in the snapshot from now on.
            entry.set_stored(true);
            copied.push_back({entry.space(), entry.limits_id(),
                              static_cast<uint32_t>(entry.cells()),
                              static_cast<uint32_t>(entry.key().size()),
                              forget_us(entry, spaces_.at(entry.space()))});
            states.resize(states.size() + entry.cells());
            entry.load(states.data() + states.size() - entry.cells());
            keys += entry.key();
          });
        }
      },
      visit_copied);
  return visit_copied();
}

// A changed counter that equals a fresh one need not be committed. The state that the disk has of
// it expired no later than this one (otherwise the entry is Entry::outlived), so that one equals a
// fresh one, too.
void EmbeddedStore::sweep_changed(base::Time now) {
  using std::chrono::steady_clock;
  const bool pressed = is_pressed();
  const auto end = steady_clock::now() + (pressed ? pressed_time_max : time_max);
  const Sweep sweep{.now = now, .spaces = pressed ? nullptr : &spaces_};
  for (size_t i = 0; i < stripes && steady_clock::now() < end; ++i) {
    Locked& locked = (*table_)[changed_stripe_];
    auto& list = changes_->list(changed_stripe_);
    changed_stripe_ = (changed_stripe_ + 1) % stripes;
    for (size_t at = 0;;) {
      const std::lock_guard lock(locked.mutex);
      if (at >= list.size()) break;
      for (size_t left = collected_per_lock; left > 0 && at < list.size(); --left) {
        auto* const entry = static_cast<Entry*>(region_.at(list[at]));
        if (!sweep.drops_changed(*entry)) {
          ++at;
          continue;
        }
        list[at] = list.back();
        list.pop_back();
        locked.stripe.erase(region_, hash_(entry->space(), entry->key()), entry);
        swept_.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
}

void EmbeddedStore::reserve(uint64_t counters) {
  const auto each =
      static_cast<uint32_t>(std::min(counters, region_.bytes_max() / sizeof(Entry)) / stripes);
  for (auto& locked : *table_) {
    const std::lock_guard lock(locked.mutex);
    locked.stripe.reserve(each);
  }
}

Restored EmbeddedStore::restore(const request::CounterRecord& record, bool newest,
                                RestoreShare part, const base::Time* now) {
  const request::Space& space = *record.space;
  const uint64_t hash = hash_(space.id, record.key);
  if (stripe_of(hash) % part.of != part.number) return Restored::yes;
  const bool keeps_limits = !space.windows.empty();
  auto cells = record.cells;
  bool leaves_out = false;
  Restored result = Restored::yes;
  if (!cells.empty()) {
    const bool fits = keeps_limits
                          ? cells.size() <= limit::counter_cells_max && record.limits_id == 0
                          : record.limits_id != 0 &&
                                limit::left_out::fits(spaces_.limits(record.limits_id), cells);
    if (fits && !keeps_limits)
      leaves_out = cells.size() > limit::cells(spaces_.limits(record.limits_id));
    if (!fits) {
      result = Restored::nonsense;
      cells = {};
    }
  }
  const size_t count = std::max<size_t>(cells.size(), 1);
  Locked& locked = (*table_)[stripe_of(hash)];
  const std::lock_guard lock(locked.mutex);
  Entry* entry = locked.stripe.find(region_, hash, space.id, record.key);
  if (entry != nullptr && !newest) return result;
  // All counters are loaded, and this one is not among them: the record was read before it was
  // dropped.
  if (!newest && !loading_.load()) return result;
  if (entry != nullptr && entry->cells() != count) {
    SLUICE_CHECK(!entry->dirty() && !entry->waited_for());
    locked.stripe.erase(region_, hash, entry);
    entry = nullptr;
  }
  if (entry == nullptr && now != nullptr && is_pressed())
    entry = insert_replacing(locked.stripe, hash, space, record.key, count,
                             {.now = *now, .loading = true, .replaces = true});
  else if (entry == nullptr)
    entry = locked.stripe.insert(region_, hash_, hash, space.id, record.key, count);
  if (entry == nullptr) return Restored::no_memory;
  if (newest) entry->set_newer();
  // A folded record is older than one from a block of the journal, and may expire later.
  entry->set_stored(newest || !record.cells.empty());
  entry->set_outlived(newest);
  entry->set_erased(cells.empty());
  if (cells.empty()) {
    entry->clear();
    return result;
  }
  entry->store(cells.data());
  entry->set_limits_id(record.limits_id, leaves_out);
  if (keeps_limits) entry->set_keeps_limits();
  if (space.keep_fresh_for.us > 0) entry->set_keeps_fresh();
  return result;
}

size_t EmbeddedStore::purge_noted(base::Time now) {
  if (loading_.load()) return 0;
  const Sweep sweep{.now = now, .purges = true, .spaces = &spaces_};
  size_t gone = 0;
  each_step([&](Stripe& stripe, uint32_t from) {
    for (uint32_t chain = from; chain < std::min(from + sweep_chains_per_lock, stripe.chains());
         ++chain) {
      stripe.each(region_, chain, [&](Entry& entry) {
        if (!sweep.drops(entry) || !changes_->make_room(stripe.index(), 1)) return;
        erase_noted(stripe.index(), entry);
        ++gone;
      });
    }
  });
  purged_.fetch_add(gone, std::memory_order_relaxed);
  return gone;
}

// Waiting in the embedded store: parks refused groups, and answers each in its turn.

using limit::Decision;
using limit::Wide;
using request::Charge;
using request::Verb;

namespace {

// Why a charge of a refused group has to wait, and for how long.
struct Hindrance {
  bool refused = false;
  bool for_ever = false;  // its cost is more than the limit ever allows
  base::Duration wait{};  // never: until units are returned by a put
};

Hindrance hindrance(const Charge& charge, std::span<const Decision> decisions) {
  Hindrance h;
  for (const Decision& d : decisions) {
    if (d.allowed) continue;
    h.refused = true;
    h.for_ever |= charge.cost > d.limit || d.limit == 0;
    h.wait = std::max(h.wait, d.retry_after);
  }
  return h;
}

std::span<const Decision> decisions_of(const Charge& charge, std::span<const Decision> all) {
  return all.subspan(charge.decision_first, charge.limits.size());
}

std::vector<std::string> keys_of(std::span<const PendingCharge> settling) {
  std::vector<std::string> keys;
  for (const PendingCharge& s : settling) keys.emplace_back(s.charge->key);
  return keys;
}

// Does the group have the same charges on the same counters, under the same limits, and in the same
// turn?
bool asks_the_same(const Waiter& waiter, std::span<const Charge> charges) {
  return std::equal(waiter.charges.begin(), waiter.charges.end(), charges.begin(), charges.end(),
                    [](const Charge& a, const Charge& b) {
                      return a.space == b.space && a.key == b.key && a.cost == b.cost &&
                             a.limits_id == b.limits_id && a.limits_id != 0 &&
                             a.fair_value == b.fair_value;
                    });
}

// Is the charge's counter kept under other limits? Then notifies the waiter's owner, once, unless
// the owner has confirmed that the group goes on waiting under its own limits.
bool notify_owner(Waiter& waiter, const Charge& charge, const Entry* entry) {
  if (entry == nullptr || entry->erased() || entry->limits_id() == charge.limits_id) return false;
  const auto i = static_cast<size_t>(&charge - waiter.charges.data());
  if (!waiter.confirmed.empty() && waiter.confirmed[i] == entry->limits_id()) return false;
  if (!std::exchange(waiter.named, true)) waiter.completions.resume_waiter(waiter.ticket);
  return true;
}

}  // namespace

// If the clock was ahead when the counter of a refused charge was written, rewrites the counter as
// of now, under its own limits and without taking anything. This is done once: if it were done at
// each look, the units would always be as far away as at the last one.
void EmbeddedStore::bring_back(PendingCharge& s, std::span<const PendingCharge> group,
                               base::Time now) {
  if (!s.is_there()) return;
  Charge charge = *s.charge;
  charge.limits_id = s.entry->limits_id();
  charge.limits = spaces_.limits(charge.limits_id);
  PendingCharge own;
  own.charge = &charge;
  own.entry = s.entry;
  own.queue = s.queue;
  Cells was;
  s.entry->load(was.data());
  const auto count =
      limit::bring_back({was.data(), s.entry->cells()}, charge.limits, now, own.next.data());
  if (!count) return;
  own.cells = count->all;
  own.left_out = count->left_out;
  if (!make_place(own, group, false, now)) return;
  store(own, false, now);
  s.entry = own.entry;
}

namespace {

// What waits for a group, with room for all that may become of it.
std::shared_ptr<Waiter> waiter_of(const request::Group& group, uint64_t arrival,
                                  std::span<const PendingCharge> settling,
                                  CompletionQueue& completions, const Pin& pin) {
  auto waiter =
      std::make_shared<Waiter>(completions, group.ticket, arrival, pin, keys_of(settling));
  // In the order of the group, as its decisions are, and not in that of the locks.
  uint32_t first = UINT32_MAX;
  for (const PendingCharge& s : settling) first = std::min(first, s.charge->decision_first);
  size_t limits = 0;
  for (const PendingCharge& s : settling) limits += s.charge->limits.size();
  waiter->limits.reserve(limits);  // so that pointers to them stay valid
  waiter->decisions.resize(limits);
  waiter->holds = group.holds;
  if (group.note != nullptr) waiter->note = group.note->shared_from_this();
  waiter->charges.reserve(settling.size());
  waiter->confirmed.reserve(settling.size());
  for (size_t i = 0; i < settling.size(); ++i) {
    Charge charge = *settling[i].charge;
    charge.key = waiter->keys[i];
    const size_t first_limit = waiter->limits.size();
    waiter->limits.insert(waiter->limits.end(), charge.limits.begin(), charge.limits.end());
    charge.limits = std::span(waiter->limits).subspan(first_limit);
    charge.decision_first -= first;
    waiter->charges.push_back(charge);
  }
  return waiter;
}

}  // namespace

bool EmbeddedStore::park(request::Group& group, std::span<PendingCharge> settling,
                         std::span<const Decision> all, base::Time now,
                         CompletionQueue& completions, const Pin& pin, uint64_t turn) {
  if (std::any_of(settling.begin(), settling.end(),
                  [](const PendingCharge& s) { return s.charge->keeps_limits; }))
    return true;
  if (waiting_.fetch_add(1, std::memory_order_relaxed) >= waiting_max_) {
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  const uint64_t arrival =
      group.arrival != 0 ? group.arrival : arrivals_.fetch_add(1, std::memory_order_relaxed) + 1;
  bool is_kept = false;
  try {
    const auto waiter = waiter_of(group, arrival, settling, completions, pin);
    waiter->turn = turn;
    completions.park(waiter);
    is_kept = true;
    enqueue(waiter, settling, all, now);
  } catch (const std::bad_alloc&) {
    if (is_kept) completions.unpark(group.ticket);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  group.arrival = arrival;
  group.parked = true;
  return true;
}

// The queue of the charge's counter; a new one is empty. Throws std::bad_alloc: there is none.
Queue& EmbeddedStore::queue_of(PendingCharge& s) {
  if (s.queue != nullptr) return *s.queue;
  Locked& locked = locked_of(*s.charge);
  if (!locked.queues) locked.queues = std::make_unique<std::map<const Entry*, Queue>>();
  s.queue = &(*locked.queues)[s.entry];
  s.queue->entry = s.entry;
  s.entry->set_waited_for(true);
  return *s.queue;
}

// Moves the waiter to the queue of the counter with the longest wait, where it keeps its turn;
// aside if one of its charges is more than a limit ever allows. Throws std::bad_alloc: it is where
// it was.
void EmbeddedStore::enqueue(const std::shared_ptr<Waiter>& waiter,
                            std::span<PendingCharge> settling, std::span<const Decision> all,
                            base::Time now) {
  PendingCharge* at = nullptr;
  base::Duration wait{};
  for (PendingCharge& s : settling) {
    const Hindrance h = hindrance(*s.charge, decisions_of(*s.charge, all));
    // Not even a fresh counter has enough units.
    if (h.for_ever || (h.refused && !s.is_there())) return dequeue(*waiter);
    if (!h.refused || (at != nullptr && h.wait <= wait)) continue;
    at = &s;
    wait = h.wait;
  }
  SLUICE_CHECK(at != nullptr && at->entry != nullptr);
  Queue& queue = queue_of(*at);
  const std::shared_ptr<Waiter> head = queue.waiters.empty() ? nullptr : queue.waiters.first();
  size_t charge_at = 0;
  for (size_t i = 0; i < waiter->charges.size(); ++i) {
    const Charge& charge = waiter->charges[i];
    if (charge.space == at->charge->space && charge.key == at->charge->key) charge_at = i;
  }
  if (waiter->queue != &queue) {
    try {
      const Charge& charge = waiter->charges[charge_at];
      SLUICE_CHECK(queue.waiters.insert({charge.fair_value, waiter->arrival, turn_of(*waiter)},
                                        charge.cost, waiter));
    } catch (const std::bad_alloc&) {
      close_if_empty(locked_of(*at->charge), queue);
      at->queue = nullptr;
      throw;
    }
    dequeue(*waiter);
    waiter->state = Waiter::State::queued;
    waiter->queue = &queue;
    waiter->at = charge_at;
  }
  if (queue.waiters.first() != waiter) return;
  if (head != nullptr && head != waiter) head->completions.forget(*head);
  if (wait != base::never) waiter->completions.wake_at(now, wait, waiter);
}

Wide EmbeddedStore::units_ahead(const PendingCharge& s, uint64_t arrival, uint64_t turn) {
  // A reset ignores waiters' claims.
  if (s.queue == nullptr || s.charge->reset_first) return 0;
  if (arrival == 0) return s.queue->units();
  return s.queue->waiters.ahead({s.charge->fair_value, arrival, turn});
}

uint64_t EmbeddedStore::turn_of(const Waiter& waiter) {
  return waiter.state == Waiter::State::queued
             ? waiter.queue->waiters.turn_of(waiter.fair_value(), waiter.arrival)
             : waiter.turn;
}

void EmbeddedStore::dequeue(Waiter& waiter) {
  if (waiter.state != Waiter::State::queued) return;
  waiter.turn = turn_of(waiter);
  waiter.queue->waiters.erase(waiter.fair_value(), waiter.arrival);
  waiter.queue = nullptr;
  waiter.state = Waiter::State::aside;
}

// As `dequeue`, of one that is granted: its value's next turn comes after those of all others.
void EmbeddedStore::serve(Waiter& waiter) {
  const uint64_t value = waiter.fair_value();
  const uint64_t next = value == 0 ? 0 : arrivals_.fetch_add(1, std::memory_order_relaxed) + 1;
  waiter.queue->waiters.serve(value, waiter.arrival, next);
  waiter.queue = nullptr;
  waiter.state = Waiter::State::aside;
}

// As `serve`, of one that is granted after it has left its queue.
void EmbeddedStore::pass_turn(const Waiter& waiter) {
  PendingCharge s;
  Charge charge = waiter.charges[waiter.at];
  s.charge = &charge;
  find(s);
  const uint64_t value = waiter.fair_value();
  if (value == 0 || s.queue == nullptr || !s.queue->waiters.has(value)) return;
  s.queue->waiters.pass(value, arrivals_.fetch_add(1, std::memory_order_relaxed) + 1);
}

void EmbeddedStore::close_if_empty(Locked& locked, Queue& queue) {
  if (!queue.waiters.empty()) return;
  queue.entry->set_waited_for(false);
  locked.queues->erase(queue.entry);
}

void EmbeddedStore::answer(Waiter& waiter, base::Time now) {
  waiter.state = Waiter::State::done;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  waiter.completions.deliver(
      waiter, {waiter.ticket, request::Error::none, now, std::move(waiter.decisions)});
}

void EmbeddedStore::release(Locked& locked, Queue& queue, base::Time now) {
  for (size_t answers = 0; !queue.waiters.empty(); ++answers) {
    const std::shared_ptr<Waiter> head = queue.waiters.first();
    // A waiter that needs several counters needs all their locks, which its owner's thread takes.
    // So does one of a hold.
    if (head->charges.size() > 1 || head->holds || answers == answers_per_lock_max)
      return head->completions.wake_at(now, {}, head);
    Hindrance h;
    if (!answer_alone(*head, queue, now, h.for_ever, h.wait)) {
      notify_owner(*head, head->charges.front(), queue.entry);
      if (!h.for_ever) {
        h.wait == base::never ? head->completions.forget(*head)
                              : head->completions.wake_at(now, h.wait, head);
        return;
      }
      dequeue(*head);
      head->completions.forget(*head);
    }
  }
  close_if_empty(locked, queue);
}

// As `release`, when only the limits of the counter have changed. Units that this makes available
// belong to groups that wait under the new limits, so the first waiter is looked at only after its
// owner has had time to match it again.
void EmbeddedStore::release_anew(Locked& locked, Queue& queue, base::Time now) {
  if (!queue.waiters.empty()) {
    const std::shared_ptr<Waiter> head = queue.waiters.first();
    if (notify_owner(*head, head->charges[head->at], queue.entry))
      return head->completions.wake_at(now, {}, head);
  }
  release(locked, queue, now);
}

// Gives the units that the charge has returned to the waiters of its queue.
void EmbeddedStore::release_for(const PendingCharge& s, base::Time now) {
  Locked& locked = locked_of(*s.charge);
  s.gives_back() || s.charge->reset_first ? release(locked, *s.queue, now)
                                          : release_anew(locked, *s.queue, now);
}

// Tries to answer the first waiter of a queue, which has one charge. True: it is answered and has
// left the queue.
bool EmbeddedStore::answer_alone(Waiter& waiter, Queue& queue, base::Time now, bool& for_ever,
                                 base::Duration& wait) {
  PendingCharge s;
  s.charge = &waiter.charges.front();
  s.entry = queue.entry;
  s.queue = &queue;
  const bool fits = s.evaluate(spaces_, now, 0, waiter.decisions.data());
  if (!fits) bring_back(s, {&s, 1}, now);
  if (fits && make_place(s, {&s, 1}, true, now)) {
    store(s, true, now);
    serve(waiter);
    answer(waiter, now);
    return true;
  }
  const Hindrance h = hindrance(*s.charge, waiter.decisions);
  for_ever = h.for_ever;
  // Without memory for a counter of another size it is looked at again soon.
  wait = h.refused ? h.wait : housekeeping_period;
  return false;
}

std::optional<base::Time> EmbeddedStore::advance(CompletionQueue& completions, base::Time now) {
  for (auto waiter = completions.take_due(now); waiter != nullptr;) {
    waiter->charges.size() == 1 && !waiter->holds ? retry_alone(*waiter, now)
                                                  : retry_together(waiter, now);
    const std::shared_ptr<Waiter> next = std::move(waiter->next_due);
    waiter = next;
  }
  return completions.rest();
}

void EmbeddedStore::retry_alone(Waiter& waiter, base::Time now) {
  Locked& locked = locked_of(waiter.charges.front());
  const std::lock_guard lock(locked.mutex);
  if (waiter.state == Waiter::State::queued) release(locked, *waiter.queue, now);
}

// Without memory it is tried again soon.
void EmbeddedStore::retry_together(const std::shared_ptr<Waiter>& waiter, base::Time now) {
  try {
    retry_locked(waiter, now);
  } catch (const std::bad_alloc&) {
    waiter->completions.wake_at(now, housekeeping_period, waiter);
  }
}

void EmbeddedStore::retry_locked(const std::shared_ptr<Waiter>& waiter, base::Time now) {
  const LockedGroup group_lock(*this, waiter->charges, {}, waiter->holds);
  if (waiter->state != Waiter::State::queued) return;
  Changes::Note note;
  if (waiter->holds && (!make_note(waiter->note.get(), note) || !open_held(group_lock.settling)))
    throw std::bad_alloc();
  Queue& queue = *waiter->queue;
  Locked& locked = locked_of(waiter->charges[waiter->at]);

  std::vector<Decision>& decisions = waiter->decisions;
  const uint64_t turn = turn_of(*waiter);
  bool allowed = true;
  for (PendingCharge& s : group_lock.settling) {
    const Wide ahead = units_ahead(s, waiter->arrival, turn);
    const bool fits = s.evaluate(spaces_, now, ahead, &decisions[s.charge->decision_first]);
    if (!fits) bring_back(s, group_lock.settling, now);
    allowed &= fits;
  }
  const bool has_places = allowed && make_places(group_lock.settling, true, now);
  if (has_places)
    for (PendingCharge& s : group_lock.settling) store(s, true, now);
  if (waiter->holds) {
    close_held(group_lock.settling);
    if (has_places && !note.empty()) keep_note(group_lock, std::move(note));
  }
  if (has_places) {
    serve(*waiter);
    answer(*waiter, now);
  } else if (allowed) {
    return waiter->completions.wake_at(now, housekeeping_period, waiter);
  } else {
    for (const PendingCharge& s : group_lock.settling) notify_owner(*waiter, *s.charge, s.entry);
    // It may lack the units of another counter by now.
    enqueue(waiter, group_lock.settling, decisions, now);
    if (waiter->queue == &queue) return;
  }
  release(locked, queue, now);
}

// Settles a parked group again: it leaves its queue and comes back under the same locks, so that no
// other group takes its units meanwhile.
bool EmbeddedStore::settle_again(request::Group& group, const request::Batch& batch, base::Time now,
                                 CompletionQueue* completions, const Pin& pin) {
  SLUICE_CHECK(completions != nullptr);
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  const std::shared_ptr<Waiter> waiter = completions->find_parked(group.ticket);
  if (waiter == nullptr) {
    const LockedGroup group_lock(*this, charges, {}, group.holds);
    return settle_locked(group, batch, group_lock, now, completions, pin);
  }
  completions->make_room();
  const LockedGroup group_lock(*this, charges, waiter->charges, group.holds);
  if (waiter->state == Waiter::State::done) {
    group.answered = true;
    return true;
  }
  // What a reserve's charges hold is the caller's, which has made it anew.
  if (!waiter->holds && asks_the_same(*waiter, charges)) {
    // It stays in its place, under the rules that are live now.
    waiter->confirmed.clear();
    for (const PendingCharge& s : group_lock.settling) {
      const auto i = static_cast<size_t>(s.charge - charges.data());
      waiter->charges[i].rule = charges[i].rule;
      if (s.entry == nullptr || s.entry->limits_id() == charges[i].limits_id) continue;
      waiter->confirmed.resize(charges.size());
      waiter->confirmed[i] = s.entry->limits_id();
    }
    waiter->pin = pin;
    group.allowed = false;
    group.parked = true;
    waiter->named = false;
    return true;
  }
  completions->unpark(group.ticket);
  const bool was_queued = leave(*waiter) != nullptr;
  const bool settled = settle_locked(group, batch, group_lock, now, completions, pin, waiter.get());
  // Its queue may have been removed by now.
  if (was_queued) {
    PendingCharge s;
    s.charge = &waiter->charges[waiter->at];
    find(s);
    if (s.queue != nullptr) release_anew(locked_of(*s.charge), *s.queue, now);
  }
  return settled;
}

// Takes the waiter out of its queue. Returns that queue, which must be released.
Queue* EmbeddedStore::leave(Waiter& waiter) {
  Queue* const queue = waiter.queue;
  dequeue(waiter);
  waiter.state = Waiter::State::done;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  waiter.completions.forget(waiter);
  return queue;
}

bool EmbeddedStore::cancel(CompletionQueue& completions, request::Ticket ticket, base::Time now) {
  const std::shared_ptr<Waiter> waiter = completions.find_parked(ticket);
  if (waiter == nullptr) return false;
  {
    const LockedGroup group_lock(*this, waiter->charges);
    if (waiter->state == Waiter::State::done) return false;
    Queue* const queue = leave(*waiter);
    if (queue != nullptr) release(locked_of(waiter->charges[waiter->at]), *queue, now);
  }
  completions.unpark(ticket);
  return true;
}

}  // namespace sluice::store
