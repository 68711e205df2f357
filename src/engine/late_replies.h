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

  // A request that may wait, by whose ticket the store, or an errand, knows it; no_ticket: there is
  // no room, so it must not wait. The request is copied.
  request::Ticket add(protocol::Protocol protocol, const request::Request& request,
                      std::span<const request::Entry> descriptor,
                      std::span<const limit::Limit> limits, ReplySink& sink);
  // The part of the batch is settled. True: its group waits, and what the reply will need is kept.
  // False: it does not, and the ticket is void.
  bool keep_or_release(const Batch& batch, const policy::Plan::RequestPlan& part,
                       request::Ticket ticket, base::Time now);
  // The same of a request that is not to wait, whether or not the store has parked it: false.
  bool give_up(request::Ticket ticket, base::Time now);
  // Of a request that was added and no store knows: its sink gets the verdict, if it is there; or
  // gets it by its batch.
  void answer(request::Ticket ticket, const request::Verdict& verdict);
  void drop(request::Ticket ticket) { pending_.remove(ticket); }
  // The sink's wait is over, unless its answer has arrived; `session`: as Engine::interrupt has it.
  void interrupt(ReplySink& sink, const request::Session* session);
  // No more requests are taken from the sink.
  void forget(ReplySink& sink);

  // Asks the live policy about all that is kept. While that goes on it begins again when it is
  // done.
  void match_again();
  // Gives the replies that are due. Returns when to be called again, if not woken before.
  std::optional<base::Time> advance();

  // Does the store keep the request's group, as far as is known here?
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
  bool watching_ = false;                // `advance` is to come back, as something waits
  std::vector<ReplySink*> sinks_;        // with late replies that are not sent
  Batch again_;                          // one request at a time, without a ticket
  std::vector<store::Settled> answers_;  // scratch, as is the next
  std::vector<request::Ticket> tickets_;
};

}  // namespace sluice::engine
