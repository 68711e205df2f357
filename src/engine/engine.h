// Turns requests into replies: finds the rules that match, their charges, the store's decisions and
// the verdict. One for each worker, used by its thread alone. Memory for a batch is kept and
// reused, so that a server under steady load allocates nothing here.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "engine/batch.h"
#include "engine/denials.h"
#include "engine/late_replies.h"
#include "engine/lists.h"
#include "protocol/protocol.h"
#include "request/session.h"

namespace sluice::engine {

class AdminQuery;

// The outcome of serving a batch.
enum class Served : uint8_t {
  all,    // every request has its reply, or will have it by ReplySink::reply_late
  ended,  // the session ends with what was appended; what is behind was neither charged nor
          // answered
  later,  // the next decision comes later: BatchOwner::resume says when to `resume`
};

class Engine {
 public:
  using Deps = Decider::Deps;
  Engine(Deps&& deps, std::shared_ptr<spdlog::logger> log);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns an empty batch. The caller fills in the requests and calls `serve`; a batch that stays
  // empty need not be served.
  Batch& next_batch();
  // Decides the batch's requests in order and appends their replies. Late replies go to `sink`
  // later; null: no request may wait, as the store decides at once. After `later` the bytes that
  // the requests' views point to must stay until the batch has been resumed to its end or its sink
  // is forgotten. A sink may have several batches under way if its session's replies may leave in
  // any order.
  Served serve(Batch& batch, protocol::Protocol protocol, request::Session& session,
               base::Buffer& out, ReplySink* sink = nullptr);
  // Continues a batch for which `later` was returned. After any other result the batch is closed.
  Served resume(Batch& batch, base::Buffer& out);
  // Did `serve` or `resume`, since the last call of `next_batch` or `resume`, append a reply that
  // must not be sent if its decision cannot be committed?
  bool needs_commit() const { return needs_commit_; }

  // Delivers the late replies that are due. Returns when it must be called again, if it is not
  // woken before.
  std::optional<base::Time> advance();
  base::Time now() const { return decider_.now(); }
  store::CompletionQueue& completions() { return decider_.completions(); }

  // The sink goes: its requests that wait or are under way are dropped.
  void forget(ReplySink& sink);

  // Ends the waits of the sink with the verdict `expired`, except those whose answer has arrived.
  // `session`: ends only waits that it says are interrupted; null: all.
  void interrupt(ReplySink& sink, const request::Session* session = nullptr) {
    late_.interrupt(sink, session);
  }

  // The same because the server stops: they end with the error request::server_stops.
  void stop_waits(ReplySink& sink) { late_.interrupt(sink, nullptr, true); }
  // Does a request of the sink have no reply yet, because it waits for units?
  bool has_late(const ReplySink& sink) const { return late_.has(sink); }

  // Does that sink have lists without a reply?
  bool has_lists(ReplySink& sink) const { return lists_.has(sink); }
  // The sink has sent its output: its next list may be read.
  void continue_lists(ReplySink& sink) { lists_.proceed(sink); }
  // The sink is about to go: its lists end, its other requests go on.
  void drop_lists(ReplySink& sink) { lists_.drop(sink); }

  // Takes the live policy; each batch begins with this. True: the policy is a new one.
  bool take_policy() { return decider_.take_policy(); }
  // Matches waiting requests again by the live policy if they were matched by an older one or
  // before overrides changed; all keep their places in the queues. A call while this is under way
  // starts it once more at its end. Requests of a suspended batch are skipped: they are matched
  // again, if that is needed, once the store keeps them.
  void match_again() { late_.match_again(); }

  // Has the store answer a query, now or later.
  void run_query(std::shared_ptr<AdminQuery> query);

  // What it holds for replies that come later. All 0: it holds nothing of any request.
  struct Held {
    size_t parked = 0;   // requests that wait for units
    size_t batches = 0;  // that wait for the store
    size_t later = 0;    // requests that will be matched again
    friend bool operator==(const Held&, const Held&) = default;
  };
  Held held() const;
  // Does the store keep the request's group? (It may have answered it meanwhile.)
  bool waits(request::Ticket ticket) { return late_.waits(ticket); }

 private:
  friend class AdminQuery;
  Served answer_batch(Batch& batch, base::Buffer& out);
  Served suspend(Batch& batch);
  Served end(Batch& batch);
  void match(Batch& batch);
  void match_all(Batch& batch, size_t end);
  bool match_one(Batch& batch, const request::Request& request);
  void match_hold(Batch& batch);
  void plan_hold(Batch& batch);
  bool settle_hold(Batch& batch);
  bool do_hold_step(Batch& batch);
  bool charge_unknown(Batch& batch);
  static size_t subjects_of_hold(const Batch& batch);
  void override_plan(Batch& batch);
  bool reserve(Batch& batch);
  void wake_for(const request::HoldCall& call, base::Time now);
  void end_holds(base::Time now);
  bool reply_hold(Batch& batch, const request::Request& request, base::Buffer& out);
  size_t judge(Batch& batch);
  bool is_permitted(Batch& batch, const request::Requests::Guarded& message);
  size_t match_together(Batch& batch, size_t first);
  policy::Matching matching_of(Batch& batch, const request::Request& request, policy::Plan& plan);
  void continue_query(AdminQuery& query);

  Decider decider_;
  LateReplies late_;
  Lists lists_;
  LeakWarnings leaks_;
  const bool commits_;                                // store::Committer::commits_first
  bool needs_commit_ = false;                         // see needs_commit()
  std::vector<std::shared_ptr<AdminQuery>> queries_;  // whose counters the store is asked about
  std::vector<request::Ticket> ready_;                // scratch
  std::vector<policy::Matching> together_;            // scratch: those that settle together
  policy::Plan judged_;  // scratch: what a message of a user with limited rights would touch
};

}  // namespace sluice::engine
