// The requests of one worker that wait for units: what their later replies need, and when each must
// be looked at. Used by the worker's thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/denials.h"
#include "engine/reply_sink.h"
#include "limit/limit.h"
#include "live/live_policy.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/charge.h"
#include "request/session.h"

namespace sluice::engine {

// More than twenty members: the request, what it was matched by, and when either ends.
struct PendingReply {
  ReplySink* sink = nullptr;  // null: the slot is free
  protocol::Protocol protocol{};
  request::Request request;  // its tag and prefix point to the two texts below
  std::string tag, prefix;
  std::vector<std::pair<std::string, std::string>> descriptor;
  std::vector<limit::Limit> brought;  // limits that came with the request
  base::Time since{};                 // when the request arrived
  base::Time asked_at{};              // the same by monotonic time
  bool needs_commit = false;  // its reply must not be sent if its decision cannot be committed
  // The store keeps its group. Before that its batch is being decided or is suspended, and only
  // that batch may have the store settle the group.
  bool kept = false;
  bool later = false;        // it is in the engine's list of those that are matched again later
  bool interrupted = false;  // it must not wait any longer
  bool stops = false;        // because the server stops
  bool again = false;    // the store wants it matched again, whether or not anything has changed
  uint64_t arrival = 0;  // its place in the order of arrival; 0 unless `kept`
  // What its decisions refer to, in order; `policy` keeps the rules alive.
  std::shared_ptr<const live::LivePolicy> policy;
  std::vector<limit::Limit> limits;
  std::vector<const policy::Rule*> limit_rules;  // the rule of each limit
  std::vector<uint16_t> rules;                   // the rules' numbers in metrics
  std::vector<Denial> refused_by;  // noted if it is refused in the end (TopKeys::note_waiting)
  uint64_t overrides_seen = 0;     // policy::Overrides::changes, read before it was matched
  base::Time deadline{INT64_MAX};  // monotonic time at which its wait ends
  base::Time until{INT64_MAX};     // when a rule or an override that it was matched by ends
  uint32_t generation = 0;

  // Copies the request and its texts. The object must not be moved afterwards.
  void copy(protocol::Protocol its_protocol, const request::Request& its_request,
            std::span<const request::Entry> its_descriptor,
            std::span<const limit::Limit> its_limits = {});
  std::vector<request::Entry> entries() const;
  size_t bytes() const;
};

class PendingReplies {
 public:
  // Adds a request of that sink; null: the sink or the worker has as many as it may
  // (base/bounds.h). The request is copied.
  PendingReply* add(ReplySink& sink, protocol::Protocol protocol, const request::Request& request,
                    std::span<const request::Entry> descriptor,
                    std::span<const limit::Limit> limits, request::Ticket& ticket);
  // Null: it is gone.
  PendingReply* find(request::Ticket ticket);
  void remove(request::Ticket ticket);

  // Sets PendingReply::until.
  void set_until(request::Ticket ticket, base::Time until);
  // The earliest of these times; none: nothing ends.
  std::optional<base::Time> next_end() const;
  // Appends to `ended` the tickets of those whose time is reached, each once.
  void take_ended(base::Time now, std::vector<request::Ticket>& ended);

  // Sets PendingReply::deadline.
  void set_deadline(request::Ticket ticket, base::Time deadline);
  // The earliest deadline; none: all may wait for ever.
  std::optional<base::Time> next_deadline() const;
  // Appends to `expired` the tickets of those past their deadline, each once.
  void take_expired(base::Time monotonic, std::vector<request::Ticket>& expired);

  // The tickets of a sink; and of all that the store keeps, in order of their arrival.
  std::vector<request::Ticket> of(const ReplySink& sink) const;
  std::vector<request::Ticket> kept() const;
  size_t size() const { return size_; }

 private:
  std::vector<std::unique_ptr<PendingReply>> slots_;
  std::vector<uint32_t> free_;
  std::set<std::pair<int64_t, uint32_t>> ends_;  // times given to set_until, with their slots
  std::set<std::pair<int64_t, uint32_t>> deadlines_;
  size_t size_ = 0, bytes_ = 0;
};

}  // namespace sluice::engine
