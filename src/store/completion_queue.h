// Delivers the store's answers for parked groups to the worker that parked them; each worker has
// one. The store fills it from any thread; the worker drains it. Outlives every group that was
// parked with it.
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
  // not none: nothing was taken, and `decisions` is void
  request::Error error = request::Error::none;
  base::Time at;                           // when it was decided
  std::vector<limit::Decision> decisions;  // of its charges, in order
};

class CompletionQueue {
 public:
  // `wake` is called when there is something to drain, or an earlier time to wake at, and then not
  // again before Store::advance. It is called on any thread, perhaps with a counter's lock held: it
  // must neither block nor call the store.
  explicit CompletionQueue(std::function<void()> wake);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Appends to `ready` the tickets of the batches for which Store::apply must be called again.
  // Owner's thread.
  void drain_batches(std::vector<request::Ticket>& ready);
  // Called by the store, on any thread: the answer of a parked group that the store itself keeps.
  void settle(Settled settled);
  // Has the store's `advance` called. Any thread.
  void wake();

  // Called by the store, on any thread: the first group of a queue waits under other limits than
  // those that its counter has by now, so its owner must match it again by the live rules and call
  // the store with it.
  void resume_waiter(request::Ticket ticket);
  // Appends to `named` the tickets of these groups. Owner's thread, after Store::advance.
  void drain_waiters(std::vector<request::Ticket>& named);

  // The number of groups that are parked here or have an answer that is not drained yet. Owner's
  // thread.
  size_t parked() const { return parked_.size(); }

  // Called by the store, on any thread: Store::apply must be called again for the batch.
  void resume_batch(request::Ticket ticket);

  // For a store with a Committer. True at the first call: from then on that store calls
  // `notify_durable` here. Owner's thread.
  bool introduce() { return !std::exchange(known_, true); }
  // Has the next `notify_durable` wake the owner, whose thread calls this.
  void await_commit() { awaits_commit_.store(true); }
  // Called by the store after a commit. Any thread.
  void notify_durable() {
    if (awaits_commit_.exchange(false)) wake();
  }

  // Appends to `settled` the answers since the last call. Owner's thread, after Store::advance; an
  // answer that comes between the two calls wakes the owner again.
  void drain(std::vector<Settled>& settled);

  // From here on: for the table in memory, which parks groups here and looks for those that are
  // due.

  // By time, then by arrival; each waiter at most once.
  using Due = std::map<std::pair<int64_t, uint64_t>, std::shared_ptr<Waiter>>;

  // Keeps a waiter under its ticket, which must be a new one, and makes room for all that may
  // become of it, so that nothing below fails. Throws std::bad_alloc: it is not kept. Owner's
  // thread, as are the next three.
  void park(const std::shared_ptr<Waiter>& waiter);
  // Makes room for what becomes of a parked waiter that is named once more. Throws std::bad_alloc.
  void make_room();
  // The waiter of that ticket, also if its answer was not drained; null: there is none.
  std::shared_ptr<Waiter> find_parked(request::Ticket ticket) const;
  void unpark(request::Ticket ticket);
  // Answers the waiter; `settled` has its ticket. Any thread, as are the next two.
  void deliver(Waiter& waiter, Settled settled);
  // Sets when the waiter must be looked at: `wait` after `now`, the caller's time. Replaces the
  // time of an earlier call.
  void wake_at(base::Time now, base::Duration wait, const std::shared_ptr<Waiter>& waiter);
  void forget(Waiter& waiter);
  // Takes the waiters that are due at `now`, and returns the first; each names the next
  // (Waiter::next_due). If the clock has gone back it takes all that have a time, as those times
  // may be too late now. Until `rest` the owner counts as awake, and is not woken. Owner's thread.
  std::shared_ptr<Waiter> take_due(base::Time now);
  // From here on the owner is woken again. Returns the next time that is due, if any. Owner's
  // thread.
  std::optional<base::Time> rest();

 private:
  void make_room(size_t parked);
  void remove(Waiter& waiter);
  std::shared_ptr<Waiter> take(Due::iterator at);
  void wake_once();

  static uint64_t key(request::Ticket t) { return uint64_t{t.generation} << 32 | t.slot; }

  const std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<Settled> settled_;  // guarded by mutex_, as are the next five
  std::vector<request::Ticket> batches_;
  std::vector<request::Ticket> waiters_;  // whose groups must be matched again
  Due due_;
  int64_t set_us_ = INT64_MIN;  // the latest moment at which one of these times was set
  bool woken_ = false;
  // The owner waits for a commit. Set by the owner, cleared by the thread that commits.
  std::atomic<bool> awaits_commit_{false};
  int64_t now_us_ = INT64_MIN;  // of the last take_due; owner's thread only, as is the next
  bool known_ = false;          // `introduce` was called; owner's thread only, as is the next
  // The parked groups, by ticket.
  std::unordered_map<uint64_t, std::shared_ptr<Waiter>> parked_;
};

}  // namespace sluice::store
