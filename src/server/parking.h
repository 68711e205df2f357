// The requests of one worker whose replies come later: those that wait for units, and lists. Keeps
// what their replies need. Used by the worker's thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "policy/rule_set.h"
#include "server/live_policy.h"
#include "server/options.h"
#include "server/suspended.h"
#include "wire/session.h"

namespace sluice::server {

// Who gets them: a connection, which tells the engine before it goes.
class Recipient {
 public:
  virtual ~Recipient() = default;
  // Takes a late reply; it leaves at `send_late` at the latest.
  virtual void reply_late(const wire::Request& request, const wire::Verdict& verdict,
                          base::Time now) = 0;
  virtual void send_late() = 0;
  // Its batch, which waits for the store, can go on: Engine::resume, now or later.
  virtual void go_on() = 0;

 private:
  friend class Parking;
  friend class Engine;
  std::unique_ptr<Suspended> suspended_;  // its batch, if one waits for the store
  std::set<uint32_t> parked_;
  size_t lists_ = 0;  // of them
};

struct Parked {
  Recipient* recipient = nullptr;  // null: the slot is free
  Protocol protocol{};
  wire::Request request;  // its tag and prefix are the two below
  std::string tag, prefix;
  std::vector<std::pair<std::string, std::string>> descriptor;
  base::Time since{};    // when it was asked
  bool strict = false;   // its reply must not leave if what it says cannot be committed
  uint64_t arrival = 0;  // its place among those that wait
  // What its decisions are of, in order; `policy` keeps the rules alive.
  std::shared_ptr<const LivePolicy> policy;
  std::vector<limit::Limit> limits;
  std::vector<uint16_t> rules;  // what metrics count them by
  uint64_t overrides_seen = 0;  // policy::Overrides::changes, when it was matched or before
  uint32_t generation = 0;

  std::vector<limit::Entry> entries() const;
  size_t bytes() const;
};

class Parking {
 public:
  // Room for one more of that recipient's; null: it, or this worker, has as many as it may
  // (base/bounds.h). The request is copied.
  Parked* park(Recipient& recipient, Protocol protocol, const wire::Request& request,
               std::span<const limit::Entry> descriptor, limit::Ticket& ticket);
  // Null: it is gone.
  Parked* find(limit::Ticket ticket);
  void leave(limit::Ticket ticket);

  // The tickets of a recipient; of all.
  std::vector<limit::Ticket> of(const Recipient& recipient) const;
  std::vector<limit::Ticket> all() const;
  size_t size() const { return size_; }

 private:
  std::vector<std::unique_ptr<Parked>> slots_;
  std::vector<uint32_t> free_;
  size_t size_ = 0, bytes_ = 0;
};

}  // namespace sluice::server
