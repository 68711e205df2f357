// Requests to replies: rules, charges, decisions, verdicts. One per worker, used by its thread
// alone; what it needs for a batch is kept and reused, so that a settled server allocates nothing
// here.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "engine/batch.h"
#include "engine/decider.h"
#include "engine/errands.h"
#include "engine/late_replies.h"
#include "engine/lists.h"
#include "engine/reply_sink.h"
#include "protocol/protocol.h"
#include "request/session.h"

namespace sluice::engine {

class AdminQuery;

// What became of a batch.
enum class Served : uint8_t {
  all,    // every request has its reply, or will have it by ReplySink::reply_late
  ended,  // the session ends with what was appended; what is behind was neither charged nor
          // answered
  later,  // the next decision comes later: ReplySink::resume says when to `resume`
};

class Engine {
 public:
  using Deps = Decider::Deps;
  Engine(Deps&& deps, std::shared_ptr<spdlog::logger> log);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // An empty batch, whose requests the caller fills in; then it has it served. One that stays empty
  // need not be.
  Batch& next_batch();
  // Decides the batch's requests in order and appends their replies, but those that come late, to
  // `sink` (null: nothing waits, so its store decides at once). After `later` what the views of the
  // requests point to has to stay until the batch was resumed to its end, or its sink forgotten. A
  // sink may have several batches under way where its session's replies may leave in any order.
  Served serve(Batch& batch, protocol::Protocol protocol, request::Session& session,
               base::Buffer& out, ReplySink* sink = nullptr);
  // Goes on with a batch of which `later` was said. After anything else than `later` it is gone.
  Served resume(Batch& batch, base::Buffer& out);
  // Does what `serve` or `resume` appended since the last call of `next_batch` or `resume` hold a
  // reply that must not leave if it cannot be committed?
  bool needs_commit() const { return needs_commit_; }

  // Gives late replies that are due. Returns when to be called again, if not woken before.
  std::optional<base::Time> advance();
  base::Time now() const { return decider_.now(); }
  store::CompletionQueue& completions() { return decider_.completions(); }

  // The sink is gone: no more requests are taken from it.
  void forget(ReplySink& sink);

  // The wait of the sink's session is over, unless its answer has arrived: its verdict is
  // `expired`. `session`: of those waits alone that it says are interrupted; null: of all.
  void interrupt(ReplySink& sink, const request::Session* session = nullptr) {
    late_.interrupt(sink, session);
  }

  // Has that sink lists without a reply?
  bool has_lists(ReplySink& sink) const { return lists_.has(sink); }
  // The sink has sent its output.
  void continue_lists(ReplySink& sink) { lists_.proceed(sink); }
  // The sink is about to go: its lists end, the rest of what it asked does not.
  void drop_lists(ReplySink& sink) { lists_.drop(sink); }

  // Lets go of a policy that is no longer live; each batch begins so. True: there was a new one.
  bool take_policy() { return decider_.take_policy(); }
  // Asks the live policy about what waits under an older one, or was matched before overrides
  // changed; all keep their places. While that goes on it begins again when it is done. What is of
  // a suspended batch is left to that: once the store keeps it, it is matched again if need be.
  void match_again() { late_.match_again(); }

  // Has the store answer a query, now or later.
  void run_query(std::shared_ptr<AdminQuery> query);

  // What it keeps for replies that come later. All 0: nothing is left of any request.
  struct Held {
    size_t parked = 0;   // requests that wait for units
    size_t batches = 0;  // that wait for the store
    size_t later = 0;    // tickets of requests that will be matched again
    friend bool operator==(const Held&, const Held&) = default;
  };
  Held held() const;
  // Does the store keep the request's group, as far as is known here?
  bool waits(request::Ticket ticket) { return late_.waits(ticket); }

 private:
  friend class AdminQuery;
  Served answer_batch(Batch& batch, base::Buffer& out);
  Served suspend(Batch& batch);
  Served end(Batch& batch);
  void match(Batch& batch);
  void match_all(Batch& batch);
  size_t match_together(Batch& batch, size_t first);
  void find_siblings(const Batch& batch, size_t request);
  std::span<const std::span<const request::Entry>> siblings_of(size_t request) const {
    return request < siblings_end_ ? std::span(siblings_)
                                   : std::span<const std::span<const request::Entry>>();
  }
  void continue_query(AdminQuery& query);

  Decider decider_;
  LateReplies late_;
  Lists lists_;
  Errands errands_;
  const bool commits_;                                // store::Committer::commits_first
  bool needs_commit_ = false;                         // of what was appended last
  std::vector<std::shared_ptr<AdminQuery>> queries_;  // whose counters the store is asked about
  std::vector<request::Ticket> ready_;                // scratch
  // Of the requests that are being matched: those of one message, up to siblings_end_.
  std::vector<std::span<const request::Entry>> siblings_;
  size_t siblings_end_ = 0;
  uint64_t message_ = 0;  // policy::Asked::message
};

}  // namespace sluice::engine
