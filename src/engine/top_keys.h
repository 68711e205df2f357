// Which keys a worker decides and denies most often (metrics/top.h). Written by the worker's thread
// alone; owned by it. What shadow rules say is counted apart; what a store could not decide is not
// counted. A request that begins to wait counts then, as allowed.
//
// A space is remembered for longer than it may be known, so by its id and serial, which stand for
// no other one ever.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/time.h"
#include "engine/worker_stats.h"
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
               const policy::Plan::RequestPlan& part, request::Verb verb) {
    if (verb != request::Verb::take && verb != request::Verb::wait) return;
    for (const auto& step : plan.steps(part)) {
      const request::Group& group = plan.group(step);
      if (group.answered || group.error != request::Error::none) continue;
      metrics::Top& top = step.rule->mode == policy::Mode::enforce ? top_ : shadow_;
      const request::Charge& charge = plan.charge(step);
      const bool denied = !group.parked && !has_allowed(plan, step);
      const bool is_key = step.actor.data() == charge.key.data();
      top.count(now, hash_(charge.space->id, charge.key), family_of(*charge.space), charge.key,
                WorkerStats::name_of(policy, *step.rule), denied, step.rule->id,
                is_key ? std::string_view() : step.actor);
    }
  }

  const metrics::Top& top() const { return top_; }
  // What shadow rules said; their memory is not touched before one says anything.
  const metrics::Top& shadow() const { return shadow_; }

  // What a space is called there, and the id and serial again.
  static const void* family_of(const request::Space& space) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): not an address, only compared
    return reinterpret_cast<const void*>(uintptr_t{space.serial} << 32 | space.id);
  }
  static std::pair<uint32_t, uint32_t> id_and_serial(const void* family) {
    const auto both = reinterpret_cast<uintptr_t>(family);
    return {static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
  }

 private:
  const base::Hash& hash_;
  metrics::Top top_, shadow_;
};

}  // namespace sluice::engine
