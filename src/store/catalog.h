// The interface of housekeeping and of the admin port to a store: lists of counters, figures, and
// the removal of counters that need not be kept. Not for a worker: a pass goes through all
// counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "request/space.h"
#include "store/list_pass.h"

namespace sluice::store {

// Which kind of store it is, and the figures that only that kind has, for the admin port. Plain
// values; names are constants.

using NamedCounts = std::vector<std::pair<std::string_view, uint64_t>>;

struct DiskFigures {
  std::string_view durability = {};  // as store.durability is written
  base::Duration interval = {};      // between two commits
  bool sync = false;                 // a commit waits until the medium has the data
};

// Counts are since the start, those of connections now.
struct RedisFigures {
  NamedCounts connections = {};         // by state
  NamedCounts second_connections = {};  // to a Redis for limits of one second; or empty
  NamedCounts failures = {};            // groups of charges that Redis did not decide, by reason
  uint64_t calls = 0;                   // groups of charges that Redis was sent
  uint64_t local_decisions = 0;         // those of `failures` that this server decided
  // The version of the data of time zones of another server on that Redis, if it is another one
  // than this server's; else empty.
  std::string zones_elsewhere = {};
};

// At most one is there; none: counters are in memory alone.
struct KindFigures {
  std::optional<DiskFigures> disk = {};
  std::optional<RedisFigures> redis = {};

  std::string_view kind() const { return redis ? "redis" : disk ? "disk" : "memory"; }
};

struct Stats {
  uint64_t counters = 0;          // in the store; swept ones not counted
  uint64_t memory_bytes = 0;      // held for counters, exact
  uint64_t memory_bytes_max = 0;  // of these; 0: unknown
  uint64_t swept = 0;    // counters dropped because they equalled a fresh one, since the start
  uint64_t purged = 0;   // counters that `purge` forgot, since the start
  uint64_t refused = 0;  // groups that failed as there was no memory, since the start
  uint64_t waiting = 0;  // groups that are parked
  // Only of a store on disk.
  bool loading = false;          // not all counters are back from it yet
  bool failing = false;          // it cannot be written at the moment
  uint64_t commits = 0;          // since the start, as are the next three
  uint64_t commit_failures = 0;  // those of snapshots included
  uint64_t committed_counters = 0;
  uint64_t committed_bytes = 0;
  uint64_t snapshots = 0;
  uint64_t log_bytes = 0;  // of the log behind the last snapshot, which a start has to replay
};

// The result of a search for counters by their stored names.
struct ScanPage {
  std::vector<std::string> keys;  // prefix + key + suffix, in byte order, each once
  // Not empty: the search stopped early, as there were too many keys or it took too long. A search
  // `from` this text continues it.
  std::string rest = {};
  // A search `after` the last of `keys` and `from` this text goes through the same part of the
  // store once more, and no further. So both pages, and then a search from `rest`, leave nothing
  // out.
  std::string again = {};
  // Names after the last of `keys` were left out, as all of them together have too many bytes.
  bool more = false;
  bool failed = false;   // the store could not be read
  bool unknown = false;  // `from` is not a text that a search returned
};

class Catalog {
 public:
  static constexpr base::Duration housekeeping_period = base::milliseconds(100);

  virtual ~Catalog() = default;

  // Returns the first `max` keys, in byte order, of a space's counters that begin with `prefix`.
  // Goes through the whole table in small steps: call it on a thread of its own.
  virtual std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                        size_t max) = 0;

  // The same for all lists of `pass`, in a single walk if the store can do that. Ends early once
  // none of the lists is needed any more.
  virtual void list_all(ListPass& pass);

  // Returns stored names of counters of these spaces that begin with `prefix` and come after
  // `after`: the first `max`, or fewer if they exceed base::bounds::listed_names_bytes_max bytes
  // together. One pass like that of `list`. `from`: the `rest` of an earlier pass with the same
  // spaces and prefix, which this one continues. A counter that exists all the time is found by at
  // least one of these passes, unless the store shrinks between them.
  virtual ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                             std::string_view after, size_t max, std::string_view from) = 0;

  // From now on lists that wait for something end empty, as their thread is about to be joined.
  virtual void end_lists() {}

  // Housekeeping, called by one thread every housekeeping_period: forgets what need not be kept, in
  // small steps.
  virtual void housekeep(base::Time now) = 0;

  // Forgets counters that keep their own limits and are full in every window. A pass like that of
  // `list`, on the thread of `housekeep`. Returns how many it forgot.
  virtual size_t purge(base::Time now) = 0;

  // Marks the spaces and limits of request::Spaces that counters name, for some of the counters at
  // each call; a call with `first` begins a pass. True: all counters have been looked at. A store
  // that cannot know this returns false for ever, and no limits are forgotten. During a pass no
  // counter starts to name the limits that are in question, but a counter may change from these to
  // others. On the thread of `housekeep`.
  virtual bool mark_named(request::Marks&, bool /*first*/) { return false; }

  virtual Stats stats() const = 0;

  // Any thread but a worker's.
  virtual KindFigures kind_figures() const { return {}; }

  // Why some requests fail until an operator repairs something; empty: none fail. Any thread; takes
  // no lock.
  virtual std::string why_not_ready() const { return {}; }

  // Why the store does not work as configured although requests are answered, by their rules'
  // on_store_error or from memory alone; empty: it works. Any thread but a worker's.
  virtual std::string why_degraded() const { return {}; }
};

}  // namespace sluice::store
