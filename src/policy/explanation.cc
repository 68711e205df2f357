#include "policy/explanation.h"

#include <algorithm>
#include <utility>

namespace sluice::policy {

namespace {

// Its stored name, if it has a counter.
std::string counter_of(const Plan& plan, const Plan::Step& step) {
  const request::Charge& charge = plan.charge(step);
  if (!charge.keeps_limits && !limit::is_counted(charge.limits)) return "";
  return charge.space->prefix + std::string(charge.key) + charge.space->suffix;
}

}  // namespace

size_t explain_each(const RuleSet& rules, const Dialect* dialect, const Asked& asked,
                    const std::function<void(RuleExplanation&&)>& visit) {
  // What is charged is read from the plan that a server would settle, so that both agree.
  Plan plan;
  rules.match(dialect, asked, plan);
  const auto steps = plan.steps(plan.parts().front());

  const auto native = rules.native_rules(), others = rules.rules(dialect);
  const size_t all = native.size() + others.size();
  for (size_t i = 0; i < all; ++i) {
    const Rule& rule = i < native.size() ? native[i] : others[i - native.size()];
    RuleExplanation e;
    e.rule = &rule;
    e.native = i < native.size();
    e.off = rule.mode == Mode::off;
    e.over = !e.off && asked.now >= rule.until;
    const bool looked_at = !e.off && !e.over;
    if (looked_at) e.mismatch = mismatch(rule, asked.descriptor, e.error);
    const bool fails = !e.error.empty();
    if (!fails && !e.mismatch) {
      for (const auto& actor : rule.actor) {
        auto& value = e.actor_values.emplace_back();
        for (const auto& [key, has] : asked.descriptor)
          if (key == actor) value = has;
      }
    }
    if (looked_at && !fails && !e.mismatch) {
      const auto step = std::find_if(steps.begin(), steps.end(),
                                     [&](const Plan::Step& one) { return one.rule == &rule; });
      if (step != steps.end()) e.counter = counter_of(plan, *step);
      e.has_say = rule.mode == Mode::enforce;
      e.ends = e.has_say && rule.then == Then::stop;
    }
    const bool last = fails || e.ends;
    visit(std::move(e));
    if (last) return all - i - 1;
  }
  return 0;
}

Explanation explain(const RuleSet& rules, const Dialect* dialect, const Asked& asked) {
  Explanation explanation;
  explanation.unreached = explain_each(rules, dialect, asked, [&](RuleExplanation&& e) {
    explanation.reached.push_back(std::move(e));
  });
  return explanation;
}

}  // namespace sluice::policy
