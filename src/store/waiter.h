// A group that waits for units, and the queue of those that wait for the same counter. A waiter is
// shared by its completion queue, its queue and the thread that is about to answer it; a queue
// belongs to its counter's stripe and is guarded by its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/running_sums.h"
#include "limit/limit.h"
#include "limit/wide.h"
#include "request/charge.h"
#include "store/completion_queue.h"
#include "store/store.h"

namespace sluice::store {

class Entry;
struct Queue;

struct Waiter {
  static constexpr int64_t no_time = INT64_MAX;

  enum class State : uint8_t {
    queued,  // at `queue`
    aside,   // it can never fit as things are: blocks no other, wakes never
    done,    // answered or cancelled
  };

  Waiter(CompletionQueue& its_completions, request::Ticket its_ticket, uint64_t its_arrival,
         Pin its_pin, std::vector<std::string> its_keys)
      : completions(its_completions),
        ticket(its_ticket),
        arrival(its_arrival),
        pin(std::move(its_pin)),
        keys(std::move(its_keys)) {}
  // What it waits for at the queue that it is in.
  int64_t cost() const { return charges[at].cost; }

  CompletionQueue& completions;
  const request::Ticket ticket;
  const uint64_t arrival;
  Pin pin;  // keeps the rules alive
  const std::vector<std::string> keys;
  // Of its charges, one behind the other: limits that came with a request are gone with its batch.
  std::vector<limit::Limit> limits;
  std::vector<request::Charge> charges;  // of `keys`, `limits`; decision_first counts from 0
  size_t decisions = 0;                  // that they have together
  // Guarded by the locks of all its charges' stripes, held together.
  State state = State::aside;
  Queue* queue = nullptr;
  size_t at = 0;  // of the charges: whose counter `queue` is of
  // Of each charge: the limits of its counter for which the owner has said that this group goes on
  // waiting under its own; empty: of none.
  std::vector<uint32_t> confirmed;
  bool named = false;  // its completion queue has named it (CompletionQueue::resume_waiter), and it
                       // was not asked again since
  // The completion queue's: when it must be looked at.
  int64_t due_us = no_time;
};

// Those that wait for one counter, first come first served.
struct Queue {
  base::RunningSums<std::shared_ptr<Waiter>, limit::Wide> waiters;  // by arrival, with their costs
  // What they wait for together: no group behind them has it.
  limit::Wide units() const { return waiters.sum(); }

  Entry* entry = nullptr;  // the counter
};

}  // namespace sluice::store
