// What a request is answered from the decisions of its rules. Inline, as the engine does it for
// each; views into the plan and the store's words.
#pragma once

#include <algorithm>

#include "policy/rule_set.h"
#include "store/store.h"
#include "wire/session.h"

namespace sluice::server {

// Of several decisions the tightest is shown: the refusal with the longest wait, else the least
// left.
inline void weigh(const limit::Decision& d, bool counted, wire::Verdict& verdict) {
  const limit::Decision* t = verdict.tightest;
  const bool tighter = t == nullptr || (d.allowed != t->allowed ? !d.allowed
                                        : d.allowed             ? d.remaining < t->remaining
                                                                : d.retry_after > t->retry_after);
  if (tighter) {
    verdict.tightest = &d;
    verdict.counted = counted;
  }
  verdict.more_after = std::max(verdict.more_after, d.reset_after);
}

inline wire::Verdict verdict_of(const policy::Plan& plan, const policy::Plan::Part& part,
                                const store::Store& store) {
  wire::Verdict verdict;
  verdict.error = part.error;
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;  // a shadow rule's failure harms nobody
    const auto& group = plan.group(step);
    if (group.error != limit::Error::none) {
      verdict.error = store.words_of(group.error);
      return verdict;
    }
    verdict.matched = true;
    verdict.allowed = group.allowed;
    const auto& charge = plan.charge(step);
    const auto decisions = plan.decisions(step);
    if (charge.keeps_limits) {
      verdict.slots = decisions;
      verdict.slot_mask = charge.slot_mask;
    }
    for (size_t i = 0; i < decisions.size(); ++i)
      weigh(decisions[i], charge.keeps_limits || has_counter(charge.limits[i].algorithm), verdict);
  }
  if (verdict.tightest != nullptr && !verdict.allowed)
    verdict.more_after = verdict.tightest->retry_after;
  return verdict;
}

}  // namespace sluice::server
