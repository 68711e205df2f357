// What is asked of counters: verbs, spaces, charges, groups and batches, and why a store could not
// decide. Plain values; views say how long they live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "limit/limit.h"

namespace sluice::request {

// One key=value pair of a request; rules match on them. Views into the session's input, valid for
// the batch.
struct Entry {
  std::string_view key, value;
};

// What is asked of counters.
enum class Verb : uint8_t {
  noop,        // nothing; the reply has its turn
  take,        // now or not at all
  wait,        // as take, but the reply may come once there is enough
  peek,        // the state; takes nothing
  put,         // gives units back
  list,        // which counters there are
  would_take,  // what a take would be answered now; takes nothing
  log_in,      // nothing: whether a password is that user's
  scan,        // the names of counters, some at a time
  count,       // of charges: takes in any case, then compares (limit/aligned_window.h)
};
inline constexpr size_t verb_count = static_cast<size_t>(Verb::count) + 1;  // it is the last

// Does it leave every counter as it is?
constexpr bool only_looks(Verb verb) {
  return verb == Verb::peek || verb == Verb::would_take;
}

// As logs and metrics have it.
std::string_view name_of(Verb verb);

// Which rules a request meets.
enum class RuleScope : uint8_t {
  all,      // native ones, then those of its protocol's dialect
  native,   // native ones alone
  dialect,  // those of the dialect alone: it is about their counters, whatever a policy adds
};

// How a store that is shared with other programs writes a counter down.
enum class KeyEncoding : uint8_t {
  own,             // in a form of its own, under a name with its own prefix
  remaining_text,  // what is left, in decimal, for as long as the window is open (Divvy's way)
  tat_text,        // of one limit gcra_cell: its TAT in decimal, for as long as it lies ahead
                   // (redis-cell's way)
  window_text,     // of one limit aligned_window of whole seconds: what was counted, in decimal,
                   // under a name for each window, `prefix` (but for its first private_bytes), key,
                   // `_` and the second in which the window began; by this server's clock. A
                   // request that waits for its units has no claim on them before others.
};

// A family of counters: those of one rule, or of one limitd type. All its counters
// have the same number of limits. Interned by its stored identity (request/space.h); outlives every
// rule set and counter that names it. A counter is stored as prefix + key + suffix.
struct Space {
  uint32_t id = 0;  // of this process; never stored
  std::string prefix, suffix;
  limit::CarryOver carry = limit::CarryOver::used;
  KeyEncoding encoding = KeyEncoding::own;
  base::Duration keep_fresh_for{};  // of a counter that equals a fresh one: so it can be listed
  // Not empty: limits come with the requests and stay in the counter (limit/kept_limits.h), one for
  // each of these windows at most; rising, at most slots_max.
  std::vector<base::Duration> windows{};
  uint32_t serial = 0;  // how many spaces had that id before
  // Of window_text: bytes at the beginning of `prefix` that a store shared with other programs
  // leaves out; the table in memory tells counters apart by them.
  size_t private_bytes = 0;
  // Of window_text: a key is kept for its window and up to so many seconds, less one, by chance.
  uint32_t life_jitter = 0;
};

// What a protocol keeps of a rule of its own for the replies to its requests.
struct RuleData {
  virtual ~RuleData() = default;
};

// One cost against one key with all its limits: one probe of the table, one slot per limit.
struct Charge {
  const Space* space = nullptr;
  std::string_view key;       // within the space; lives for the batch
  Verb verb = Verb::take;     // take, peek, put, would_take or count
  bool all = false;           // put: until it is as a fresh one, whatever the cost
  bool reset_first = false;   // take: forget the counter first, and with it what others wait for
  bool keeps_limits = false;  // the space has windows
  // Peek: by the limits that the counter was written under, where these have the same algorithms.
  bool as_written = false;
  bool refill = false;  // take, where it has: every balance is at its limit first
  uint8_t before = 0;   // would_take: so many takes like it come first, each if it is allowed
  // Count, in a sparing group: of the same counter as an earlier charge of the group, behind which
  // it counts.
  bool follows = false;
  int64_t cost = 1;  // 0 or more; less only where the counter keeps its limits
  std::span<const limit::Limit>
      limits;  // 1 to slots_max; the rule's, live as long as the rule set. Where
               // the counter keeps its limits: those that came along, if any
  const std::string* rule_name = nullptr;  // lives as long as the rule set
  uint32_t limits_id = 0;       // Spaces::intern_limits(limits); 0 where the counter keeps them
  uint32_t decision_first = 0;  // where its decisions go in Batch::decisions: limits.size(), or
                                // room for windows.size() where the counter keeps its limits
  uint32_t slot_mask = 0;       // where it does: the windows that were answered, set by the store
  uint64_t hash = 0;            // the store's own, as is the next
  bool counted = false;
  // Set by the store: it is refused by what this process remembers of its counter, which was
  // neither asked nor charged.
  bool from_cache = false;
};

// Charges of a batch: some that lie side by side, or those of an order. A view.
class ChargeList {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Charge;
    using difference_type = std::ptrdiff_t;
    using pointer = const Charge*;
    using reference = const Charge&;

    Iterator(const Charge* all, const uint32_t* order, size_t at)
        : all_(all), order_(order), at_(at) {}
    const Charge& operator*() const { return all_[order_ == nullptr ? at_ : order_[at_]]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return {all_, order_, at_++}; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const Charge* all_;
    const uint32_t* order_;
    size_t at_;
  };

  ChargeList() = default;
  ChargeList(const Charge* first, size_t count) : all_(first), count_(count) {}
  // all[order[0]], all[order[1]], ...
  ChargeList(const Charge* all, std::span<const uint32_t> order)
      : all_(all), order_(order.data()), count_(order.size()) {}

  bool empty() const { return count_ == 0; }
  Iterator begin() const { return {all_, order_, 0}; }
  Iterator end() const { return {all_, order_, count_}; }

 private:
  const Charge* all_ = nullptr;
  const uint32_t* order_ = nullptr;  // null: one after the other
  size_t count_ = 0;
};

// Why a store could not decide.
enum class Error : uint8_t {
  none,
  memory,       // the counter is new and the store's memory bound is reached
  store,        // what keeps the counters cannot be asked
  deadline,     // it did not answer in time; what was asked may yet be charged
  overloaded,   // too much is under way already
  no_space,     // it has no room for what is new
  read_only,    // it takes no change
  auth_failed,  // it does not let us in
  wrong_type,   // what it has under this key is not a counter of ours
  no_number,    // it is a text where other programs of the counter keep a number
};

// As logs and metrics have it.
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

// Charges on distinct (space, key) pairs (but for those that follow) that settle all or nothing,
// but for those that count: they are taken though the group is refused, and no request waits for
// their counters.
struct Group {
  uint32_t charge_first = 0, charge_count = 0;
  bool may_fail = false;  // the store goes on behind it if it fails: a shadow rule's
  bool may_wait = false;  // takes only: if it is refused it is parked until there is enough
  // If it is refused, of its charges that count only those are taken that do not fit themselves;
  // the others tell the state without them. What counts is asked of the counter as it was
  // before the group, also where it follows another charge.
  bool sparing = false;
  bool allowed = false;  // every slot of every charge allowed, and all were taken
  // Its answer comes by the completion queue, under its ticket. (Of one asked again under the same
  // limits the decisions are void.)
  bool parked = false;
  bool answered = false;              // it was parked and had its answer before: nothing was done
  Error error = Error::none;          // not none: nothing was taken, decisions are void
  OnError on_error = OnError::error;  // what its rules want if the store cannot decide
  Ticket ticket{};                    // of one that may wait
  // Its answer is of no use from then on: where it is that late already nothing is charged, and it
  // has Error::deadline. INT64_MAX: at any time.
  base::Time answer_by{INT64_MAX};
  // Its place among those that wait; 0: behind all. Set when it is parked; a group that has one
  // replaces the one that is parked under its ticket.
  uint64_t arrival = 0;
};

// What one batch asks of the store: groups in order, their charges, and room for the decisions.
struct Batch {
  std::span<Group> groups;
  std::span<Charge> charges;
  std::span<limit::Decision> decisions;
};

}  // namespace sluice::request
