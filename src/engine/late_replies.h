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
#include <optional>
#include <vector>

#include "engine/decider.h"
#include "engine/pending_replies.h"
#include "engine/reply_sink.h"
#include "store/completion_queue.h"

namespace sluice::engine {

class LateReplies {
 public:
  explicit LateReplies(Decider& decider) : decider_(decider) {}

  // Adds a request that may wait. Returns the ticket by which the store names it;
  // no_ticket: there is no room, so it must not wait. The request is copied.
  request::Ticket add(protocol::Protocol protocol, const request::Request& request,
                      std::span<const request::Entry> descriptor,
                      std::span<const limit::Limit> limits, ReplySink& sink);
  // Called once the part of the batch is settled. True: its group waits, and what its reply needs
  // is kept. False: it does not wait, and the ticket is void.
  bool keep_or_release(const Batch& batch, const policy::Plan::RequestPlan& part,
                       request::Ticket ticket, base::Time now);
  // The same for a request that must not wait: takes it back if the store has parked it, and notes
  // the refusal. Always returns false.
  bool give_up(const Batch& batch, const policy::Plan::RequestPlan& part, request::Ticket ticket,
               base::Time now);
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
