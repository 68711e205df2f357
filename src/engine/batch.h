// A batch of which the next decision comes later: all that the engine needs to go on with it. Made
// and kept by the engine, for the recipient whose batch it is; used by the worker's thread alone.
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

class Recipient;

// How far a batch has been served.
struct Progress {
  protocol::Protocol protocol{};
  request::Session* session = nullptr;
  Recipient* recipient = nullptr;                 // null: nothing of it waits
  size_t first = 0;                               // request of the plan's first part
  size_t next = 0;                                // part that is answered next
  base::Time now{};                               // of its decisions
  base::Time since{};                             // when it came
  std::chrono::steady_clock::time_point began{};  // for the debug line, if there is one
};

struct Suspended {
  Progress progress;
  request::Requests requests;  // their views live as long as their session is not asked for more
  policy::Plan plan;
  uint32_t settled = 0;
  std::vector<request::Ticket> tickets;
  std::shared_ptr<const live::LivePolicy> policy;  // whose rules the plan names
  uint64_t overrides_seen = 0;  // policy::Overrides::changes, when it was matched
  request::Ticket ticket;       // by which the store calls it
};

}  // namespace sluice::engine
