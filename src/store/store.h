// The interface of workers to the owner of the counters. It settles batches of groups. It never
// blocks on anything slower than a stripe's lock, and never calls back, except for a completion
// queue's wake. Any number of threads may call it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "net/loop.h"
#include "request/charge.h"
#include "store/catalog.h"
#include "store/completion_queue.h"

namespace sluice::store {

// The commits that replies wait for, in a store that commits decisions before they may be answered.
// Commits have rising numbers. With a store that has no committer replies are sent at once.

class Committer {
 public:
  virtual ~Committer() = default;

  // Must every grant be committed before it is answered?
  virtual bool commits_first() const = 0;
  // A reply that is about to be sent has to wait until `durable_seq` has reached this number. 0: it
  // need not wait. While commits fail only a reply with `needs_commit` waits, a grant that must not
  // be answered then. Any thread.
  virtual uint64_t commit_seq(bool needs_commit = false) const = 0;
  virtual uint64_t durable_seq() const = 0;
  // Up to this number commits failed; replies must not wait for them any longer.
  virtual uint64_t failed_seq() const = 0;
  // Has the next commit wake the completion queue, once. False: all decisions are committed
  // already, so no wake comes. On the thread of the queue's owner.
  virtual bool await_commit(CompletionQueue& completions) = 0;
};

class Notes;  // store/notes.h

// Keeps the limits alive that parked charges point to: a reference to the rule set.
using Pin = std::shared_ptr<const void>;

// The result of a call of `apply`.
struct Applied {
  size_t settled = 0;  // groups from the front that were settled, parked or failed
  // the other groups have no answer yet: the completion queue will name the batch
  bool later = false;
};

class Store {
 public:
  // Both live as long as the store. `committer`: null where replies need not wait for commits.
  Store(Catalog& catalog, Committer* committer) : catalog_(catalog), committer_(committer) {}
  virtual ~Store() = default;

  // The store's counters for housekeeping and the admin port; the commits that replies wait for.
  Catalog& catalog() { return catalog_; }
  Committer* committer() { return committer_; }

  // Settles the groups in order, each all or nothing. Stops after the first one that fails
  // (Group::error) and may not fail: the caller decides whether the groups after it are still
  // wanted. The charges of a group have distinct keys and are at most
  // base::bounds::group_charges_max. The store copies what it keeps of the batch.
  //
  // A store that has to ask another server or a disk first returns `later`. Once it has the answer,
  // the completion queue names `ticket`, and the caller calls `apply` again with the unchanged
  // groups that are not settled yet, which may return `later` again; or it calls `abandon`. With
  // no_ticket nothing is named: the caller calls again whenever it likes.
  //
  // A refused group that may wait is parked with `completions`, unless base::bounds::waiting_max
  // are parked: then it stays refused. Units that an earlier group waits for are not given to later
  // ones, and not part of their `remaining`. A group whose cost can never fit blocks no other.
  virtual Applied apply(const request::Batch& batch, base::Time now,
                        CompletionQueue* completions = nullptr, const Pin& pin = {},
                        request::Ticket ticket = request::no_ticket) = 0;

  // Where it keeps what holds are; null: it forgets them at its end.
  virtual Notes* notes() { return nullptr; }

  // Does it settle groups without asking another server or a disk? Any thread.
  virtual bool answers_at_once() const { return true; }

  // The completion queue belongs to a worker with that loop, which the store may use to watch
  // sockets. Null: the worker ends, and with it all that it waits for. Called on the worker's
  // thread, before the first call with the queue and after the last.
  virtual void attach(CompletionQueue&, net::Loop*) {}

  // Ends a batch for which `later` was returned, or a group of which failed: `apply` will not be
  // called for its rest. Requests that were sent to another server may still take units. On the
  // thread of the queue's owner.
  virtual void abandon(CompletionQueue&, request::Ticket) {}

  // Answers the groups of `completions` that are due. The owner's thread calls it when it is woken,
  // and at the time that the last call returned, if any.
  virtual std::optional<base::Time> advance(CompletionQueue& completions, base::Time now) = 0;

  // Cancels a parked group. True: nothing was or will be taken for it. False: it is answered
  // already, and the completion queue has or had the answer. On the thread of the queue's owner.
  virtual bool cancel(CompletionQueue& completions, request::Ticket ticket, base::Time now) = 0;

  // Commits the last changes; `apply` must not be called any more. False: some could not be
  // committed; the log says why.
  virtual bool close() { return true; }

  // The message of an error for the client: what is wrong, and what to do. Lives as long as the
  // store.
  virtual std::string_view message_for(request::Error error) const;

 private:
  Catalog& catalog_;
  Committer* const committer_;
};

}  // namespace sluice::store
