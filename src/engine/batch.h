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

// Continues a batch that was suspended.
class BatchOwner {
 public:
  virtual ~BatchOwner() = default;
  // The store has an answer: the owner continues the batch now or later. When this returns the
  // batch may be closed and the owner destroyed.
  virtual void resume(Batch& batch) = 0;
};

struct Batch {
  protocol::Protocol protocol{};
  request::Session* session = nullptr;
  ReplySink* sink = nullptr;    // null: no request of it may wait, as its store decides at once
  BatchOwner* owner = nullptr;  // null unless it is suspended

  request::Requests requests;  // their views live as long as the batch is open or suspended
  // The charges of `requests` from `first` on, by the rules of `policy`.
  policy::Plan plan;
  std::shared_ptr<const live::LivePolicy> policy;
  uint64_t overrides_seen = 0;           // policy::Overrides::changes, read before it was matched
  std::vector<request::Ticket> tickets;  // by part; of requests that may wait
  uint32_t settled = 0;                  // groups of the plan that the store has answered
  size_t first = 0;                      // the request of the plan's first part
  size_t next = 0;                       // the part that is answered next
  request::Ticket ticket = request::no_ticket;  // the store's name for the batch

  base::Time now{};                               // the time of its decisions
  base::Time since{};                             // when its requests arrived
  std::chrono::steady_clock::time_point began{};  // for the debug line, if there is one
};

// The batches of one worker, found by their tickets.
class Batches {
 public:
  // Returns an empty batch, with a ticket that was never used before.
  Batch& open();
  // Makes the batch's ticket void and keeps the object for `open`.
  void close(Batch& batch);
  // The batch with that ticket; null: it was closed.
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
