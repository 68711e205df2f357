// The sans-I/O seam between a connection and a protocol: bytes in, requests out; verdicts in, reply
// bytes out. A session belongs to one connection and one thread, holds no socket and reads no
// clock, and must give the same replies however its input is split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "limit/limit.h"

namespace sluice::wire {

// One thing asked. Its entries are Requests::descriptor(request).
struct Request {
  int64_t cost = 1;
  uint32_t entry_first = 0, entry_count = 0;
};

// The requests of one batch; kept and reused by the worker, so that a settled server allocates
// nothing.
class Requests {
 public:
  void clear() {
    items_.clear();
    entries_.clear();
  }
  // Opens a request; entries added afterwards are its own until `commit`. `rollback` drops an open
  // one.
  void open() { open_first_ = static_cast<uint32_t>(entries_.size()); }
  void add(limit::Entry entry) { entries_.push_back(entry); }
  size_t open_entries() const { return entries_.size() - open_first_; }
  void commit(int64_t cost) {
    items_.push_back({cost, open_first_, static_cast<uint32_t>(entries_.size() - open_first_)});
  }
  void rollback() { entries_.resize(open_first_); }

  std::span<const Request> items() const { return items_; }
  std::span<const limit::Entry> descriptor(const Request& r) const {
    return std::span(entries_).subspan(r.entry_first, r.entry_count);
  }
  size_t size() const { return items_.size(); }

 private:
  std::vector<Request> items_;
  std::vector<limit::Entry> entries_;
  uint32_t open_first_ = 0;
};

// The answer to one request.
struct Verdict {
  bool allowed = false;
  const limit::Decision* tightest = nullptr;  // the decision to show; null: no rule matched
  // When there is more: until all limits are as fresh if it is allowed, the longest of them; at a
  // refusal until the same could be allowed.
  base::Duration more_after{};
  std::string_view error;  // not empty: could not be decided, in words for the client
};

struct Received {
  size_t consumed = 0;   // bytes of `in` that are done with
  bool closing = false;  // the peer broke the protocol: after the replies owed comes `farewell`,
                         // then the close
};

class Session {
 public:
  virtual ~Session() = default;

  // Takes complete frames from the front of `in`, adding at most base::bounds::batch_requests_max
  // requests. Called again with the rest while it consumes, and with more bytes behind the same
  // rest later. `end`: no byte will follow `in`. Views in `requests` point into `in` or into the
  // session and live until the next call.
  virtual Received receive(std::string_view in, bool end, Requests& requests) = 0;

  // Appends the reply to one request; called in request order. False: nothing may follow it; flush
  // and close.
  virtual bool reply(const Verdict& verdict, base::Buffer& out) = 0;

  // Appends what the peer is told before the close that `receive` announced.
  virtual void farewell(base::Buffer& out) = 0;

  // Appends what a peer is told that cannot be served at all (too many connections, shutting down),
  // before the close.
  virtual void refuse(std::string_view why, base::Buffer& out) = 0;
};

}  // namespace sluice::wire
