// What a session knows of the server and the connection that it serves, for protocols whose
// clients may ask about these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "access/access.h"
#include "base/clock.h"
#include "base/time.h"
#include "limit/limit.h"

namespace sluice::request {

// Sums over the whole server.
struct ServerFigures {
  uint64_t connections = 0;        // open, of the session's protocol
  uint64_t connections_total = 0;  // since the start
  uint64_t requests_total = 0;     // decided or answered
  uint64_t counters = 0;
  uint64_t memory_bytes = 0;      // held for counters
  uint64_t memory_bytes_max = 0;  // 0: no bound is known
  base::Duration uptime{};
};

// Outlives every session; any thread.
class ServerView {
 public:
  virtual ~ServerView() = default;
  virtual std::string_view version() const = 0;
  // Adds up the workers' statistics: not for the hot path.
  virtual ServerFigures figures() const = 0;
  // Limits with the lists of algorithms by which counters of limits that come with requests are
  // looked for by their key alone; their numbers stand for nothing.
  virtual std::span<const std::vector<limit::Limit>> inline_lists() const { return {}; }
  // Has every session that is_interrupted, of whatever worker, told so.
  virtual void interrupt() const = 0;
  // Writes a warning to the log, one a second at most: a client may cause any number.
  virtual void warn(std::string_view) const {}
};

// Settings of a protocol's sessions, as its folder defines them; constant once the server runs.
struct SessionOptions {
  virtual ~SessionOptions() = default;
};

// What the sessions of one worker share, as their protocol's folder defines it; used by the
// worker's thread alone.
struct WorkerState {
  virtual ~WorkerState() = default;
};

// All of it outlives the session, but for the texts.
struct Peer {
  const ServerView* server = nullptr;       // null: nothing is known of it
  const SessionOptions* options = nullptr;  // null: the defaults
  const access::Access* access = nullptr;   // null: there are no users
  WorkerState* worker = nullptr;            // null: the protocol makes none
  // For the rates of what clients may send, not for decisions; null: there is none.
  base::Clock* clock = nullptr;
  // The client's "ADDRESS:PORT"; empty where the protocol does not want it, or it has none.
  std::string address{};
  uint16_t port = 0;    // the listener's
  bool strict = false;  // the listener's option: what could be meant otherwise is an error
};

}  // namespace sluice::request
