// Requests that are decided together, and how far that has got: the one object that is handed on
// while a batch is matched, settled, suspended for a store that answers later, and resumed. A list
// and a query of the admin port are batches as well. Used by its worker's thread alone.
//
//   open       being filled and served; the store may know its ticket
//   suspended  the rest has no answer yet: the store names the ticket, and `owner` is called
//   closed     kept for the next one; its ticket is void
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "live/live_policy.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/charge.h"
#include "request/session.h"

namespace sluice::engine {

class ReplySink;
struct Batch;

// Who goes on with a batch that was suspended.
class BatchOwner {
 public:
  virtual ~BatchOwner() = default;
  // The batch can go on, now or later. It may be closed, and the owner gone, when this returns.
  virtual void resume(Batch& batch) = 0;
};

struct Batch {
  protocol::Protocol protocol{};
  request::Session* session = nullptr;
  ReplySink* sink = nullptr;    // null: nothing of it waits, so its store decides at once
  BatchOwner* owner = nullptr;  // null unless it is suspended

  request::Requests requests;  // their views live as long as the batch is open or suspended
  // What `requests` are charged from `first` on, by the rules of `policy`.
  policy::Plan plan;
  std::shared_ptr<const live::LivePolicy> policy;
  uint64_t overrides_seen = 0;  // policy::Overrides::changes, when it was matched or before
  std::vector<request::Ticket> tickets;  // by part, of those that may wait; the rest is left out
  uint32_t settled = 0;                  // groups of the plan that the store has answered
  size_t first = 0;                      // request of the plan's first part
  size_t next = 0;                       // part that is answered next
  request::Ticket ticket = request::no_ticket;  // by which the store knows it

  base::Time now{};                               // of its decisions
  base::Time since{};                             // when it came
  std::chrono::steady_clock::time_point began{};  // for the debug line, if there is one
};

// The batches of one worker, by their tickets.
class Batches {
 public:
  // An empty one, with a ticket that none had before.
  Batch& open();
  // The batch's ticket is void from here on; the object is kept for `open`.
  void close(Batch& batch);
  // The batch of that ticket; null: it was closed.
  Batch* find(request::Ticket ticket);
  size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    std::unique_ptr<Batch> batch;
    uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace sluice::engine
