// The values that the whole engine speaks in: what a limit is, what is asked of a counter, and what
// it answers. Plain values without behaviour, clock or memory of their own; views say how long they
// live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace sluice::limit {

using base::Duration;
using base::Time;

// One key=value pair of a request; rules match on them. Views into the session's input, valid for
// the batch.
struct Entry {
  std::string_view key, value;
};

enum class Algorithm : uint8_t {
  unlimited,       // always allowed, no counter
  deny,            // never allowed, no counter
  fixed_window,    // quota units per window that opens with its first unit
  aligned_window,  // quota units per window of the clock
  token_bucket,    // quota units per window come back continuously, up to burst
  sliding_window,  // two counters of the clock's windows, the older one weighted
  sliding_log,     // the times of units, exact while few enough are stored
  fixed_bucket,    // burst units that come back only by being put back
};

// As policies spell it: "token_bucket".
std::string_view name_of(Algorithm algorithm);

// What is asked of counters.
enum class Verb : uint8_t {
  none,   // nothing; the reply has its turn
  take,   // now or not at all
  wait,   // as take, but the reply may come once there is enough
  peek,   // what there is; takes nothing
  put,    // gives units back
  list,   // which counters there are
  probe,  // what a take would be answered now; takes nothing
};

// Does it leave every counter as it is?
constexpr bool only_looks(Verb verb) {
  return verb == Verb::peek || verb == Verb::probe;
}

// In the words above.
std::string_view name_of(Verb verb);

// A rule's numbers. quota: units, 0 to base::bounds::quota_max. window: above 0 wherever the
// algorithm has one, 0 for a fixed_bucket. burst: a bucket's capacity, 1 to quota_max, of a
// fixed_bucket the same as its quota; 0 elsewhere.
struct Limit {
  Algorithm algorithm = Algorithm::deny;
  int64_t quota = 0;
  Duration window{};
  int64_t burst = 0;
  friend bool operator==(const Limit&, const Limit&) = default;
};

// Has the algorithm a counter to look up, or does the limit alone decide?
constexpr bool has_counter(Algorithm algorithm) {
  return algorithm >= Algorithm::fixed_window;
}

// One cell of a counter's stored state; a limit has one or more of them (limit/decide.h). All zero
// is a fresh one.
struct State {
  int64_t mark_us = 0;  // of a limit's first cell: the time from which the limit equals a fresh
                        // one, and the store may forget it
  int64_t units = 0;    // what it means is the algorithm's
  friend bool operator==(const State&, const State&) = default;
};

// Is there a counter behind any of them?
constexpr bool is_counted(std::span<const Limit> limits) {
  for (const Limit& limit : limits) {
    if (has_counter(limit.algorithm)) return true;
  }
  return false;
}

// What one limit answers.
struct Decision {
  bool allowed = false;
  int64_t limit = 0;      // the most that `remaining` can be: a bucket's burst, else the quota
  int64_t remaining = 0;  // units left after a grant, or as they stand at a refusal; negative: debt
  Duration reset_after{};  // until the counter is as fresh; base::never: it never will be
  Duration retry_after{};  // until the same request could be allowed; 0: it is, base::never: no
                           // wait helps
};

// A decision with the state that committing it leaves behind. An algorithm is a pure function to
// this.
struct Outcome {
  Decision decision;
  State next;
};

// What a bucket keeps when its limit changes.
enum class Carry : uint8_t {
  used,  // the units that are missing: a larger bucket has more left
  left,  // the units that are there, as many as fit: limitd's way
};

// How a store that others share writes a counter down.
enum class Form : uint8_t {
  own,    // as it likes
  divvy,  // as Divvy does: what is left, in decimal, for as long as the window is open
};

// A family of counters: one Divvy rule, later one limitd type or one native rule. All its counters
// have the same number of limits. Interned by its stored identity (limit/space.h); outlives every
// rule set and counter that names it. A counter is stored as prefix + key + suffix.
struct Space {
  uint32_t id = 0;  // of this process; never stored
  std::string prefix, suffix;
  Carry carry = Carry::used;
  Form form = Form::own;
  Duration linger{};  // how long a counter that equals a fresh one is kept, to be listed
  // Not empty: limits come with the requests and stay in the counter (limit/kept_limits.h), one for
  // each of these windows at most; rising, at most slots_max.
  std::vector<Duration> windows{};
  uint32_t serial = 0;  // how many spaces had that id before
};

// One cost against one key with all its limits: one probe of the table, one slot per limit.
struct Charge {
  const Space* space = nullptr;
  std::string_view key;       // within the space; lives for the batch
  Verb verb = Verb::take;     // take, peek, put or probe
  bool all = false;           // put: until it is as a fresh one, whatever the cost
  bool fresh = false;         // take: forget the counter first, and with it what others wait for
  bool keeps_limits = false;  // the space has windows
  bool refill = false;        // take, where it has: every balance is at its limit first
  uint8_t before = 0;         // probe: so many takes like it come first, each if it is allowed
  int64_t cost = 1;           // 0 or more; less only where the counter keeps its limits
  std::span<const Limit> limits;  // 1 to slots_max; the rule's, live as long as the rule set. Where
                                  // the counter keeps its limits: those that came along, if any
  uint32_t limits_id = 0;         // Spaces::intern_limits(limits); 0 where the counter keeps them
  uint32_t decision_first = 0;    // where its decisions go in Batch::decisions: limits.size(), or
                                  // room for windows.size() where the counter keeps its limits
  uint32_t slot_mask = 0;         // where it does: the windows that were answered, set by the store
  uint64_t hash = 0;              // the store's own, as is the next
  bool counted = false;
};

// Limits that share one counter at most, and cells that they have together at most.
inline constexpr size_t slots_max = 8;
inline constexpr size_t cells_max = 64;

// Why a store could not decide.
enum class Error : uint8_t {
  none,
  memory,      // the counter is new and the store's memory bound is reached
  store,       // what keeps the counters cannot be asked
  deadline,    // it did not answer in time; what was asked may yet be charged
  overloaded,  // too much is under way already
  full,        // it has no room for what is new
  read_only,   // it takes no change
  refused,     // it does not let us in
  foreign,     // what it has under this key is no counter of ours
};

// In the words above.
std::string_view name_of(Error error);

// What a rule wants then; the strictest first.
enum class OnError : uint8_t {
  error,  // the request fails
  deny,   // it is refused
  local,  // a table in this process decides, where the store has one; else it fails
  allow,  // it is answered as by a fresh counter, and nothing is charged
};

// In the words above.
std::string_view name_of(OnError on_error);

// Names a request that is parked, among those of its worker; a stale one is not used again soon.
struct Ticket {
  uint32_t slot = 0, generation = 0;
  friend bool operator==(Ticket, Ticket) = default;
};

// Names none.
inline constexpr Ticket no_ticket{UINT32_MAX, UINT32_MAX};

// Charges on distinct (space, key) pairs that settle all or nothing.
struct Group {
  uint32_t charge_first = 0, charge_count = 0;
  bool may_fail = false;  // the store goes on behind it if it fails: a shadow rule's
  bool may_wait = false;  // takes only: if it is refused it is parked until there is enough
  bool allowed = false;   // every slot of every charge allowed, and all were taken
  // Its answer comes by the port, under its ticket. (Of one asked anew under the same limits the
  // decisions are void.)
  bool parked = false;
  bool answered = false;              // it was parked and had its answer before: nothing was done
  Error error = Error::none;          // not none: nothing was taken, decisions are void
  OnError on_error = OnError::error;  // what its rules want if the store cannot decide
  Ticket ticket{};                    // of one that may wait
  // Its place among those that wait; 0: behind all. Set when it is parked; a group that has one
  // replaces the one that is parked under its ticket.
  uint64_t arrival = 0;
};

// What one batch asks of the store: groups in order, their charges, and room for the decisions.
struct Batch {
  std::span<Group> groups;
  std::span<Charge> charges;
  std::span<Decision> decisions;
};

}  // namespace sluice::limit
