// The requests of one worker that wait for units, and so have their replies later. Keeps what these
// replies need. Used by the worker's thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/suspended.h"
#include "limit/limit.h"
#include "live/live_policy.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/charge.h"
#include "request/session.h"

namespace sluice::engine {

// Who gets them: a connection, which tells the engine before it goes.
class Recipient {
 public:
  virtual ~Recipient() = default;
  // Takes a late reply; it leaves at `send_late` at the latest.
  virtual void reply_late(const request::Request& request, const request::Verdict& verdict,
                          base::Time now) = 0;
  virtual void send_late() = 0;
  // Its batch, which waits for the store, can go on: Engine::resume, now or later.
  virtual void go_on() = 0;
  // Is there output that it has not sent yet? Then none of its lists is begun or read; once there
  // is none it tells the engine (Engine::continue_lists).
  virtual bool has_unsent() const { return false; }
  // Is it known to be about to go? Then no list is made for it.
  virtual bool is_leaving() const { return false; }
  // Each of its lists has its reply.
  virtual void on_lists_done() {}

 private:
  friend class Parking;
  friend class Engine;
  std::unique_ptr<Suspended> suspended_;  // its batch, if one waits for the store
  std::set<uint32_t> parked_;
  bool has_replies_ = false;  // it is in the engine's list of those with late replies to send
};

struct Parked {
  Recipient* recipient = nullptr;  // null: the slot is free
  protocol::Protocol protocol{};
  request::Request request;  // its tag and prefix are the two below
  std::string tag, prefix;
  std::vector<std::pair<std::string, std::string>> descriptor;
  base::Time since{};   // when it was asked
  bool strict = false;  // its reply must not leave if what it says cannot be committed
  // The store keeps its group. Before, the group is only planned: its batch is being decided, or
  // suspended, and nobody but that batch may have the store settle it.
  bool kept = false;
  bool later = false;    // it is in the engine's list of those that are matched again later
  bool again = false;    // the store wants it matched again, whether or not anything has changed
  uint64_t arrival = 0;  // its place among those that wait; 0 unless it is kept
  // What its decisions are of, in order; `policy` keeps the rules alive.
  std::shared_ptr<const live::LivePolicy> policy;
  std::vector<limit::Limit> limits;
  std::vector<uint16_t> rules;  // what metrics count them by
  uint64_t overrides_seen = 0;  // policy::Overrides::changes, when it was matched or before
  base::Time until{INT64_MAX};  // a rule or an override that it was matched by ends then
  uint32_t generation = 0;

  // What was asked, with texts of its own; it cannot be moved from here on.
  void copy(protocol::Protocol its_protocol, const request::Request& its_request,
            std::span<const request::Entry> its_descriptor);
  std::vector<request::Entry> entries() const;
  size_t bytes() const;
};

class Parking {
 public:
  // Room for one more of that recipient's; null: it, or this worker, has as many as it may
  // (base/bounds.h). The request is copied.
  Parked* park(Recipient& recipient, protocol::Protocol protocol, const request::Request& request,
               std::span<const request::Entry> descriptor, request::Ticket& ticket);
  // Null: it is gone.
  Parked* find(request::Ticket ticket);
  void leave(request::Ticket ticket);

  // What it was matched by ends at that time, of itself.
  void set_until(request::Ticket ticket, base::Time until);
  // The first of these times; none: nothing ends.
  std::optional<base::Time> next_end() const;
  // Moves the tickets of those whose time has come to the end of `ended`, each once.
  void take_ended(base::Time now, std::vector<request::Ticket>& ended);

  // The tickets of a recipient; and of all that the store keeps, in order of their arrival.
  std::vector<request::Ticket> of(const Recipient& recipient) const;
  std::vector<request::Ticket> kept() const;
  size_t size() const { return size_; }

 private:
  std::vector<std::unique_ptr<Parked>> slots_;
  std::vector<uint32_t> free_;
  std::set<std::pair<int64_t, uint32_t>> ends_;  // times that set_until was told, with their slots
  size_t size_ = 0, bytes_ = 0;
};

}  // namespace sluice::engine
