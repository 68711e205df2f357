// What a session knows of its server and its connection, for protocols with requests about them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "access/users.h"
#include "base/clock.h"
#include "base/time.h"

namespace sluice::request {

// Sums over all workers of the server.
struct ServerFigures {
  uint64_t connections = 0;        // open, of the session's protocol
  uint64_t connections_total = 0;  // since the start
  uint64_t requests_total = 0;     // that were decided, or answered without a decision
  uint64_t counters = 0;
  uint64_t memory_bytes = 0;      // used for counters
  uint64_t memory_bytes_max = 0;  // 0: no bound is known
  base::Duration uptime{};
};

// The server as sessions see it. Outlives every session; any thread.
class ServerView {
 public:
  virtual ~ServerView() = default;
  virtual std::string_view version() const = 0;
  // Adds up the statistics of all workers, so it is not for the hot path.
  virtual ServerFigures figures() const = 0;
  // Is it told to stop, and serves on for a while? Checks of health say no then.
  virtual bool is_stopping() const { return false; }
  // Logs a warning, at most one a second, because a client can cause any number of them.
  virtual void warn(std::string_view) const {}
};

// The code of requests that are refused because they cannot be read, or name something that does
// not exist (ListenerView::refused).
inline constexpr std::string_view malformed_code = "malformed";

// The listener of a connection: what its sessions know of it, and where they report requests that
// were not served. Outlives every session; any thread.
class ListenerView {
 public:
  // At most one line in this time about requests that no rule matches, and one for each code.
  static constexpr base::Duration line_period = base::seconds(60);

  explicit ListenerView(bool logs_unmatched) : logs_unmatched_(logs_unmatched) {}
  virtual ~ListenerView() = default;
  // Does only this machine reach it?
  virtual bool is_loopback() const = 0;
  // Counts a request that was refused before any rule was looked for, because it is malformed or
  // its client may not ask, and logs it. `code`: the kind of refusal, for metrics; a literal.
  // `example`: what is wrong with it, without secrets; empty: it is only counted.
  virtual void refused(std::string_view code, std::string_view example) const = 0;

  // Is a line due about a take that no rule matches? Looks only at one atomic.
  bool is_unmatched_due(base::Time now) const {
    if (!logs_unmatched_) return false;
    const int64_t due = unmatched_due_us_.load(std::memory_order_relaxed);
    // The clock may have been set back.
    return now.us >= due || now.us < due - line_period.us;
  }
  // Logs such a take, unless another thread has done so meanwhile. `example`: its entries.
  void unmatched(base::Time now, std::string_view example) const {
    int64_t due = unmatched_due_us_.load(std::memory_order_relaxed);
    if (!is_unmatched_due(now)) return;
    if (unmatched_due_us_.compare_exchange_strong(due, now.us + line_period.us))
      log_unmatched(example);
  }

 protected:
  virtual void log_unmatched(std::string_view example) const = 0;

 private:
  const bool logs_unmatched_;
  mutable std::atomic<int64_t> unmatched_due_us_{0};
};

// Settings of a protocol's sessions. The protocol's folder defines the class derived from it;
// constant once the server runs.
struct SessionOptions {
  virtual ~SessionOptions() = default;
};

// State that the sessions of one worker and protocol share. The protocol's folder defines the class
// derived from it; used by the worker's thread only.
struct WorkerState {
  virtual ~WorkerState() = default;
  // The bytes that the sessions hold together under a bound of their own, and that bound, past
  // which they refuse requests. 0 and 0: there is no such bound.
  struct Held {
    size_t bytes = 0, most = 0;
  };
  virtual Held held() const { return {}; }
};

class ChargeIds;  // request/charge_ids.h
}  // namespace sluice::request

namespace sluice::otlp {
class Spans;  // otlp/spans.h
}

namespace sluice::request {

// Everything that a pointer names outlives the session.
struct Peer {
  const ServerView* server = nullptr;       // null: there is no server, as in tests
  const ListenerView* listener = nullptr;   // null: there is no listener, as in tests
  const SessionOptions* options = nullptr;  // null: the defaults
  const access::Access* access = nullptr;   // null: there are no users
  WorkerState* worker = nullptr;            // null: the protocol has no such state
  // For deadlines, ids, spans, and bounds on what clients may send in a time; a decision has the
  // time of its batch. Null: there are none of these.
  base::Clock* clock = nullptr;
  ChargeIds* charge_ids = nullptr;  // null: charges with ids are refused
  otlp::Spans* spans = nullptr;     // the worker's; null: requests are not traced
  // The client's "ADDRESS:PORT"; empty where the protocol does not ask for it, or the client has
  // none (a UNIX socket).
  std::string address{};
  // The name in the certificate that the client has shown, which is trusted; empty: none.
  std::string certificate{};
  uint16_t port = 0;    // the listener's
  bool strict = false;  // the listener's option `strict`: ambiguous requests are errors
};

}  // namespace sluice::request
