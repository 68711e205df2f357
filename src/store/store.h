// The interface of workers to what owns counters. It settles batches of groups; it never blocks on
// anything slower than a stripe's lock and never calls back, but for a completion queue's wake. Any
// number of threads may call it at once.
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
#include "store/committer.h"
#include "store/completion_queue.h"

namespace sluice::store {

// What keeps the limits alive that parked charges point to: the rule set.
using Pin = std::shared_ptr<const void>;

// What a call of `apply` came to.
struct Applied {
  size_t settled = 0;  // groups from the front that were settled, parked or failed
  bool later = false;  // the rest has no answer yet: the completion queue will name the batch
};

class Store {
 public:
  virtual ~Store() = default;

  // Settles the groups in order, each all or nothing, and stops behind the first that fails
  // (Group::error) and may not: the caller knows whether what follows is still wanted. Per group
  // the charges' keys are distinct and at most base::bounds::group_charges_max; what is kept of the
  // batch is copied.
  //
  // A store that has to ask elsewhere first says `later`. Then the completion queue names `ticket`
  // once it must be called again with the groups behind those settled, the same as before, and
  // goes on; it may say `later` again. A caller that is not interested any more says `abandon`.
  // With no_ticket nothing is named: the caller asks again when it likes.
  //
  // A group that may wait and is refused is parked with `completions`, unless
  // base::bounds::waiting_max are already: then it stays refused. Units that an earlier one waits
  // for are not there for anybody behind it, and `remaining` says so; one that can never fit blocks
  // no other.
  virtual Applied apply(const request::Batch& batch, base::Time now,
                        CompletionQueue* completions = nullptr, const Pin& pin = {},
                        request::Ticket ticket = request::no_ticket) = 0;

  // The completion queue is of a worker with that loop, which a store may watch sockets with; and
  // it no longer is, and with it goes all that its owner waits for. The completion queue's owner's
  // thread, before the first call with it and after the last.
  virtual void attach(CompletionQueue&, net::Loop&) {}
  virtual void detach(CompletionQueue&) {}

  // No caller asks any more for the rest of the batch: `later` was said of it, or a group of it
  // failed. What was sent may still be taken. The completion queue's owner's thread.
  virtual void abandon(CompletionQueue&, request::Ticket) {}

  // Answers what is due at `completions`: the owner's thread calls it when woken and at the time
  // that it returned; none: when woken.
  virtual std::optional<base::Time> advance(CompletionQueue& completions, base::Time now) = 0;

  // Forgets a parked group. True: nothing was or will be taken for it. False: it has its answer,
  // which the completion queue has or had. The completion queue's owner's thread.
  virtual bool cancel(CompletionQueue& completions, request::Ticket ticket, base::Time now) = 0;

  // What a reply has to wait for; null: nothing. As long as the store.
  virtual Committer* committer() { return nullptr; }
  // What it holds; as long as the store.
  virtual Catalog& catalog() = 0;

  // Commits what is left, once nothing is asked any more. False: not all of it could be; the log
  // says why.
  virtual bool close() { return true; }

  // An error for the client: what is wrong, and what to do. Lives as long as the store.
  virtual std::string_view message_for(request::Error error) const;
};

}  // namespace sluice::store
