#include "engine/verdict.h"

#include <algorithm>

#include "base/bounds.h"
#include "limit/decide.h"

namespace sluice::engine {

void report_charge(const policy::Plan& plan, const policy::Plan::RequestPlan& part, int64_t cost,
                   request::Verdict& verdict) {
  if (!verdict.error.empty()) return;
  verdict.allowed = verdict.matched;
  const limit::Decision* shown = nullptr;
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    request::Charged& charged = verdict.charged;
    charged.known = std::max(charged.known, plan.group(step).known);
    if (charged.known == request::Known::other_content) {  // the decisions are void
      verdict.allowed = false;
      verdict.tightest = nullptr;
      return;
    }
    const request::Charge& charge = plan.charge(step);
    const auto decisions = plan.decisions(step);
    const bool is_counted = charge.keeps_limits || limit::is_counted(charge.limits);
    if (is_counted) {
      const int64_t units = std::max<int64_t>(0, cost - charge.dropped);
      charged.units = std::min(charged.units.value_or(units), units);
    }
    for (size_t i = 0; i < decisions.size(); ++i) {
      const limit::Decision& d = decisions[i];
      charged.over |= d.remaining < 0;
      if (shown != nullptr && !request::is_tighter_of_charge(d, *shown)) continue;
      shown = &d;
      verdict.rule = step.rule->name;
      verdict.limit = charge.keeps_limits ? nullptr : &charge.limits[i];
      verdict.inline_limit = step.rule->limits_from == policy::LimitsFrom::request;
    }
  }
  if (shown != nullptr) verdict.tightest = shown;
}

void answer_unmatched(request::Unmatched unmatched, request::Verb verb, request::Verdict& verdict) {
  using limit::Algorithm;
  using request::Unmatched;
  // As the native rules `unlimited: true` and `deny: true` have them.
  static const limit::Limit always{Algorithm::unlimited, base::bounds::quota_max, {}};
  static const limit::Limit never{Algorithm::deny, 0, {}};
  static const limit::Decision allowed = limit::decide(nullptr, always, 1, {}, nullptr);
  static const limit::Decision denied = limit::decide(nullptr, never, 1, {}, nullptr);
  if (unmatched == Unmatched::as_protocol) return;
  if (unmatched == Unmatched::error) {
    verdict.error = request::no_rule_applies;
    return;
  }
  const bool allows = unmatched == Unmatched::allow;
  verdict.matched = true;
  verdict.allowed = allows || verb == request::Verb::charge;
  verdict.tightest = allows ? &allowed : &denied;
  verdict.limit = allows ? &always : &never;
}

}  // namespace sluice::engine
