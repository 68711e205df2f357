// What housekeeping and the admin port ask of a store: which counters there are, what they take,
// and what need not be kept any more. Never for a worker: a pass goes through everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "request/space.h"
#include "request/space_index.h"
#include "store/list_pass.h"

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

// What a search for counters by their stored names found.
struct ScanPage {
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

class Catalog {
 public:
  static constexpr base::Duration housekeeping_period = base::milliseconds(100);

  virtual ~Catalog() = default;

  // The keys of a space's counters that begin with `prefix`, in byte order, the first `max` of
  // them. A pass through the whole table, in small steps: for a thread of its own.
  virtual std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                        size_t max) = 0;

  // The same for all lists of a pass, by a single walk where the store can; it ends early once none
  // of them is needed any more.
  virtual void list_all(ListPass& pass);

  // The stored names of counters of these spaces that begin with `prefix` and are behind `after`,
  // the first `max` of them, or fewer with base::bounds::listed_names_bytes_max bytes together. One
  // pass, as `list`'s; it begins where `from` says, the `rest` of an earlier one with the same
  // spaces and prefix. Those that are there all along are found by one of these passes at least,
  // unless the store shrinks between them.
  virtual ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                             std::string_view after, size_t max, std::string_view from) = 0;

  // Lists that wait for something end empty from now on: their thread is about to be joined.
  virtual void end_lists() {}

  // Housekeeping, called by one thread every housekeeping_period: forgets what need not be kept, in
  // small steps.
  virtual void housekeep(base::Time now) = 0;

  // Forgets the counters that keep their limits and are full in every window. A pass as `list`'s;
  // returns how many went. The thread of `housekeep`.
  virtual size_t purge(base::Time now) = 0;

  // Marks what counters name of request::Spaces, some of them at each call since the one with
  // `first`. True: all of them have been looked at. False for ever: that cannot be known, and
  // nothing is forgotten. No caller writes counters under what must be found out, but those that
  // are there may be written under something else. The thread of `housekeep`.
  virtual bool mark_named(request::Marks&, bool /*first*/) { return false; }

  virtual Stats stats() const = 0;

  // Why part of what is asked fails until an operator repairs it; empty: nothing does. Any thread;
  // takes no lock.
  virtual std::string why_not_ready() const { return {}; }

  // Why it does not do what it is there for, though requests are still answered (as their rules'
  // on_store_error says, or from memory alone); empty: it does. Any thread but a worker's.
  virtual std::string why_degraded() const { return {}; }
};

}  // namespace sluice::store
