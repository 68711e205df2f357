// Requests that are decided together, and how far that has got: the one object that is handed on
// while a batch is matched, settled, suspended for a store that answers later, and resumed. A list
// and a query of the admin port are batches as well. Used by its worker's thread alone.
//
//   open       being filled and served; the store may know its ticket
//   suspended  the rest has no answer yet: the store names the ticket, and `owner` is called
//   closed     kept for the next one; its ticket is void
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "engine/denials.h"
#include "engine/top_keys.h"
#include "engine/worker_stats.h"
#include "live/live_policy.h"
#include "policy/inline_limits.h"
#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/charge.h"
#include "request/session.h"
#include "store/store.h"

namespace sluice::store {
class HoldBook;  // store/hold_book.h
}

namespace sluice::engine {

class ReplySink;
struct Batch;

// Continues a batch that was suspended.
class BatchOwner {
 public:
  virtual ~BatchOwner() = default;
  // The store has an answer: the owner continues the batch now or later. When this returns the
  // batch may be closed and the owner destroyed.
  virtual void resume(Batch& batch) = 0;
};

struct Batch {
  protocol::Protocol protocol{};
  request::Session* session = nullptr;
  ReplySink* sink = nullptr;    // null: no request of it may wait, as its store decides at once
  BatchOwner* owner = nullptr;  // null unless it is suspended

  request::Requests requests;  // their views live as long as the batch is open or suspended
  // The charges of `requests` from `first` on, by the rules of `policy`.
  policy::Plan plan;
  std::shared_ptr<const live::LivePolicy> policy;
  uint64_t overrides_seen = 0;  // policy::Overrides::changes, read before it was matched
  // The plan is that of a message about a hold, and what is to be done next for it. Null: it is of
  // other requests.
  enum class HoldStep : uint8_t {
    settle,    // asks for a hold that was made
    reserve,   // settles the plan
    charge,    // the same, of a commit whose hold is unknown
    decided,   // nothing: the parts are settled
    answered,  // nothing: the call alone says what came of it
  };
  request::HoldCall* hold = nullptr;
  HoldStep hold_step = HoldStep::settle;
  std::vector<request::Ticket> tickets;         // by part; of requests that may wait
  uint32_t settled = 0;                         // groups of the plan that the store has answered
  size_t first = 0;                             // the request of the plan's first part
  size_t next = 0;                              // the part that is answered next
  request::Ticket ticket = request::no_ticket;  // the store's name for the batch

  base::Time now{};                               // the time of its decisions
  base::Time since{};                             // when its requests arrived
  std::chrono::steady_clock::time_point began{};  // for the debug line, if there is one
};

// The batches of one worker, found by their tickets.
class Batches {
 public:
  // Returns an empty batch, with a ticket that was never used before.
  Batch& open();
  // Makes the batch's ticket void and keeps the object for `open`.
  void close(Batch& batch);
  // The batch with that ticket; null: it was closed.
  Batch* find(request::Ticket ticket);
  size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    std::unique_ptr<Batch> batch;
    uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

class TableScanner;

// Decides what one worker's batches, late replies, lists and queries charge: it holds the live
// rules and the overrides that they are matched by, and the store that settles them. It makes no
// replies. Used by the worker's thread alone.
class Decider {
 public:
  // Its dependencies. All of them, and the worker's loop, outlive the decider.
  struct Deps {
    store::Store& store;
    base::Clock& clock;
    const live::Live& live;
    TableScanner* scanner = nullptr;               // null: lists are empty
    WorkerStats* stats = nullptr;                  // null: nothing is counted
    const policy::Overrides* overrides = nullptr;  // null: there are none
    request::Spaces* spaces = nullptr;  // null: requests cannot bring limits that replace a rule's
    store::HoldBook* holds = nullptr;   // null: there are no holds
    request::LimitShares shares = policy::inline_shares;  // of those that do
    TopKeys* top_keys = nullptr;                          // null: no top keys are kept
    DenialSampler* denials = nullptr;                     // null: no denial is logged
    std::function<void()> wake = [] {};                   // from any thread: call Engine::advance
    // From any thread: runs the function on the worker's thread.
    std::function<void(std::function<void()>)> run{};
  };
  Decider(Deps&& deps, std::shared_ptr<spdlog::logger> log);
  ~Decider();
  Decider(const Decider&) = delete;
  Decider& operator=(const Decider&) = delete;

  const Deps& deps() const { return deps_; }
  spdlog::logger& log() const { return *log_; }
  store::CompletionQueue& completions() { return completions_; }
  base::Time now() const { return deps_.clock.now(); }

  // Takes the live policy in place of the one it holds, and drops what lookups of overrides found.
  // True: the policy is a new one.
  bool take_policy();
  const std::shared_ptr<const live::LivePolicy>& policy() const { return policy_; }
  const policy::RuleSet& rules() const { return *rules_; }
  // Null: there are none.
  const policy::Overrides* overrides() const {
    return deps_.overrides != nullptr && deps_.overrides->size() > 0 ? deps_.overrides : nullptr;
  }
  // policy::Overrides::changes. Read it before a lookup: then the lookup finds overrides of that
  // state or of a newer one, never of an older one.
  uint64_t overrides_changes() const {
    return deps_.overrides == nullptr ? 0 : deps_.overrides->changes();
  }

  // The request on its way through the live rules, planned by its session if that plans; what is
  // planned lives until `forget_plannings`. `texts`: of the plan that it goes to.
  policy::Matching matching(protocol::Protocol protocol, request::Session& session,
                            const request::Request& request,
                            std::span<const request::Entry> descriptor,
                            std::span<const limit::Limit> limits, const ReplySink* sink,
                            base::Time now, base::Arena& texts);
  void forget_plannings() { plannings_.clear(); }
  // Of a request whose own limits replace a rule's: finds the number of these limits. False: such
  // limits are not allowed here, or there are too many different ones. True for other requests.
  bool number_limits(policy::Matching& matching, const ReplySink* sink) {
    return !matching.request.limits.replaces || find_inline(matching, sink);
  }
  // For requests that were found so last. Null: such limits are not allowed here.
  policy::InlineLimits* inline_limits() { return inline_limits_ ? &*inline_limits_ : nullptr; }

  // The batch that is filled next, under the live policy. Returns the same batch until `take_next`.
  Batch& next();
  // The batch of `next` is in use: the next call of `next` opens another one.
  void take_next() { next_ = nullptr; }
  Batches& batches() { return batches_; }
  // How many batches are open or suspended, without the one of `next`.
  size_t under_way() const { return batches_.size() - (next_ != nullptr ? 1 : 0); }

  // Has the store settle the groups of the batch's plan up to `groups`. The store stops after a
  // group that failed, as the caller may not need the groups after it; the next call continues
  // there. False: the store has no answer yet. `later` is set if it has none for the groups after
  // these either; the store must then not be called again for the batch before it has named the
  // batch's ticket.
  bool settle(Batch& batch, uint32_t groups, base::Time now, bool& later) {
    while (batch.settled < groups && !later) {
      auto all = batch.plan.batch();
      all.groups = all.groups.subspan(batch.settled);
      const store::Applied applied =
          deps_.store.apply(all, now, &completions_, batch.policy, batch.ticket);
      batch.settled += static_cast<uint32_t>(applied.settled);
      later = applied.later;
    }
    return batch.settled >= groups;
  }
  // The same for all groups of the plan.
  bool settle_all(Batch& batch, base::Time now) {
    bool later = false;
    const auto parts = batch.plan.parts();
    return parts.empty() || settle(batch, parts.back().groups_end, now, later);
  }

 private:
  bool find_inline(policy::Matching& matching, const ReplySink* sink);
  policy::Planning* planned(const policy::RuleSet::DialectRules& rules, request::Session& session,
                            const request::Request& request, base::Arena& texts);

  const Deps deps_;
  const std::shared_ptr<spdlog::logger> log_;
  std::optional<policy::Overrides::Reader> overrides_reader_;
  // Never the last reference: the reloader holds that, so that no worker spends time on freeing
  // rules.
  std::shared_ptr<const live::LivePolicy> policy_;
  const policy::RuleSet* rules_;  // of policy_
  store::CompletionQueue completions_;
  std::optional<policy::InlineLimits> inline_limits_;
  // Of one request, or of those that settle together.
  std::vector<policy::Planning> plannings_;
  Batches batches_;
  Batch* next_ = nullptr;
};

}  // namespace sluice::engine
