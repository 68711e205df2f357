// Which keys a worker decides and denies most often (metrics/top.h), and which it has denied
// (engine/denials.h). Written by the worker's thread alone; owned by it. What shadow rules say is
// counted apart; what a store could not decide is not counted. A request that begins to wait counts
// then, as allowed; if it is refused in the end, that is noted among the denials.
//
// A space is remembered for longer than it may be known, so by its id and serial, which stand for
// no other one ever.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "engine/denials.h"
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
    if (!request::asks_for_units(verb)) return;
    for (const auto& step : plan.steps(part)) {
      const request::Group& group = plan.group(step);
      if (group.answered || group.error != request::Error::none) continue;
      metrics::Top& top = step.rule->mode == policy::Mode::enforce ? top_ : shadow_;
      const request::Charge& charge = plan.charge(step);
      const bool denied = !group.parked && !has_allowed(plan, step);
      const uint64_t hash = hash_(charge.space->id, charge.key);
      const uint16_t name = WorkerStats::name_of(policy, *step.rule);
      top.count(now, hash, family_of(*charge.space), charge.key, name, denied, step.rule->id,
                actor_of(charge, step));
      if (denied) [[unlikely]]
        note(plan, step, hash, name, now);
    }
  }

  // The refusals of a request that begins to wait, which are noted if it is refused in the end.
  void note_waiting(const live::LivePolicy& policy, const policy::Plan& plan,
                    const policy::Plan::RequestPlan& part, base::Time now,
                    std::vector<Denial>& refused_by) const;
  void refused_late(std::span<const Denial> refused_by, base::Time now);

  const metrics::Top& top() const { return top_; }
  // What shadow rules said; their memory is not touched before one says anything.
  const metrics::Top& shadow() const { return shadow_; }
  Denials& denials() { return denials_; }

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
  // Without an address: it is the charge's key.
  static std::string_view actor_of(const request::Charge& charge,
                                   const policy::Plan::RuleMatch& step) {
    return step.actor.data() == charge.key.data() ? std::string_view() : step.actor;
  }
  static Refusal refusal_of(const policy::Plan& plan, const policy::Plan::RuleMatch& step,
                            size_t longest, uint64_t hash, uint16_t rule);
  void note(const policy::Plan& plan, const policy::Plan::RuleMatch& step, uint64_t hash,
            uint16_t rule, base::Time now);

  const base::Hash& hash_;
  metrics::Top top_, shadow_;
  Denials denials_;
};

}  // namespace sluice::engine
