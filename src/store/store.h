// The one interface to what owns counters. It settles batches of groups; it never blocks on
// anything slower than a stripe's lock and never calls back, but for a port's wake. Any number of
// threads may call it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "request/charge.h"
#include "request/space.h"
#include "request/space_index.h"
#include "store/list_pass.h"
#include "store/port.h"

namespace sluice::store {

struct Stats {
  uint64_t counters = 0;          // alive in the store, swept ones excluded
  uint64_t memory_bytes = 0;      // held for counters, exact
  uint64_t memory_bytes_max = 0;  // of these; 0: unknown
  uint64_t swept = 0;    // counters dropped because they equalled a fresh one, since the start
  uint64_t purged = 0;   // counters that `purge` forgot, since the start
  uint64_t refused = 0;  // groups that failed for want of memory, since the start
  uint64_t waiting = 0;  // groups that are parked
  // Of a store that is kept on disk.
  bool loading = false;          // not all counters are back from it yet
  bool failing = false;          // it cannot be written at the moment
  uint64_t commits = 0;          // since the start, as are the next three
  uint64_t commit_failures = 0;  // the folding's as well
  uint64_t committed_counters = 0;
  uint64_t committed_bytes = 0;
  uint64_t unfolded_bytes = 0;  // committed, and not under the counters' own keys yet
};

// What keeps the limits alive that parked charges point to: the rule set.
using Pin = std::shared_ptr<const void>;

// What a call of `apply` came to.
struct Applied {
  size_t settled = 0;  // groups from the front that were settled, parked or failed
  bool later = false;  // the rest has no answer yet: the port will name the batch
};

// What a search for counters by their stored names found.
struct Stored {
  std::vector<std::string> keys;  // prefix + key + suffix, in byte order, each once
  // Not empty: not everything was looked at, as that would be too many keys or take too long; a
  // search `from` this goes on with the rest.
  std::string rest = {};
  // A search `after` the last of `keys`, `from` this, looks at the same once more and at nothing
  // behind it: so `rest` of the two together leaves nothing out.
  std::string again = {};
  // Names behind the last of `keys` were left out, as all together are too many bytes.
  bool more = false;
  bool failed = false;   // it could not be looked at
  bool unknown = false;  // `from` is nothing that a search says
};

class Store {
 public:
  static constexpr base::Duration housekeeping_period = base::milliseconds(100);

  virtual ~Store() = default;

  // Settles the groups in order, each all or nothing, and stops behind the first that fails
  // (Group::error) and may not: the caller knows whether what follows is still wanted. Per group
  // the charges' keys are distinct and at most base::bounds::group_charges_max; what is kept of the
  // batch is copied.
  //
  // A store that has to ask elsewhere first says `later`. Then the port names `ticket` once it is
  // to be called again with the groups behind those settled, the same as before, and goes on; it
  // may say `later` again. Who is not interested any more says `abandon`. With no_ticket nobody is
  // named: the caller asks again when it likes.
  //
  // A group that may wait and is refused is parked with `port`, unless base::bounds::waiting_max
  // are already: then it stays refused. Units that an earlier one waits for are not there for
  // anybody behind it, and `remaining` says so; one that can never fit blocks nobody.
  virtual Applied apply(const request::Batch& batch, base::Time now, Port* port = nullptr,
                        const Pin& pin = {}, request::Ticket ticket = request::no_ticket) = 0;

  // The port is of a worker with that loop, which a store may watch sockets with; and it no
  // longer is, and with it goes all that its owner waits for. The port's owner's thread, before the
  // first call with it and after the last.
  virtual void attach(Port&, net::Loop&) {}
  virtual void detach(Port&) {}

  // Nobody asks any more for the rest of the batch: `later` was said of it, or a group of it
  // failed. What was sent may still be taken. The port's owner's thread.
  virtual void abandon(Port&, request::Ticket) {}

  // Does it commit what it decided before that may be told?
  virtual bool commits_first() const { return false; }
  // If so: what is sent now has to wait until `committed` has
  // reached this. 0: it has not to wait. Any thread.
  // While it cannot be committed only what is `strict` waits: a grant that must not be told then.
  virtual uint64_t gate(bool /*strict*/ = false) const { return 0; }
  virtual uint64_t committed() const { return 0; }
  // Up to this it could not be committed in time, and nothing is to wait for that any more.
  virtual uint64_t given_up() const { return 0; }
  // Wakes the port when more has been committed than there is now, once. False: all that was
  // decided has been committed by now. The port's owner's thread.
  virtual bool await_commit(Port&) { return false; }

  // Answers what is due at `port`: the owner's thread calls it when woken and at the time that it
  // returned; none: when woken.
  virtual std::optional<base::Time> advance(Port& port, base::Time now) = 0;

  // Forgets a parked group. True: nothing was or will be taken for it. False: it has its answer,
  // which the port has or had. The port's owner's thread.
  virtual bool cancel(Port& port, request::Ticket ticket, base::Time now) = 0;

  // The keys of a space's counters that begin with `prefix`, in byte order, the first `max` of
  // them. A pass through the whole table, in small steps: for a thread of its own.
  virtual std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                        size_t max) = 0;

  // The same for all lists of a pass, by a single walk where the store can; it ends early once none
  // of them is wanted any more.
  virtual void list_all(ListPass& pass);

  // The stored names of counters of these spaces that begin with `prefix` and are behind `after`,
  // the first `max` of them, or fewer with base::bounds::listed_names_bytes_max bytes together. One
  // pass, as `list`'s; it begins where `from` says, the `rest` of an earlier one with the same
  // spaces and prefix. Those that are there all along are found by one of these passes at least,
  // unless the store shrinks between them.
  virtual Stored list_stored(const request::SpaceIndex& spaces, std::string_view prefix,
                             std::string_view after, size_t max, std::string_view from) = 0;

  // Lists that wait for something end empty from now on: their thread is about to be joined.
  virtual void end_lists() {}

  // Commits what is left, once nobody asks any more. False: not all of it could be; the log says
  // why.
  virtual bool close() { return true; }

  // Housekeeping, called by one thread every housekeeping_period: forgets what need not be kept, in
  // small steps.
  virtual void housekeep(base::Time now) = 0;

  // Forgets the counters that keep their limits and are full in every window. A pass as `list`'s;
  // returns how many went. The thread of `housekeep`.
  virtual size_t purge(base::Time now) = 0;

  // Marks what counters name of request::Spaces, some of them at each call since the one with
  // `first`. True: all of them have been looked at. False for ever: that cannot be known, and
  // nothing is forgotten. Nobody writes counters under what is to be found out, but those that are
  // there may be written under something else. The thread of `housekeep`.
  virtual bool mark_named(request::Marks&, bool /*first*/) { return false; }

  virtual Stats stats() const = 0;

  // Why part of what is asked fails until somebody mends it; empty: nothing does. Any thread; takes
  // no lock.
  virtual std::string why_not_ready() const { return {}; }

  // An error for the client: what is wrong, and what to do. Lives as long as the store.
  virtual std::string_view words_of(request::Error error) const;
};

}  // namespace sluice::store
