// Makes a request's verdict from the decisions of its rules. Inline, as this runs for each request;
// the verdict's views point into the plan and the store's messages.
#pragma once

#include "policy/rule_set.h"
#include "request/session.h"
#include "store/store.h"

namespace sluice::engine {

// The verdict shows the tightest of several decisions, with its own times: the refusal with the
// longest wait; without a refusal the one with the least units left, and of equal ones the one that
// takes longest to be full again.
inline void weigh(const limit::Decision& d, bool counted, request::Verdict& verdict,
                  request::KeyEncoding encoding = request::KeyEncoding::own) {
  const limit::Decision* t = verdict.tightest;
  const bool tighter =
      t == nullptr || (d.allowed != t->allowed       ? !d.allowed
                       : !d.allowed                  ? d.retry_after > t->retry_after
                       : d.remaining != t->remaining ? d.remaining < t->remaining
                                                     : d.reset_after > t->reset_after);
  if (!tighter) return;
  verdict.tightest = &d;
  verdict.counted = counted;
  verdict.encoding = encoding;
  verdict.more_after = d.allowed ? d.reset_after : d.retry_after;
}

// Does the request ask for more than one of its limits can ever allow?
inline bool never_fits(const policy::Plan& plan, const policy::Plan::RequestPlan& part) {
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    for (const limit::Decision& decision : plan.decisions(step))
      if (!decision.allowed && decision.retry_after == base::never &&
          plan.charge(step).cost > decision.limit)
        return true;
  }
  return false;
}

inline request::Verdict verdict_of(const policy::Plan& plan, const policy::Plan::RequestPlan& part,
                                   const store::Store& store) {
  request::Verdict verdict;
  verdict.error = part.error;
  for (const auto& step : plan.steps(part)) {
    const auto& group = plan.group(step);
    if (step.rule->is_planned && group.error == request::Error::none) [[unlikely]] {
      verdict.planned = &plan.charge(step);
      verdict.planned_decisions = plan.decisions(step);
    }
    if (step.rule->mode != policy::Mode::enforce)
      continue;  // the failure of a shadow rule does not fail the request
    if (group.error != request::Error::none) {
      verdict.error = store.message_for(group.error);
      verdict.cause = group.error;
      return verdict;
    }
    verdict.matched = true;
    verdict.allowed = group.allowed;
    const auto& charge = plan.charge(step);
    const auto decisions = plan.decisions(step);
    if (verdict.decisions == nullptr)
      verdict.charges = part.joint ? plan.joint_charges(part)
                                   // The charges of a group lie side by side.
                                   : request::ChargeList(&charge, group.charge_count);
    verdict.decisions = decisions.data() - charge.decision_first;
    if (charge.keeps_limits) {
      verdict.slots = decisions;
      verdict.slot_mask = charge.slot_mask;
    }
    for (size_t i = 0; i < decisions.size(); ++i) {
      weigh(decisions[i], charge.keeps_limits || has_counter(charge.limits[i].algorithm), verdict,
            charge.space->encoding);
      if (verdict.tightest != &decisions[i]) continue;
      verdict.rule = step.rule->name;
      verdict.limit = charge.keeps_limits ? nullptr : &charge.limits[i];
      verdict.inline_limit = step.rule->limits_from == policy::LimitsFrom::request;
    }
  }
  if (verdict.tightest != nullptr && !verdict.allowed)
    verdict.more_after = verdict.tightest->retry_after;
  return verdict;
}

// The verdict of a charge shows the limit that takes longest until it grants one unit and, of equal
// ones, has the least left. `cost`: the request's.
void report_charge(const policy::Plan& plan, const policy::Plan::RequestPlan& part, int64_t cost,
                   request::Verdict& verdict);

// Replaces the verdict of a take, wait or charge that no rule decided by the listener's setting
// `unmatched`. What the verdict reports of the protocol's own rules in shadow mode stays. The
// limits that it points to are static. A charge is allowed by `deny` too.
void answer_unmatched(request::Unmatched unmatched, request::Verb verb, request::Verdict& verdict);

inline bool is_unmatched(request::Verb verb, const request::Verdict& verdict) {
  return !verdict.matched && verdict.error.empty() && verdict.planned == nullptr &&
         (verb == request::Verb::take || verb == request::Verb::wait ||
          verb == request::Verb::charge);
}

}  // namespace sluice::engine
