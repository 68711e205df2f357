// The store that needs no other server: every counter in one table in memory, forgotten at exit.
// The table is divided into stripes, each with a lock that is held for arithmetic only, so any
// worker can decide any request at once. A group locks its stripes in order. Owned by main; apply
// and stats from any thread, housekeep and sweep from one.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/bounds.h"
#include "base/hash.h"
#include "request/counter_record.h"
#include "request/space.h"
#include "store/changes.h"
#include "store/notes.h"
#include "store/pending_charge.h"
#include "store/region.h"
#include "store/store.h"
#include "store/stripe.h"
#include "store/waiter.h"

namespace sluice::store {

enum class Restored : uint8_t {
  yes,
  no_memory,
  nonsense,  // such limits cannot have such cells: read as without cells
};

class EmbeddedStore final : public Store, public Catalog {
 public:
  static constexpr size_t stripes = Heads::stripes;

  // memory_bytes: bound of the memory of all counters, from 16 MiB (smaller values are raised to
  // this) to base::bounds::table_bytes_max. At the bound a new counter replaces one that equals a
  // fresh one, whether that is kept to be listed or not swept yet; if there is none near by the
  // group fails with Error::memory. Existing counters are not affected. `spaces`: where spaces and
  // limits of charges are interned; outlives the store. At most `waiting_max` groups are parked.
  EmbeddedStore(size_t memory_bytes, const base::Hash& hash, const request::Spaces& spaces,
                size_t waiting_max = base::bounds::waiting_max);
  // As the constructor; null: the system refused the address space.
  static std::unique_ptr<EmbeddedStore> open(size_t memory_bytes, const base::Hash& hash,
                                             const request::Spaces& spaces);
  ~EmbeddedStore() override;

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
  // Sweeps the whole table once in 10 s, or once a second while more than 7/8 of the memory is in
  // use. A call takes 5 ms at most, or 30 ms then, so a round through tens of millions of counters
  // takes longer.
  void housekeep(base::Time now) override;
  Stats stats() const override;

  // For a store that keeps the counters elsewhere as well (durable/durable_store.h): from here on
  // changes are recorded. Must be called before anything else.
  void keep_changes();
  Changes& changes() { return *changes_; }
  // Opens the next commit, and calls `visit(record)` with the state of every counter that changed
  // before, under the lock of its stripe, and marks it unchanged; what one group has changed is
  // visited as a whole, or not yet. `visit` may be called on other threads too, one at a time.
  // Then `visit_note(note)` with the notes of holds of these changes. Returns the number of the
  // commit (Changes). One thread.
  using VisitHoldNote = std::function<void(const request::HoldNote& note)>;
  uint64_t collect(
      const request::VisitCounter& visit,
      const VisitHoldNote& visit_note = [](const request::HoldNote&) {});
  // Of a hold that was restored: it has so many parts of that counter, to which so much was given
  // back. Before any request.
  void hold_again(const request::Space& space, std::string_view key, size_t parts,
                  const limit::Given& given);
  // Calls `visit(record)` with the state of every counter, without a lock, until it returns false;
  // then returns false. A counter that changes meanwhile is visited before or after that, or twice.
  // One thread of low priority.
  bool walk(const std::function<bool(const request::CounterRecord&)>& visit);
  // Does a thread of this process walk? Until it ends `mark_named` does nothing.
  bool is_walking() const;
  // Restores a stored counter. `newest`: replaces the one in the table; otherwise only if the table
  // has none. A record without cells: the disk has no such counter.
  Restored restore(const request::CounterRecord& record, bool newest) {
    return restore(record, newest, {});
  }
  // Restores a counter only if the table has none. Without memory it may replace the counters that
  // a new one may.
  Restored restore(const request::CounterRecord& record, base::Time now) {
    return restore(record, false, {}, &now);
  }
  // One of `of` threads that share them out: what is another's is skipped.
  struct RestoreShare {
    size_t number = 0, of = 1;
  };
  Restored restore(const request::CounterRecord& record, bool newest, RestoreShare part,
                   const base::Time* now = nullptr);
  // Calls `visit(charge)` for the charges of a group whose counters are not in the table.
  template <class Visit>
  void each_absent(const request::Batch& batch, const request::Group& group, Visit&& visit);
  // Makes room in an empty table for that many counters, before they are restored.
  void reserve(uint64_t counters);
  // While this is set, a counter that is not in the table may be on the disk. Set once, and cleared
  // once.
  void set_loading(bool is) { loading_.store(is); }

  // Looks at the next `chains` chains, and starts again after the last one. Drops counters that
  // have equalled a fresh one for their space's keep_fresh_for and that no request waits for. Locks
  // one stripe at a time, for at most sweep_chains_per_lock chains.
  void sweep(base::Time now, uint64_t chains);
  // Drops changed counters that equal a fresh one; `housekeep` calls this while memory is short.
  // Takes as long as one call of the sweep may. The same thread.
  void sweep_changed(base::Time now);
  // The number of chains: sweeping twice as many covers the table at least once. For tests.
  uint64_t chains() const;

 private:
  static constexpr uint32_t sweep_chains_per_lock = 64;
  // The longest time of one call of housekeeping; the second is for when memory is short.
  static constexpr auto time_max = std::chrono::milliseconds(5),
                        pressed_time_max = std::chrono::milliseconds(30);
  // A pass through the table rests between its steps. A thread that has just rested is unlikely to
  // be preempted while it holds a lock, which would make others wait until it runs again.
  static constexpr auto rest = std::chrono::microseconds(50);
  static constexpr size_t steps_per_rest = 16;
  // How many changes are collected under one lock.
  static constexpr size_t collected_per_lock = 32;
  // How many chains of its stripe each new counter sweeps while memory is short, so that a flood of
  // new counters finds places even if the sweeping thread is too slow.
  static constexpr uint32_t chains_per_new_counter = 4;
  // At most so many waiters are answered by one call under a stripe's lock; then the owner of the
  // next one continues.
  static constexpr size_t answers_per_lock_max = 128;

  // What the holds of a counter need of it.
  struct HeldCounter {
    limit::Given given;
    uint64_t parts = 0;  // that will be settled
  };

  struct alignas(64) Locked {
    mutable std::mutex mutex;
    Stripe stripe;
    // The queues of entries that requests wait for; null: none ever did.
    std::unique_ptr<std::map<const Entry*, Queue>> queues;
    // By hash, the counters that have parts of holds; null: none ever had. Two counters with one
    // hash share theirs, so that their holds may get less back.
    std::unique_ptr<std::unordered_map<uint64_t, HeldCounter>> held;
  };
  static size_t stripe_of(uint64_t hash) { return hash >> 54; }
  static_assert(stripes == size_t{1} << (64 - 54));
  Locked& locked_of(const request::Charge& charge) { return (*table_)[stripe_of(charge.hash)]; }

  struct LockedGroup;

  size_t purge_noted(base::Time now);
  void mark_stripe(size_t index, request::Marks& marks);
  void take_from_limits(Entry& entry, request::Marks& marks);

  // Calls `step(stripe, chain)` for every sweep_chains_per_lock chains, and takes the lock again
  // for each step. Every counter that exists all the time is visited at least once. Ends early once
  // `goes_on()` is false.
  template <class Step, class GoesOn>
  void each_step(Step&& step, GoesOn&& goes_on);
  // The same for one stripe, without a rest.
  template <class Step, class GoesOn>
  void each_step_of(Locked& locked, Step&& step, GoesOn&& goes_on);
  template <class Step>
  void each_step(Step&& step) {
    each_step(std::forward<Step>(step), [] { return true; });
  }

  // Is more than 7/8 of the memory in use?
  bool is_pressed() const { return region_.bytes() > region_.bytes_max() / 8 * 7; }
  void prepare(const request::Batch& batch) const;
  uint64_t collect_before(std::span<Locked* const> locked);
  void collect_stripe(size_t stripe, size_t most);
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
  // False: there is no memory to note the change, and nothing is written.
  [[nodiscard]] bool write(PendingCharge& s);
  [[nodiscard]] bool write_noted(PendingCharge& s);
  void note(size_t stripe, Entry& entry);
  void move_note(const PendingCharge& s, Entry& place);
  void erase_noted(size_t stripe, Entry& entry);
  void erase(PendingCharge& s);
  void bring_back(PendingCharge& s, std::span<const PendingCharge> group, base::Time now);
  bool make_note(request::HoldNote* its_note, Changes::Note& note);
  void keep_note(const LockedGroup& group_lock, Changes::Note note);
  bool open_held(std::span<PendingCharge> settling);
  void close_held(std::span<PendingCharge> settling);
  void keep_given(const request::Charge& charge, const limit::Given* given,
                  uint64_t commit) noexcept;
  void note_given(PendingCharge& s, bool allowed, base::Time now);

  // With the locks of all of the group's stripes.
  // `before`: the group as it waited, which has left its queue; null: it is new.
  bool settle_locked(request::Group& group, const request::Batch& batch,
                     const LockedGroup& group_lock, base::Time now, CompletionQueue* completions,
                     const Pin& pin, const Waiter* before = nullptr);
  // False: there is no memory, and the group is not parked. `turn`: as it left its last queue.
  bool park(request::Group& group, std::span<PendingCharge> settling,
            std::span<const limit::Decision> all, base::Time now, CompletionQueue& completions,
            const Pin& pin, uint64_t turn = 0);
  Queue& queue_of(PendingCharge& s);
  void enqueue(const std::shared_ptr<Waiter>& waiter, std::span<PendingCharge> settling,
               std::span<const limit::Decision> all, base::Time now);
  static uint64_t turn_of(const Waiter& waiter);
  void dequeue(Waiter& waiter);
  void serve(Waiter& waiter);
  void pass_turn(const Waiter& waiter);
  // The units that waiters claim before a group of that arrival and turn; arrival 0: a new group.
  static limit::Wide units_ahead(const PendingCharge& s, uint64_t arrival, uint64_t turn);
  void retry_together(const std::shared_ptr<Waiter>& waiter, base::Time now);
  void retry_locked(const std::shared_ptr<Waiter>& waiter, base::Time now);
  Queue* leave(Waiter& waiter);
  void answer(Waiter& waiter, base::Time now);

  // With the lock of the stripe: answers the waiters at the front of the queue that have enough
  // units now, and sets when the next one is looked at.
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
  // What collects at the moment; null: nothing does. Its mutex is taken with a stripe's lock.
  const request::VisitCounter* collecting_ = nullptr;
  std::mutex collecting_mutex_;
  int collecting_process_ = 0;   // its process: a child after fork() has no such thread
  std::atomic<int> walking_{0};  // the process whose thread walks; 0: none does
  std::atomic<bool> loading_{false};
  std::atomic<uint64_t> swept_{0}, purged_{0}, refused_{0}, arrivals_{0}, waiting_{0};
  uint64_t round_chains_ = 0, chains_seen_ = 0;  // chains of the last round, and of this one so far
  size_t sweep_stripe_ = 0, changed_stripe_ = 0;
  uint32_t sweep_chain_ = 0;
  size_t marked_stripes_ = 0;  // the stripes that mark_named has finished
  // Scratch: counters of one step whose lists give way. Of more than these the lists stay until the
  // next round.
  static constexpr size_t taken_per_lock = 256;
  std::array<Entry*, taken_per_lock> to_take_{};
};

// The most states of counters that a journal's log may have, so that the table has places for all
// of them at a start: a quarter of those that it has.
inline uint64_t log_counters_for(const EmbeddedStore& table) {
  constexpr uint64_t bytes_of_counter = 64;
  return table.stats().memory_bytes_max / bytes_of_counter / 4;
}

// Forced inline for the same reason as PendingCharge::evaluate.
[[gnu::always_inline]] inline bool EmbeddedStore::write(PendingCharge& s) {
  if (changes_ != nullptr) [[unlikely]]
    return write_noted(s);
  s.write();
  return true;
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
      // Counters may have moved to chains that were visited, so it starts again. This ends, as the
      // stripe gets smaller each time.
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
