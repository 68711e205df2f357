#include "engine/top_keys.h"

namespace sluice::engine {
namespace {

// The limit of one of a charge's decisions. Limits that come with requests and are kept in the
// counter have the windows of the space that the store decided.
limit::Limit limit_of(const request::Charge& charge, const limit::Decision& decision, size_t at) {
  if (!charge.keeps_limits) return charge.limits[at];
  limit::Limit limit{limit::Algorithm::token_bucket, decision.limit, {}, decision.limit};
  for (size_t window = 0; window < charge.space->windows.size(); ++window)
    if ((charge.slot_mask >> window & 1) != 0 && at-- == 0)
      limit.window = charge.space->windows[window];
  return limit;
}

// The decision that refuses longest; there is one.
size_t longest_of(std::span<const limit::Decision> decisions) {
  size_t longest = decisions.size();
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i].allowed) continue;
    if (longest == decisions.size() || decisions[i].retry_after > decisions[longest].retry_after)
      longest = i;
  }
  return longest;
}

}  // namespace

Refusal TopKeys::refusal_of(const policy::Plan& plan, const policy::Plan::RuleMatch& step,
                            size_t longest, uint64_t hash, uint16_t rule) {
  const request::Charge& charge = plan.charge(step);
  const auto decisions = plan.decisions(step);
  Refusal refusal{.hash = hash,
                  .family = family_of(*charge.space),
                  .key = charge.key,
                  .actor = actor_of(charge, step),
                  .rule_id = step.rule->id,
                  .rule = rule,
                  .shadow = step.rule->mode != policy::Mode::enforce,
                  .limit = {}};
  if (longest < decisions.size()) refusal.limit = limit_of(charge, decisions[longest], longest);
  return refusal;
}

void TopKeys::note(const policy::Plan& plan, const policy::Plan::RuleMatch& step, uint64_t hash,
                   uint16_t rule, base::Time now) {
  const request::Charge& charge = plan.charge(step);
  const auto decisions = plan.decisions(step);
  const size_t longest = longest_of(decisions);
  // Limits that are kept in the counter have no number.
  uint64_t limit = uint64_t{charge.limits_id} << 8 | longest;
  if (charge.keeps_limits && longest < decisions.size())
    limit ^= static_cast<uint64_t>(decisions[longest].limit) << 8;
  const uint32_t kind = DenialTable::kind_of(rule, step.rule->mode != policy::Mode::enforce);
  const uint64_t mark = hash ^ (limit << 20 ^ kind) * 0x9E3779B97F4A7C15u;
  denials_.table().add(mark, kind, now,
                       [&] { return refusal_of(plan, step, longest, hash, rule); });
}

void TopKeys::note_waiting(const live::LivePolicy& policy, const policy::Plan& plan,
                           const policy::Plan::RequestPlan& part, base::Time now,
                           std::vector<Denial>& refused_by) const {
  refused_by.clear();
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce || has_allowed(plan, step)) continue;
    const request::Charge& charge = plan.charge(step);
    const Refusal refusal =
        refusal_of(plan, step, longest_of(plan.decisions(step)),
                   hash_(charge.space->id, charge.key), WorkerStats::name_of(policy, *step.rule));
    refused_by.emplace_back().begin(refusal, now);
  }
}

void TopKeys::refused_late(std::span<const Denial> refused_by, base::Time now) {
  for (const Denial& one : refused_by) denials_.add(one.refusal(), now);
}

}  // namespace sluice::engine
