// A group that waits for units, and the queue of the groups that wait for the same counter. A
// waiter is shared by its completion queue, its queue and the thread that is about to answer it. A
// queue belongs to its counter's stripe and is guarded by that stripe's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/turns.h"
#include "limit/limit.h"
#include "limit/wide.h"
#include "request/charge.h"
#include "request/hold.h"
#include "store/completion_queue.h"
#include "store/store.h"

namespace sluice::store {

class Entry;
struct Queue;

struct Waiter {
  static constexpr int64_t no_time = INT64_MAX;

  enum class State : uint8_t {
    queued,  // at `queue`
    aside,   // its cost exceeds a limit: it blocks no other waiter, and has no time to wake
    done,    // answered or cancelled
  };

  Waiter(CompletionQueue& its_completions, request::Ticket its_ticket, uint64_t its_arrival,
         Pin its_pin, std::vector<std::string> its_keys)
      : completions(its_completions),
        ticket(its_ticket),
        arrival(its_arrival),
        pin(std::move(its_pin)),
        keys(std::move(its_keys)) {}
  // The cost for which it stands in its queue.
  int64_t cost() const { return charges[at].cost; }
  // And its turn there.
  uint64_t fair_value() const { return charges[at].fair_value; }

  CompletionQueue& completions;
  const request::Ticket ticket;
  const uint64_t arrival;
  Pin pin;  // keeps the rules alive
  const std::vector<std::string> keys;
  // The limits of its charges, in order. Copied, as limits that came with a request end with its
  // batch.
  std::vector<limit::Limit> limits;
  std::vector<request::Charge> charges;  // of `keys`, `limits`; decision_first counts from 0
  // Of a reserve: its charges have `held`, which outlives the waiter, and what is kept with its
  // changes (Group::note), which is filled; null: nothing.
  bool holds = false;
  std::shared_ptr<request::HoldNote> note;
  // Room for those of all charges together, in which it is tried; once it is answered, its answer.
  // Guarded as the next.
  std::vector<limit::Decision> decisions;
  // Guarded by the locks of all its charges' stripes, held together.
  State state = State::aside;
  Queue* queue = nullptr;
  size_t at = 0;      // the charge whose counter `queue` belongs to
  uint64_t turn = 0;  // as it left its last queue (base::Turns::turn_of)
  // For each charge: the limits of its counter for which the owner has confirmed that the group
  // goes on waiting under its own limits; empty: none.
  std::vector<uint32_t> confirmed;
  bool named = false;  // its completion queue has named it (CompletionQueue::resume_waiter), and it
                       // was not asked again since
  // The completion queue's: when it must be looked at, and its place there while it need not be.
  int64_t due_us = no_time;
  CompletionQueue::Due::node_type due_place;
  std::shared_ptr<Waiter> next_due;  // of those that were taken together; the owner's thread
};

// The groups that wait for one counter, in the order in which they are served: by arrival, and of a
// rule with `fair_by` in turn by its values (Charge::fair_value).
struct Queue {
  base::Turns<std::shared_ptr<Waiter>, limit::Wide> waiters;  // by arrival, with their costs
  // The units that they wait for together: groups after them do not get these.
  limit::Wide units() const { return waiters.sum(); }

  Entry* entry = nullptr;  // the counter
};

}  // namespace sluice::store
