// What the engine asks a store to do with counters: verbs, spaces, charges, groups and batches, and
// the reasons why a store could not decide. Plain values; views say how long they live.
#pragma once

#include <array>
#include <bit>
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

// What a request, or one charge of it, wants of its counters.
enum class Verb : uint8_t {
  noop,        // nothing; its reply is written in its turn
  take,        // takes units now, or is refused
  wait,        // as take; where units are missing it waits for them
  peek,        // reads the state; takes nothing
  put,         // gives units back
  list,        // the counters that exist
  would_take,  // the answer that a take would get now; takes nothing
  charge,      // takes units that were used already, whether they fit or not; never refused
  count,       // charges only: a take from which some limits take also what they refuse
  reserve,     // as take, for a hold that is settled later (request/hold.h)
  settle,      // of a hold: what was not used goes back, and what was used beyond it is charged
  // Of requests alone; charges, logs and metrics say `told_as`.
  reset,      // as put, of everything: the counter becomes fresh
  take_anew,  // the counter becomes fresh, then as take
};
inline constexpr size_t verb_count =
    static_cast<size_t>(Verb::settle) + 1;  // of those that are told

// The properties of a verb that sessions, engine and logs use; a store knows what it does.
struct VerbFacts {
  std::string_view word;   // in logs and metrics
  Verb told_as;            // the verb of its charges, but for `wait`, which are takes
  bool only_looks;         // it leaves every counter unchanged
  bool may_bring_debt;     // it may take more than there is
  bool settles_together;   // requests with it may settle together; a sum of others means nothing
  bool asks_for_decision;  // where no rule applies, the listener's `unmatched` answers
};
inline constexpr std::array<VerbFacts, verb_count + 2> verb_facts{{
    {"none", Verb::noop, false, false, false, false},
    {"take", Verb::take, false, false, true, true},
    {"wait", Verb::wait, false, false, false, true},
    {"peek", Verb::peek, true, false, true, false},
    {"put", Verb::put, false, false, true, false},
    {"list", Verb::list, false, false, false, false},
    {"probe", Verb::would_take, true, false, true, false},
    {"charge", Verb::charge, false, true, true, true},
    {"count", Verb::count, false, true, true, true},
    {"reserve", Verb::reserve, false, false, true, true},
    {"settle", Verb::settle, false, true, false, false},
    {"put", Verb::put, false, false, false, false},
    {"take", Verb::take, false, false, false, true},
}};
constexpr const VerbFacts& facts_of(Verb verb) {
  return verb_facts[static_cast<size_t>(verb)];
}

constexpr Verb told_as(Verb verb) {
  return facts_of(verb).told_as;
}
constexpr bool only_looks(Verb verb) {
  return facts_of(verb).only_looks;
}
constexpr bool may_bring_debt(Verb verb) {
  return facts_of(verb).may_bring_debt;
}
// Does it ask for units, so that it counts among the decisions of rules and of keys?
constexpr bool asks_for_units(Verb verb) {
  return verb == Verb::take || verb == Verb::wait || verb == Verb::reserve;
}
constexpr std::string_view name_of(Verb verb) {
  return facts_of(verb).word;
}

// Which rules apply to a request.
enum class RuleScope : uint8_t {
  all,      // native rules, then those of its protocol's dialect
  native,   // native rules only
  dialect,  // only the dialect's: the request is about their counters, whatever a policy adds
};

// The form in which a store that other programs share keeps a counter.
enum class KeyEncoding : uint8_t {
  own,             // sluice's own form, under a name with sluice's prefix
  remaining_text,  // the units left, in decimal, kept until the window ends (Divvy's form)
  tat_text,        // a single limit gcra_cell: its TAT in decimal, kept until that time
                   // (redis-cell's form)
  window_text,     // a single limit aligned_window of whole seconds: the units counted, in decimal,
                   // under one name for each window: `prefix` without its first private_bytes, key,
                   // `_` and the second in which the window began, by this server's clock. A
                   // request that waits for units has no claim on them before other requests.
};

// A family of counters: those of one rule, or of one limitd type. Interned by its stored identity
// (request/space.h); outlives every rule set and counter that names it. A counter is stored as
// prefix + key + suffix, and knows the limits that it was written under.
struct Space {
  uint32_t id = 0;  // valid in this process; never stored
  std::string prefix, suffix;
  limit::CarryOver carry = limit::CarryOver::used;
  KeyEncoding encoding = KeyEncoding::own;
  base::Duration keep_fresh_for{};  // how long a counter that equals a fresh one stays listed
  // If not empty, the limits come with the requests and are stored in the counter
  // (limit/kept_limits.h), at most one for each of these windows; ascending, at most slots_max.
  std::vector<base::Duration> windows{};
  uint32_t serial = 0;  // how many earlier spaces had this id
  // window_text: the number of bytes at the beginning of `prefix` that are left out of the names in
  // a store that other programs share. The table in memory needs them to tell counters apart.
  size_t private_bytes = 0;
  // window_text: a key lives for its window and a random 0 to life_jitter - 1 seconds more.
  uint32_t life_jitter = 0;
};

// What answers say of the rule of a charge.
struct RuleWords {
  std::string name{};  // may be empty
  std::string unit{};  // what its quotas count, as "tokens"; empty: it does not say
};

struct HeldCharge;  // request/hold.h
class HoldNote;     // the same

// A cost charged to one counter under all its limits: one probe of the table, one slot per limit.
struct Charge {
  const Space* space = nullptr;
  std::string_view key;       // within the space; lives for the batch
  Verb verb = Verb::take;     // take, peek, put, would_take, charge, count, reserve or settle
  bool all = false;           // put: the counter becomes fresh, whatever the cost
  bool reset_first = false;   // take: the counter becomes fresh first; waiters lose their claims
  bool keeps_limits = false;  // the space has windows
  // peek: whatever limits the counter was written under. It has one decision, in which only
  // reset_after has a meaning: when the counter is as fresh, base::never if time alone does not
  // make it so. `limits` is any one limit.
  bool as_written = false;
  bool refill = false;  // take, counter that keeps its limits: each balance is filled first
  uint8_t before = 0;   // would_take: as many equal takes are assumed before it, if allowed
  // count, in a sparing group: an earlier charge of the group has the same counter, and this one
  // counts after it.
  bool follows = false;
  int64_t cost = 1;  // units, 0 or more; negative only where the counter keeps its limits
  std::span<const limit::Limit>
      limits;  // 1 to slots_max limits of the rule, which live as long as the rule set;
               // where the counter keeps its limits: those that the request brought, if any
  const RuleWords* rule = nullptr;  // lives as long as the rule set
  uint32_t limits_id = 0;           // Spaces::intern_limits(limits); 0 where the counter keeps them
  uint32_t decision_first = 0;      // index of its decisions in Batch::decisions: limits.size(), or
                                    // room for windows.size() where the counter keeps its limits
  uint32_t slot_mask = 0;           // then: the windows that were decided; set by the store
  bool counted = false;             // used by the store only, as is `hash`
  // Set by the store: this process remembered that the counter refuses, so the counter was neither
  // asked nor charged.
  bool from_cache = false;
  limit::LimitMask counts = 0;  // count: the limits that count
  // If not null, the units for each of `limits`: requests that settle together brought different
  // lists of limits for the counter, and `cost` is the sum of theirs. count, charge or would_take.
  // Lives for the batch.
  const int64_t* costs = nullptr;
  uint64_t hash = 0;
  // charge: the units of the cost that a limit had no room for (limit/debt.h), the most of all its
  // limits; set by the store
  int64_t dropped = 0;
  HeldCharge* held = nullptr;  // reserve and settle: not null; its group holds
  // charge, count: the most debt of `limits`, or of those in whose place these stand. Null: none
  // has an overdraft. Lives as long as the rule set or, with limits that came along, for the batch.
  const limit::Overdrafts* overdrafts = nullptr;
  // Of a rule with `fair_by`: stands for the request's value of that key. Requests that wait for
  // the counter are served in turn by these. 0: the rule has none.
  uint64_t fair_value = 0;

  int64_t cost_of(size_t i) const { return costs == nullptr ? cost : costs[i]; }
  int64_t overdraft_of(size_t i) const {
    return overdrafts == nullptr ? limit::Overdrafts::none : overdrafts->of(limits, i);
  }
  // The number of its decisions, once it has them.
  size_t decided() const {
    return keeps_limits ? static_cast<size_t>(std::popcount(slot_mask)) : limits.size();
  }
};
// The place of one in a list is then a shift: with 112 bytes a decision takes ten instructions more
// (tools/bench_decisions.py).
static_assert(sizeof(Charge) == 128);

// Which of two decisions an answer reports: `a` rather than `b`? The refusal with the longest wait,
// else the one with the least left, and of those the one that takes longest to be as fresh.
inline bool is_tighter(const limit::Decision& a, const limit::Decision& b) {
  if (a.allowed != b.allowed) return !a.allowed;
  if (!a.allowed) return a.retry_after > b.retry_after;
  if (a.remaining != b.remaining) return a.remaining < b.remaining;
  return a.reset_after > b.reset_after;
}
// The same of a charge (Verb::charge): the one that takes longest until it grants one unit, and of
// those the one with the least left.
inline bool is_tighter_of_charge(const limit::Decision& a, const limit::Decision& b) {
  return a.retry_after != b.retry_after ? a.retry_after > b.retry_after : a.remaining < b.remaining;
}

// A view of some charges of a batch: adjacent ones, or those that a list of indices names.
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
  const uint32_t* order_ = nullptr;  // null: the charges are adjacent
  size_t count_ = 0;
};

// Why a store could not decide.
enum class Error : uint8_t {
  none,
  memory,       // the counter is new and the store's memory bound is reached
  store,        // the program that keeps the counters cannot be reached
  deadline,     // no answer by its deadline or by Group::answer_by; may still be charged if a store
                // in another process was asked
  overloaded,   // too many requests to it are under way
  no_space,     // it has no room for a new counter
  read_only,    // it refuses writes
  auth_failed,  // it refuses our user or password
  wrong_type,   // the value under the counter's name is not a counter of sluice
  no_number,    // the value is a text, where the programs that share it keep a number
};

// The word that logs and metrics use.
std::string_view name_of(Error error);

// How a rule has requests answered that the store could not decide; the strictest first.
enum class OnError : uint8_t {
  error,  // with an error
  deny,   // with a refusal
  local,  // by a table in this process, if the store has one; otherwise with an error
  allow,  // as by a fresh counter; nothing is charged
};

// The word of the enumerator, as policies spell it.
std::string_view name_of(OnError on_error);

// The name of a parked request among those of its worker. A void name is not used again soon.
struct Ticket {
  uint32_t slot = 0, generation = 0;
  friend bool operator==(Ticket, Ticket) = default;
};

// Names no request.
inline constexpr Ticket no_ticket{UINT32_MAX, UINT32_MAX};

// The id that a client gave its charge, the same in every server: its name, which begins with that
// of the user, and a digest of what is charged.
struct ChargeId {
  std::string_view name;
  uint64_t content = 0;
};

// What a store knows of a group's id.
enum class Known : uint8_t {
  no,             // nothing, or it remembers no ids
  yes,            // the same was charged before: nothing was done, the decisions are those of then
  other_content,  // it was used with another content: nothing was done, decisions are void
};

// Charges that settle all or nothing, on distinct (space, key) pairs except for those that follow.
// Exception: of a charge with Verb::count the limits that count are charged although the group is
// refused. Charges with Verb::charge are in groups of their own, which are never refused.
struct Group {
  uint32_t charge_first = 0, charge_count = 0;
  bool may_fail = false;  // a shadow rule's: if it fails the store continues with the next group
  bool may_wait = false;  // takes only: if it is refused it is parked until units are there
  // If the group is refused, of its charges that count only those are taken that do not fit; the
  // others report the state without them. Each charge that follows is compared with the counter as
  // it was before the group.
  bool sparing = false;
  bool holds = false;    // its charges have `held`
  bool allowed = false;  // every slot of every charge allowed it, and all charges were taken
  // The answer comes through the completion queue, under the group's ticket. (If the group was
  // parked before, and asked again under the same limits, its decisions are void.)
  bool parked = false;
  bool answered = false;    // it was parked and is answered already: nothing was done
  Known known = Known::no;  // set by the store
  // Not none: decisions are void, and nothing was taken, unless a store in another process was
  // asked and did not answer.
  Error error = Error::none;
  OnError on_error = OnError::error;  // the strictest of its rules, if the store cannot decide
  Ticket ticket{};                    // if it may wait
  // The time from which its answer is of no use. If that has passed when it is decided, nothing is
  // charged and it gets Error::deadline. INT64_MAX: it has no such time.
  base::Time answer_by{INT64_MAX};
  // Of charges (Verb::charge): a store that outlives the process remembers the id with them. Null:
  // they have none. Lives for the batch.
  const ChargeId* id = nullptr;
  // If the group is allowed, a store that outlives the process keeps this with its changes. Null:
  // it has none.
  HoldNote* note = nullptr;
  // Its place among the groups that wait; 0: after all of them. Set when it is parked. A group that
  // comes with a place replaces the one that is parked under its ticket.
  uint64_t arrival = 0;
};

// What one batch gives the store: groups in order, their charges, and room for the decisions.
struct Batch {
  std::span<Group> groups;
  std::span<Charge> charges;
  std::span<limit::Decision> decisions;
};

}  // namespace sluice::request
