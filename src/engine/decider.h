// What batches, late replies, lists and queries of one worker have in common: the live rules that
// they are matched by, the overrides, and the store that settles them. No replies here. Used by the
// worker's thread alone.
#pragma once

#include <spdlog/logger.h>

#include <functional>
#include <memory>
#include <optional>

#include "access/access.h"
#include "base/clock.h"
#include "engine/batch.h"
#include "engine/denial_sampler.h"
#include "engine/top_keys.h"
#include "engine/worker_stats.h"
#include "live/live_policy.h"
#include "policy/inline_limits.h"
#include "policy/overrides.h"
#include "store/store.h"

namespace sluice::engine {

class TableScanner;

class Decider {
 public:
  // What it works with; all of it outlives the decider, and its worker's loop does too.
  struct Deps {
    store::Store& store;
    base::Clock& clock;
    const live::Live& live;
    TableScanner* scanner = nullptr;               // null: lists are empty
    WorkerStats* stats = nullptr;                  // null: nothing is counted
    const policy::Overrides* overrides = nullptr;  // null: there are none
    request::Spaces* spaces = nullptr;  // null: requests bring no limits along in place of a rule's
    // Collects the algorithms of limits that requests bring along; null: they are not collected.
    policy::InlineLists* inline_lists = nullptr;
    access::Access* access = nullptr;    // null: requests cannot log in
    TopKeys* top_keys = nullptr;         // null: no top keys are kept
    DenialSampler* denials = nullptr;    // null: no denial is logged
    std::function<void()> wake = [] {};  // from any thread: call Engine::advance
    // From any thread: call that on the worker's own.
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

  // Lets go of a policy that is no longer live, and of what was found among the overrides. True:
  // there was a new policy.
  bool take_policy();
  const std::shared_ptr<const live::LivePolicy>& policy() const { return policy_; }
  const policy::RuleSet& rules() const { return *rules_; }
  // Null: there are none.
  const policy::Overrides* overrides() const {
    return deps_.overrides != nullptr && deps_.overrides->size() > 0 ? deps_.overrides : nullptr;
  }
  // policy::Overrides::changes. Read before a lookup: what is found may then be newer, never
  // older.
  uint64_t overrides_changes() const {
    return deps_.overrides == nullptr ? 0 : deps_.overrides->changes();
  }

  // Of a request that brings limits along in place of a rule's (Request::limits_inline): the space
  // and the number of these. False: there are too many of them, or may be none.
  bool find_inline(policy::Asked& asked);

  // The batch that is filled next, under the live policy; the same one until it is taken.
  Batch& next();
  // The next one is another one.
  void take_next() { next_ = nullptr; }
  Batches& batches() { return batches_; }
  // Batches that were opened and not closed, but the next one.
  size_t under_way() const { return batches_.size() - (next_ != nullptr ? 1 : 0); }

  // Has the store settle the groups of the batch's plan up to `groups`. The store stops behind a
  // group that failed, in case nothing more is needed: asked again, it goes on. False: it has no
  // answer yet. `later`: nor has it for what is behind; it is not asked again before it has named
  // the batch's ticket.
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
  // The same for all that is planned.
  bool settle_all(Batch& batch, base::Time now) {
    bool later = false;
    const auto parts = batch.plan.parts();
    return parts.empty() || settle(batch, parts.back().groups_end, now, later);
  }

 private:
  const Deps deps_;
  const std::shared_ptr<spdlog::logger> log_;
  std::optional<policy::Overrides::Reader> overrides_reader_;
  // Never the last to hold it: the reloader is, so that no worker spends its time on freeing rules.
  std::shared_ptr<const live::LivePolicy> policy_;
  const policy::RuleSet* rules_;  // of policy_
  store::CompletionQueue completions_;
  std::optional<policy::InlineLimits> inline_limits_;
  Batches batches_;
  Batch* next_ = nullptr;
};

}  // namespace sluice::engine
