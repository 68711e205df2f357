#include "engine/hold_plan.h"

#include <algorithm>
#include <utility>

#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::engine {

HoldPlan::HoldPlan(policy::Plan& plan, std::span<const request::Request> requests,
                   const std::optional<request::HoldTerms>& door)
    : terms(door.value_or(request::HoldTerms())), any(door.has_value()) {
  const request::HoldTerms of_door = terms;
  const request::Batch batch = plan.batch();
  shares.resize(batch.charges.size());
  for (size_t subject = 0; subject < plan.parts().size(); ++subject) {
    int64_t& its = units.emplace_back(std::max<int64_t>(requests[subject].cost, 0));
    for (const auto& step : plan.steps(plan.parts()[subject])) {
      store::HoldBook::Share& share = shares[step.charge];
      share.subjects |= uint64_t{1} << subject;
      share.rule = step.rule->name;
      if (step.rule->mode != policy::Mode::enforce) continue;
      if (std::exchange(any, true))
        terms.join(step.rule->reserve);
      else
        terms = step.rule->reserve;
      for (const limit::Limit& limit : plan.charge(step).limits) {
        if (limit::has_places(limit)) {
          has_places = true;
          lease = std::min(lease, limit.window);
          lease_max = std::min(lease_max, base::Duration{limit.burst});
        } else if (limit::has_counter(limit.algorithm)) {
          its = std::min({its, step.rule->reserve.most_of(limit::units_max(limit)),
                          of_door.most_of(limit::units_max(limit))});
        }
      }
    }
  }
  is_mixed = std::ranges::any_of(batch.charges,
                                 [](const request::Charge& one) { return one.costs != nullptr; });
}

void HoldPlan::lease_places(request::HoldCall& call) {
  if (!has_places) return;
  if (!call.is_place) {
    terms.ttl_max = std::min(terms.ttl_max, lease_max);
    return;
  }
  // An ended place is never revived.
  terms = {.ttl_max = lease_max, .ignores_late = true};
  if (call.ttl.us == 0) call.ttl = lease;
}

void HoldPlan::set_costs(const request::Batch& batch) const {
  for (size_t i = 0; i < shares.size(); ++i) {
    int64_t cost = 0;
    for (size_t subject = 0; subject < units.size(); ++subject)
      if ((shares[i].subjects >> subject & 1) != 0) cost += units[subject];
    batch.charges[i].cost = cost;
  }
}

}  // namespace sluice::engine
