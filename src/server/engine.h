// Requests to replies: rules, charges, decisions, verdicts. One per worker, used by its thread
// alone; what it needs for a batch is kept and reused, so that a settled server allocates nothing
// here.
#pragma once

#include <spdlog/logger.h>

#include <memory>

#include "base/buffer.h"
#include "base/clock.h"
#include "policy/rule_set.h"
#include "server/live_policy.h"
#include "server/options.h"
#include "store/store.h"
#include "wire/session.h"

namespace sluice::server {

class Engine {
 public:
  // `store`, `clock` and `live` outlive the engine.
  Engine(store::Store& store, base::Clock& clock, const Live& live,
         std::shared_ptr<spdlog::logger> log);

  // Decides the requests in order and appends their replies. False: the session ends with what was
  // appended, and requests behind it were neither charged nor answered.
  bool serve(Protocol protocol, wire::Session& session, const wire::Requests& requests,
             base::Buffer& out);

  // Lets go of a policy that is no longer live; each batch begins so. True: there was a new one.
  bool take_policy();

 private:
  void settle(uint32_t groups, base::Time now);
  wire::Verdict verdict_of(const policy::Plan::Part& part) const;
  void tell(Protocol protocol, std::span<const limit::Entry> descriptor,
            const policy::Plan::Part& part) const;

  store::Store& store_;
  base::Clock& clock_;
  const Live& live_;
  // Never the last to hold it: the reloader is, so that no worker spends its time on freeing rules.
  std::shared_ptr<const LivePolicy> policy_;
  const policy::RuleSet* rules_;  // of policy_
  const std::shared_ptr<spdlog::logger> log_;
  policy::Plan plan_;
  uint32_t settled_ = 0;  // groups of plan_ that the store has answered
};

}  // namespace sluice::server
