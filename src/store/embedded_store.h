// The store that needs no other server: every counter in one table in memory, forgotten at exit.
// The table is cut into stripes with a lock each, held for arithmetic only, so any worker decides
// any request at once; a group locks its stripes in order. Owned by main; apply and stats from any
// thread, housekeep and sweep from one.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bounds.h"
#include "base/hash.h"
#include "request/counter_record.h"
#include "request/space.h"
#include "store/changes.h"
#include "store/pending_charge.h"
#include "store/region.h"
#include "store/slab.h"
#include "store/store.h"
#include "store/stripe.h"
#include "store/waiter.h"

namespace sluice::store {

enum class Restored : uint8_t {
  yes,
  no_memory,
  nonsense,  // no counter of such limits looks like that; it is read as none
};

// More than twenty members: parts of the table, and how far the rounds of housekeeping are in it.
class EmbeddedStore final : public Store, public Catalog {
 public:
  static constexpr size_t stripes = Heads::stripes;

  // memory_bytes: bound of all that counters hold, 16 MiB (smaller ones are raised to it) to
  // base::bounds:: table_bytes_max. Past it a new counter takes the place of one that equals a
  // fresh one, lingering or not swept yet; where there is none near by it fails with Error::memory.
  // Those that exist go on. `spaces` is what spaces and limits of charges are interned in; it
  // outlives the store. No more than `waiting_max` groups are parked.
  EmbeddedStore(size_t memory_bytes, const base::Hash& hash, const request::Spaces& spaces,
                size_t waiting_max = base::bounds::waiting_max);
  // The same; null where the system does not give the address space.
  static std::unique_ptr<EmbeddedStore> open(size_t memory_bytes, const base::Hash& hash,
                                             const request::Spaces& spaces);
  ~EmbeddedStore() override;

  Catalog& catalog() override { return *this; }

  Applied apply(const request::Batch& batch, base::Time now, CompletionQueue* completions = nullptr,
                const Pin& pin = {}, request::Ticket ticket = request::no_ticket) override;
  std::optional<base::Time> advance(CompletionQueue& completions, base::Time now) override;
  bool cancel(CompletionQueue& completions, request::Ticket ticket, base::Time now) override;
  std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                size_t max) override;
  void list_all(ListPass& pass) override;
  ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                     std::string_view after, size_t max, std::string_view from) override;
  size_t purge(base::Time now) override;
  bool mark_named(request::Marks& marks, bool first) override;
  // Sweeps the table once in 10 s, or once in a second while more than 7/8 of the memory is in use;
  // but for 5 ms a call at most, 30 ms then: a round through tens of millions takes longer.
  void housekeep(base::Time now) override;
  Stats stats() const override;

  // For a store that keeps what is in the table elsewhere, too (durable/durable_store.h). From here
  // on, and before anything else, changes are noted.
  void keep_changes();
  Changes& changes() { return *changes_; }
  // Calls `visit(record)` with the state of every counter that has changed, under the lock of its
  // stripe, and forgets that it has. One thread.
  void collect(const request::VisitCounter& visit);
  // A counter as it was stored. `newest`: in place of what is in the table, else only if there is
  // nothing. No cells: it is known that there is none.
  Restored restore(const request::CounterRecord& record, bool newest) {
    return restore(record, newest, {});
  }
  // Only if there is nothing; while there is no memory in place of what a new counter may replace.
  Restored restore(const request::CounterRecord& record, base::Time now) {
    return restore(record, false, {}, &now);
  }
  // One of `of` threads that share them out: what is another's is skipped.
  struct Part {
    size_t number = 0, of = 1;
  };
  Restored restore(const request::CounterRecord& record, bool newest, Part part,
                   const base::Time* now = nullptr);
  // Calls `visit(charge)` for the charges of a group whose counters are not in the table.
  template <class Visit>
  void each_absent(const request::Batch& batch, const request::Group& group, Visit&& visit);
  // Room for that many, in an empty table, ahead of restoring them.
  void reserve(uint64_t counters);
  // What is not in the table may be on the disk: from `true` to `false`.
  void set_loading(bool is) { loading_.store(is); }

  // Looks at the next `chains` chains, drops the counters that equal a fresh one, have done so for
  // their space's keep_fresh_for, and that no request waits for, and goes round for ever. Locks one
  // stripe at a time, for at most sweep_chains_per_lock chains.
  void sweep(base::Time now, uint64_t chains);
  // Drops those of the changed counters that equal a fresh one; `housekeep` does so while memory is
  // short. For as long as a round of the sweep may take. The same thread.
  void sweep_changed(base::Time now);
  // Chains there are now: sweeping twice as many goes round once. For tests.
  uint64_t chains() const;

 private:
  static constexpr uint32_t sweep_chains_per_lock = 64;
  // What one call of the housekeeping may take, and while memory is short.
  static constexpr auto time_max = std::chrono::milliseconds(5),
                        pressed_time_max = std::chrono::milliseconds(30);
  // How a pass goes through the table. A thread that has just rested is unlikely to be preempted
  // while it holds a lock, and so unlikely to hold up others until it runs again.
  static constexpr auto rest = std::chrono::microseconds(50);
  static constexpr size_t steps_per_rest = 16;
  // Changes that are collected under one lock.
  static constexpr size_t collected_per_lock = 32;
  // Chains that each new counter sweeps in its stripe while memory is short: so a flood of new
  // counters finds places even where the sweeping thread cannot follow.
  static constexpr uint32_t chains_per_new_counter = 4;
  // Answers that one call gives under a stripe's lock; the next one's owner goes on.
  static constexpr size_t answers_per_lock_max = 128;

  struct alignas(64) Locked {
    mutable std::mutex mutex;
    Stripe stripe;
    // Of the entries that are waited for; null: none ever was.
    std::unique_ptr<std::map<const Entry*, Queue>> queues;
  };
  static size_t stripe_of(uint64_t hash) { return hash >> 54; }
  static_assert(stripes == size_t{1} << (64 - 54));
  Locked& locked_of(const request::Charge& charge) { return (*table_)[stripe_of(charge.hash)]; }

  struct LockedGroup;

  size_t purge_noted(base::Time now);
  void mark_stripe(size_t index, request::Marks& marks);

  // Calls `step(stripe, chain)` for every sweep_chains_per_lock chains, each with its lock again. A
  // counter that is there all the time is met at least once.
  // It ends early once `goes_on()` is false.
  template <class Step, class GoesOn>
  void each_step(Step&& step, GoesOn&& goes_on);
  // The same of one stripe, without a rest.
  template <class Step, class GoesOn>
  void each_step_of(Locked& locked, Step&& step, GoesOn&& goes_on);
  template <class Step>
  void each_step(Step&& step) {
    each_step(std::forward<Step>(step), [] { return true; });
  }

  // Is more than 7/8 of the memory in use?
  bool is_pressed() const { return region_.bytes() > region_.bytes_max() / 8 * 7; }
  void prepare(const request::Batch& batch) const;
  bool settle_alone(request::Group& group, request::Charge& charge, std::span<limit::Decision> all,
                    base::Time now, CompletionQueue* completions, const Pin& pin);
  bool settle_together(request::Group& group, const request::Batch& batch, base::Time now,
                       CompletionQueue* completions, const Pin& pin);
  bool settle_again(request::Group& group, const request::Batch& batch, base::Time now,
                    CompletionQueue* completions, const Pin& pin);

  void retry_alone(Waiter& waiter, base::Time now);

  // With the lock of the charge's stripe.
  void find(PendingCharge& s);
  bool make_place(PendingCharge& s, std::span<const PendingCharge> group, bool allowed,
                  base::Time now);
  bool make_places(std::span<PendingCharge> settling, bool allowed, base::Time now);
  Entry* insert(const PendingCharge& s, std::span<const PendingCharge> group, base::Time now);
  Entry* insert_replacing(Stripe& stripe, uint64_t hash, const request::Space& space,
                          std::string_view key, size_t cells, const Sweep& sweep);
  void move_in(PendingCharge& s);
  void store(PendingCharge& s, bool allowed, base::Time now);
  void write(PendingCharge& s);
  void write_noted(PendingCharge& s);
  void note(size_t stripe, Entry& entry);
  void move_note(const PendingCharge& s, Entry& place);
  void erase_noted(size_t stripe, Entry& entry);
  void erase(PendingCharge& s);
  void bring_back(const PendingCharge& s, base::Time now);

  // With the locks of all of the group's stripes.
  bool settle_locked(request::Group& group, const request::Batch& batch,
                     std::span<PendingCharge> settling, base::Time now,
                     CompletionQueue* completions, const Pin& pin);
  void park(request::Group& group, std::span<PendingCharge> settling,
            std::span<const limit::Decision> all, base::Time now, CompletionQueue& completions,
            const Pin& pin);
  void enqueue(const std::shared_ptr<Waiter>& waiter, std::span<PendingCharge> settling,
               std::span<const limit::Decision> all, base::Time now);
  void dequeue(Waiter& waiter);
  // Units that are not there for a group of that arrival, 0: a new one.
  static limit::Wide units_ahead(const PendingCharge& s, uint64_t arrival);
  void retry_together(const std::shared_ptr<Waiter>& waiter, base::Time now);
  Queue* leave(Waiter& waiter);
  void answer(Waiter& waiter, std::vector<limit::Decision> decisions, base::Time now);

  // With the lock of the stripe: answers those at the front of the queue that have enough now, and
  // sees to the next.
  void release(Locked& locked, Queue& queue, base::Time now);
  void release_anew(Locked& locked, Queue& queue, base::Time now);
  void release_for(const PendingCharge& s, base::Time now);
  bool answer_alone(Waiter& waiter, Queue& queue, base::Time now, bool& for_ever,
                    base::Duration& wait);
  void close_if_empty(Locked& locked, Queue& queue);

  const base::Hash hash_;
  const request::Spaces& spaces_;
  const size_t waiting_max_;
  Region region_;
  Heads heads_;
  const size_t slab_count_;
  const std::unique_ptr<Slab[]> slabs_;
  std::unique_ptr<std::array<Locked, stripes>> table_;
  std::unique_ptr<Changes> changes_;  // null: they are not recorded
  std::atomic<bool> loading_{false};
  std::atomic<uint64_t> swept_{0}, purged_{0}, refused_{0}, arrivals_{0}, waiting_{0};
  uint64_t round_chains_ = 0, chains_seen_ = 0;  // of the last round, and of this one so far
  size_t sweep_stripe_ = 0, changed_stripe_ = 0;
  uint32_t sweep_chain_ = 0;
  size_t marked_stripes_ = 0;  // that mark_named has been through
};

// Forced inline for the same reason as PendingCharge::evaluate.
[[gnu::always_inline]] inline void EmbeddedStore::write(PendingCharge& s) {
  if (changes_ == nullptr) [[likely]]
    s.write();
  else
    write_noted(s);
}

inline void EmbeddedStore::find(PendingCharge& s) {
  const request::Charge& charge = *s.charge;
  Locked& locked = locked_of(charge);
  s.entry = locked.stripe.find(region_, charge.hash, charge.space->id, charge.key);
  s.queue = nullptr;
  if (s.entry != nullptr && s.entry->waited_for()) [[unlikely]]
    s.queue = &locked.queues->at(s.entry);
}

template <class Step, class GoesOn>
void EmbeddedStore::each_step(Step&& step, GoesOn&& goes_on) {
  size_t steps = 0;
  for (auto& locked : *table_) {
    each_step_of(locked, step, [&] {
      if (!goes_on()) return false;
      if (++steps % steps_per_rest == 0) std::this_thread::sleep_for(rest);
      return true;
    });
  }
}

template <class Step, class GoesOn>
void EmbeddedStore::each_step_of(Locked& locked, Step&& step, GoesOn&& goes_on) {
  uint32_t merges = 0;
  for (uint32_t chain = 0; goes_on();) {
    const std::lock_guard lock(locked.mutex);
    if (chain == 0) {
      merges = locked.stripe.merges();
    } else if (merges != locked.stripe.merges()) {
      // Counters may have moved to where it has been. It ends: the stripe gets smaller.
      chain = 0;
      continue;
    }
    if (chain >= locked.stripe.chains()) break;
    step(locked.stripe, chain);
    chain += sweep_chains_per_lock;
  }
}

template <class Visit>
void EmbeddedStore::each_absent(const request::Batch& batch, const request::Group& group,
                                Visit&& visit) {
  for (auto& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    if (!charge.keeps_limits && !limit::is_counted(charge.limits)) continue;
    charge.hash = hash_(charge.space->id, charge.key);
    Locked& locked = locked_of(charge);
    const std::lock_guard lock(locked.mutex);
    if (locked.stripe.find(region_, charge.hash, charge.space->id, charge.key) == nullptr)
      visit(charge);
  }
}

}  // namespace sluice::store
