// Replies to requests that wait for units: which requests wait, when the store has their answer,
// and when they are matched again because the policy, an override or the clock has changed. Used by
// the worker's thread alone.
//
//   added     its batch is being decided, or suspended; only that batch may have it settled
//   kept      the store keeps its group, and will answer at the decider's completion queue
//   outdated  kept, and matched by what has changed since: matched again, soon, in order of arrival
//   answered  its reply went to the sink, and it is removed
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch.h"
#include "engine/denials.h"
#include "limit/limit.h"
#include "live/live_policy.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/charge.h"
#include "request/hold.h"
#include "request/peer.h"
#include "request/session.h"
#include "store/completion_queue.h"
#include "store/hold_book.h"

namespace sluice::engine {

// Receives the replies of one session that come later than its batch. A connection is one; it calls
// Engine::forget before it goes. Called on the worker's thread alone.

class ReplySink : public BatchOwner {
 public:
  // Takes a late reply, and sends it at the next `flush_late` at the latest.
  virtual void reply_late(const request::Request& request, const request::Verdict& verdict,
                          base::Time now) = 0;
  // Sends the late replies. needs_commit: one of them must not be sent if its decision cannot be
  // committed.
  virtual void flush_late(bool needs_commit) = 0;
  // Is there output that it has not sent yet? While there is, none of its lists is begun or read;
  // once all is sent it calls Engine::continue_lists.
  virtual bool has_unsent() const { return false; }
  // Is it about to go? Then no list is made for it.
  virtual bool is_leaving() const { return false; }
  // The name in the certificate that the client has shown; empty: none.
  virtual std::string_view certificate() const { return {}; }
  // The same number for all sinks of one client, by its address; 0: unknown.
  virtual uint64_t client() const { return 0; }
  // All of its lists have their replies.
  virtual void on_lists_done() {}

  // The answer to takes and waits that no rule matches.
  request::Unmatched unmatched() const { return unmatched_; }
  // Where such takes and waits are reported; null: nowhere.
  const request::ListenerView* listener() const { return listener_; }

 protected:
  void set_unmatched(request::Unmatched unmatched) { unmatched_ = unmatched; }
  void set_listener(const request::ListenerView* listener) { listener_ = listener; }

 private:
  friend class PendingReplies;
  friend class LateReplies;
  friend class Engine;
  std::vector<Batch*> suspended_;  // its batches that wait for the store, or for room for a list
  std::set<uint32_t> pending_;     // slots of its PendingReplies
  request::Unmatched unmatched_ = request::Unmatched::as_protocol;
  const request::ListenerView* listener_ = nullptr;
  bool has_replies_ = false;   // it is among those with late replies to send
  bool needs_commit_ = false;  // one of these replies has needs_commit set
};

// The requests of one worker that wait for units: what their later replies need, and when each must
// be looked at. Used by the worker's thread alone.

struct PendingReply {
  ReplySink* sink = nullptr;            // null: the slot is free
  request::Session* session = nullptr;  // of the sink
  protocol::Protocol protocol{};
  request::Request request;  // its tag and message are the two below
  std::string tag;
  request::Message message;
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

  // Of a reserve: what is asked, and what its grant needs; null until the store keeps its group.
  request::HoldCall hold;
  std::string hold_user, hold_id, holder;  // its texts
  std::unique_ptr<store::HoldBook::Wait> hold_wait;
  bool is_hold() const { return request.verb == request::Verb::reserve; }

  // Copies the request and its texts. The object must not be moved afterwards.
  void copy(protocol::Protocol its_protocol, const request::Request& its_request,
            std::span<const request::Entry> its_descriptor,
            std::span<const limit::Limit> its_limits = {});
  std::vector<request::Entry> entries() const;
  size_t bytes() const;
};

class PendingReplies {
 public:
  // Adds a request of the batch, which has a sink; null: the sink or the worker has as many as it
  // may (base/bounds.h). The request is copied.
  PendingReply* add(const Batch& batch, const request::Request& request, request::Ticket& ticket);
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

class LateReplies {
 public:
  explicit LateReplies(Decider& decider) : decider_(decider) {}

  // Adds a request of the batch, which has a sink, that may wait. Returns the ticket by which the
  // store names it; no_ticket: there is no room, so it must not wait. The request is copied.
  request::Ticket add(const Batch& batch, const request::Request& request);
  // Called once the part of the batch is settled. True: its group waits, and what its reply needs
  // is kept. False: it does not wait, and the ticket is void.
  bool keep_or_release(const Batch& batch, const policy::Plan::RequestPlan& part,
                       request::Ticket ticket, base::Time now);
  // The same for a request that must not wait: takes it back if the store has parked it, and notes
  // the refusal. Always returns false.
  bool give_up(const Batch& batch, const policy::Plan::RequestPlan& part, request::Ticket ticket,
               base::Time now);
  // A reserve of the batch is parked under that ticket: what its grant needs. Before
  // `keep_or_release`.
  void keep_hold(request::Ticket ticket, const request::HoldCall& call,
                 std::unique_ptr<store::HoldBook::Wait> wait);
  // See Engine::interrupt.
  void interrupt(ReplySink& sink, const request::Session* session, bool stops = false);
  bool has(const ReplySink& sink) const { return !pending_.of(sink).empty(); }
  // The sink goes: its requests are dropped.
  void forget(ReplySink& sink);

  // Matches all kept requests again by the live policy. A call while this is under way starts it
  // once more at its end.
  void match_again();
  // Delivers the replies that are due. Returns when it must be called again, if it is not woken
  // before.
  std::optional<base::Time> advance();

  // Does the store keep the request's group? (It may have answered it meanwhile.)
  bool waits(request::Ticket ticket);
  size_t size() const { return pending_.size(); }
  size_t to_match_again() const { return outdated_.size(); }

 private:
  bool is_outdated(const PendingReply& pending, base::Time now) const;
  base::Time end_of(const Batch& batch, const policy::Plan::RequestPlan& part,
                    base::Time now) const;
  void match_some_again(std::vector<request::Ticket> tickets, size_t done, bool all);
  void match_outdated(base::Time now);
  void match_again(request::Ticket ticket, base::Time now);
  void match_later(request::Ticket ticket, base::Time at);
  void take_named();
  void take_answers();
  void expire();
  void reply(request::Ticket ticket, const request::Verdict& verdict, base::Time now);
  bool reserve_again(PendingReply& pending, Batch& batch, base::Time now);
  void drop_hold(PendingReply& pending, bool is_granted, base::Time now);
  void flush();

  Decider& decider_;
  PendingReplies pending_;
  std::vector<request::Ticket> outdated_;  // to be matched again at outdated_at_, each once
  base::Time outdated_at_{};
  bool matching_again_ = false, match_once_more_ = false;
  base::Time advanced_{INT64_MIN};       // when `advance` was called, or one was kept, last
  bool watching_ = false;                // `advance` must be called regularly, as a request waits
  std::vector<ReplySink*> sinks_;        // with late replies that are not sent
  Batch again_;                          // one request at a time, without a ticket
  std::vector<store::Settled> answers_;  // scratch, as is the next
  std::vector<request::Ticket> tickets_;
};

}  // namespace sluice::engine
