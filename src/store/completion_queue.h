// Where the answers of parked groups come out: one per worker. The store fills it from any thread;
// the worker that owns it drains it. Outlives every group that was parked with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::store {

struct Waiter;

// The answer of a group that was parked.
struct Settled {
  request::Ticket ticket;
  request::Error error = request::Error::none;  // not none: nothing was taken, decisions are void
  base::Time at;                                // when it was decided: it is allowed since
  std::vector<limit::Decision> decisions;       // of its charges, in order
};

class CompletionQueue {
 public:
  // `wake` is called from any thread, possibly with the lock of a counter held, when there is
  // something to drain or an earlier moment to wake at; it must not block nor call the store. Not
  // again before Store::advance.
  explicit CompletionQueue(std::function<void()> wake);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Moves the tickets of the batches that the store must be asked about again to the end of
  // `ready`. Owner's thread.
  void drain_batches(std::vector<request::Ticket>& ready);
  // The answer of a group that was parked, and that the store itself keeps. Any thread; the store's
  // to call.
  void settle(Settled settled);
  // Has the store's `advance` called. Any thread.
  void wake();

  // A group that is parked, and the first of a queue, must be asked again by its owner, by the
  // rules that are live: its counter is kept under other limits than its own by now. Any thread;
  // the store's to call.
  void resume_waiter(request::Ticket ticket);
  // Moves the tickets of these to the end of `named`. Owner's thread, after Store::advance.
  void drain_waiters(std::vector<request::Ticket>& named);

  // Groups that are parked here or have an answer that was not drained. Owner's thread.
  size_t parked() const { return parked_.size(); }

  // The store must be asked again about the batch. Any thread; the store's to call.
  void resume_batch(request::Ticket ticket);

  // For a store that commits what it decided. True the first time: from then on that store calls
  // `notify_durable` here. Owner's thread.
  bool introduce() { return !std::exchange(known_, true); }
  // Has the next `notify_durable` wake the owner, whose thread calls this.
  void await_commit() { awaits_commit_.store(true); }
  // More has been committed. Any thread.
  void notify_durable() {
    if (awaits_commit_.exchange(false)) wake();
  }

  // Moves what has settled since the last time to the end of `settled`. Owner's thread, after
  // Store::advance: what settles between the two wakes again.
  void drain(std::vector<Settled>& settled);

  // For the table in memory, which parks groups here and looks for what is due.

  // Keeps a waiter under its ticket, which none has yet. Owner's thread, as are the next two.
  void park(const std::shared_ptr<Waiter>& waiter);
  // The waiter of that ticket, also if its answer was not drained; null: there is none.
  std::shared_ptr<Waiter> find_parked(request::Ticket ticket) const;
  void unpark(request::Ticket ticket);
  // The waiter is answered; `settled` is of its ticket. Any thread, as are the next two.
  void deliver(Waiter& waiter, Settled settled);
  // In place of an earlier call's time. `now` is the caller's.
  void wake_at(base::Time now, base::Duration wait, const std::shared_ptr<Waiter>& waiter);
  void forget(Waiter& waiter);
  // The owner is awake until `rest`: takes the waiters that are due at `now`; all that have a time,
  // where that has gone back, as theirs may be too late. Owner's thread.
  void take_due(base::Time now, std::vector<std::shared_ptr<Waiter>>& waiters);
  // Whatever comes from here on wakes. Returns the next moment, if any. Owner's thread.
  std::optional<base::Time> rest();

 private:
  // By time, then by arrival; a waiter is in it once at most.
  using Due = std::map<std::pair<int64_t, uint64_t>, std::shared_ptr<Waiter>>;

  void remove(Waiter& waiter);
  void wake_once();

  static uint64_t key(request::Ticket t) { return uint64_t{t.generation} << 32 | t.slot; }

  const std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<Settled> settled_;  // guarded by mutex_, as are the next five
  std::vector<request::Ticket> batches_;
  std::vector<request::Ticket> waiters_;  // that must be asked again
  Due due_;
  int64_t set_us_ = INT64_MIN;  // the latest moment at which one of these times was set
  bool woken_ = false;
  // A commit is waited for: set by the owner, taken back by who commits.
  std::atomic<bool> awaits_commit_{false};
  int64_t now_us_ = INT64_MIN;  // of the last take_due; owner's thread only, as is the next
  bool known_ = false;          // to the store, which wakes it; owner's thread only, as is the next
  // What is parked, by ticket.
  std::unordered_map<uint64_t, std::shared_ptr<Waiter>> parked_;
};

}  // namespace sluice::store
