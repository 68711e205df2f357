// Makes a request's verdict from the decisions of its rules. Inline, as this runs for each request;
// the verdict's views point into the plan and the store's messages.
#pragma once

#include "policy/rule_set.h"
#include "request/session.h"
#include "store/store.h"

namespace sluice::engine {

// The verdict shows the tightest of several decisions. True: it is this one.
inline bool weigh(const limit::Decision& d, request::Verdict& verdict) {
  const bool tighter = verdict.tightest == nullptr || request::is_tighter(d, *verdict.tightest);
  if (tighter) verdict.tightest = &d;
  return tighter;
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
  verdict.decisions = plan.all_decisions();
  for (const auto& step : plan.steps(part)) {
    const auto& group = plan.group(step);
    const auto& charge = plan.charge(step);
    if (step.rule->is_planned && group.error == request::Error::none) [[unlikely]]
      verdict.planned = &charge;
    if (step.rule->mode != policy::Mode::enforce)
      continue;  // the failure of a shadow rule does not fail the request
    if (group.error != request::Error::none) {
      verdict.error = store.message_for(group.error);
      verdict.cause = group.error;
      return verdict;
    }
    if (!verdict.matched)
      verdict.charges = part.joint ? plan.joint_charges(part)
                                   // The charges of a group lie side by side.
                                   : request::ChargeList(&charge, group.charge_count);
    verdict.matched = true;
    verdict.allowed = group.allowed;
    const auto decisions = plan.decisions(step);
    for (size_t i = 0; i < decisions.size(); ++i) {
      if (!weigh(decisions[i], verdict)) continue;
      verdict.rule = step.rule->name;
      verdict.limit = charge.keeps_limits ? nullptr : &charge.limits[i];
      verdict.inline_limit = step.rule->limits_from == policy::LimitsFrom::request;
    }
  }
  return verdict;
}

// Makes the verdict that of a charge (request::is_tighter_of_charge). `cost`: the request's.
void report_charge(const policy::Plan& plan, const policy::Plan::RequestPlan& part, int64_t cost,
                   request::Verdict& verdict);

// Replaces the verdict of a take, wait or charge that no rule decided by the listener's setting
// `unmatched`. What the verdict reports of the protocol's own rules in shadow mode stays. The
// limits that it points to are static. A charge is allowed by `deny` too.
void answer_unmatched(request::Unmatched unmatched, request::Verb verb, request::Verdict& verdict);

inline bool is_unmatched(request::Verb verb, const request::Verdict& verdict) {
  return !verdict.matched && verdict.error.empty() && verdict.planned == nullptr &&
         request::facts_of(verb).asks_for_decision;
}

}  // namespace sluice::engine
