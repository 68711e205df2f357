// What a request is answered from the decisions of its rules. Inline, as the engine does it for
// each; views into the plan and the store's words.
#pragma once

#include "policy/rule_set.h"
#include "request/session.h"
#include "request/unmatched.h"
#include "store/store.h"

namespace sluice::engine {

// Of several decisions the tightest is shown, with its own time: the refusal with the longest wait,
// else the least left, and of those the one that takes longest to be as fresh.
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

// Is more asked than one of the limits allows, ever?
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
    if (step.rule->data != nullptr) [[unlikely]] {
      verdict.own = step.rule->data;
      if (group.error == request::Error::none) {
        verdict.own_charge = &plan.charge(step);
        verdict.own_decisions = plan.decisions(step);
      }
    }
    if (step.rule->mode != policy::Mode::enforce)
      continue;  // a shadow rule's failure harms no request
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

// In place of a verdict that no rule decides: what the listener says of such takes and waits.
// What is reported of a rule of the protocol's own in shadow stays. The limits live for ever.
void answer_unmatched(request::Unmatched unmatched, request::Verdict& verdict);

inline bool is_unmatched(request::Verb verb, const request::Verdict& verdict) {
  return !verdict.matched && verdict.error.empty() && verdict.own_charge == nullptr &&
         (verb == request::Verb::take || verb == request::Verb::wait);
}

}  // namespace sluice::engine
