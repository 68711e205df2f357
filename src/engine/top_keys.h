// Which keys a worker decides and denies most often (metrics/top.h). Written by the worker's thread
// alone; owned by it. Shadow rules limit nobody, so what they say is not counted; nor is what a
// store could not decide. A request that begins to wait counts then, as allowed.
#pragma once

#include "base/hash.h"
#include "base/time.h"
#include "engine/tally.h"
#include "live/live_policy.h"
#include "metrics/top.h"
#include "policy/rule_set.h"
#include "request/charge.h"

namespace sluice::engine {

class TopKeys {
 public:
  // The same for all workers, so that a key is one key; outlives this.
  explicit TopKeys(const base::Hash& hash) : hash_(hash) {}

  void decided(base::Time now, const live::LivePolicy& policy, const policy::Plan& plan,
               const policy::Plan::Part& part, request::Verb verb) {
    if (verb != request::Verb::take && verb != request::Verb::wait) return;
    for (const auto& step : plan.steps(part)) {
      const request::Group& group = plan.group(step);
      if (step.rule->mode != policy::Mode::enforce || group.answered ||
          group.error != request::Error::none)
        continue;
      const request::Charge& charge = plan.charge(step);
      const bool denied = !group.parked && !has_allowed(plan, step);
      top_.count(now, hash_(charge.space->id, charge.key), charge.space, charge.key,
                 Tally::name_of(policy, *step.rule), denied);
    }
  }

  const metrics::Top& top() const { return top_; }

 private:
  const base::Hash& hash_;
  metrics::Top top_;
};

}  // namespace sluice::engine
