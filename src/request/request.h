// A request as its session leaves it: what is asked of which counters, and what holds for the whole
// message that it came in. Plain values; views live as long as the batch.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::request {

struct HoldCall;  // request/hold.h

// One key=value pair of a request; rules match on them. Views into the session's input, valid for
// the batch.
struct Entry {
  std::string_view key, value;
};

// What a take that is refused takes from limits that count (policy::Rule::counts).
enum class Refused : uint8_t {
  counts,   // its cost, from all of them
  spares,   // its cost, from those that refuse alone (Group::sparing); for requests that settle
            // together
  nothing,  // nothing
};

// What holds for all requests of one message of a client. They follow one another.
struct Message {
  // They settle all or nothing. They have one verb (VerbFacts::settles_together), and they are at
  // most base::bounds::together_max.
  bool together = false;
  Refused refused = Refused::counts;
  // Of requests that settle together: if no rule applies to one of them, none is charged, and all
  // get the error no_rule_applies.
  bool needs_rule = false;
  // If the store cannot decide, they fail whatever OnError their rules have, because a stand-in
  // answer would say nothing about a counter.
  bool needs_store = false;
  bool must_fit = false;          // wait: for more units than a limit ever has: refused at once
  base::Duration wait_at_most{};  // wait: after it the verdict is `expired`; 0: no bound
  // The client's deadline; INT64_MAX: none. From then on they get Error::deadline and are not
  // charged, unless a store in another process was asked before.
  base::Time answer_by{INT64_MAX};
  // Of charges: as Group has it. Null: they have none.
  const ChargeId* charge_id = nullptr;
  // Of Verb::reserve and Verb::settle: what is asked of a hold, and what comes of it. Null:
  // nothing. A commit that knows its subjects has requests with Verb::charge, for a hold that is
  // unknown.
  HoldCall* hold = nullptr;
  // The number of the user who brings limits along (access::Identity::number); 0: there are no
  // users, so that they go by the client's address.
  uint64_t brought_by = 0;
  friend bool operator==(const Message&, const Message&) = default;
};
inline constexpr Message plain_message{};

// The limits that come with a request: Requests::limits.
struct Brought {
  uint32_t first = 0, count = 0;
  // They replace a rule's, with a counter of their own (policy/inline_limits.h). None with a peek
  // or reset: it is about that counter, whatever limits it was written under.
  bool replaces = false;
  limit::LimitMask counts = 0;  // then: which of them count
  // Then: the most debt of them, which lives for the batch (Requests::hold). Null: none has an
  // overdraft.
  const limit::Overdrafts* overdrafts = nullptr;
};

// One request. Its entries are Requests::descriptor(request).
struct Request {
  Verb verb = Verb::take;
  RuleScope scope = RuleScope::all;
  Brought limits{};
  const Message* message = &plain_message;  // lives for the batch
  uint32_t note = 0;                        // used by the session only, to write the reply
  // Units; negative only where limits come with the request: then they are added.
  int64_t cost = 1;
  uint32_t entry_first = 0, entry_count = 0;  // list: one entry, the beginning of the keys
  std::string_view tag{};                     // as `note`; at most base::bounds::tag_bytes_max
};

inline constexpr Request one_take{};

}  // namespace sluice::request
