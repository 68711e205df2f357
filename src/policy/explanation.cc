#include "policy/explanation.h"

#include <algorithm>
#include <utility>

#include "policy/actor_name.h"

namespace sluice::policy {

namespace {

// The stored name of the step's counter; empty: it has none.
std::string counter_of(const Plan& plan, const Plan::RuleMatch& step) {
  const request::Charge& charge = plan.charge(step);
  if (!charge.keeps_limits && !limit::is_counted(charge.limits)) return "";
  return charge.space->prefix + std::string(charge.key) + charge.space->suffix;
}

}  // namespace

namespace {

// Goes through the rules one by one. The charges are read from the same plan that a server would
// settle, so that the explanation agrees with the server.
class Explainer {
 public:
  Explainer(const Matching& asked, const Plan& plan,
            const std::function<void(RuleExplanation&&)>& visit)
      : asked_(asked), plan_(plan), steps_(plan.steps(plan.parts().front())), visit_(visit) {}

  // Returns the number of rules that are not reached.
  size_t each(std::span<const Rule> rules, bool native) {
    for (size_t i = 0; i < rules.size(); ++i) {
      if (ended_) return rules.size() - i;
      one(rules[i], native, step_of(rules[i]));
    }
    return 0;
  }
  // The rule that a session plans; it applies even after a rule that stops.
  void planned(std::span<const Rule> rules) {
    for (const Plan::RuleMatch& step : steps_)
      if (step.rule >= rules.data() && step.rule < rules.data() + rules.size())
        one(*step.rule, false, &step);
  }

 private:
  const Plan::RuleMatch* step_of(const Rule& rule) const {
    const auto step = std::find_if(steps_.begin(), steps_.end(),
                                   [&](const Plan::RuleMatch& its) { return its.rule == &rule; });
    return step == steps_.end() ? nullptr : &*step;
  }

  void one(const Rule& rule, bool native, const Plan::RuleMatch* step) {
    RuleExplanation e;
    e.rule = &rule;
    e.native = native;
    e.off = rule.mode == Mode::off;
    e.over = !e.off && asked_.now >= rule.until;
    const bool looked_at = !e.off && !e.over;
    if (looked_at) e.mismatch = mismatch(rule, asked_.descriptor, e.error);
    const bool fails = !e.error.empty();
    if (!fails && !e.mismatch) {
      for (const auto& actor : rule.actor) {
        auto& value = e.actor_values.emplace_back();
        for (const auto& [key, has] : asked_.descriptor)
          if (key == actor) value = has;
      }
    }
    if (looked_at && !fails && !e.mismatch) {
      if (step != nullptr) {
        e.actor = actor_name(step->actor, rule.actor);
        e.counter = counter_of(plan_, *step);
      }
      e.has_say = rule.mode == Mode::enforce;
      e.ends = e.has_say && rule.then == Then::stop;
    }
    ended_ = fails || e.ends;
    visit_(std::move(e));
  }

  const Matching& asked_;
  const Plan& plan_;
  const std::span<const Plan::RuleMatch> steps_;
  const std::function<void(RuleExplanation&&)>& visit_;
  bool ended_ = false;
};

}  // namespace

size_t explain_each(const RuleSet& rules, const Dialect* dialect, const Matching& asked,
                    const std::function<void(RuleExplanation&&)>& visit) {
  Plan plan;
  const auto others = rules.rules(dialect);
  const OwnRules* const own = rules.own_rules(dialect);
  rules.match(dialect, asked, plan);
  Explainer explainer(asked, plan, visit);
  const size_t unreached = explainer.each(rules.native_rules(), true);
  if (own == nullptr) return unreached + explainer.each(others, false);
  explainer.planned(others);
  return unreached;
}

Explanation explain(const RuleSet& rules, const Dialect* dialect, const Matching& asked) {
  Explanation explanation;
  explanation.unreached = explain_each(rules, dialect, asked, [&](RuleExplanation&& e) {
    explanation.reached.push_back(std::move(e));
  });
  if (const OwnRules* const own = rules.own_rules(dialect))
    explanation.note = own->why_none(asked.descriptor);
  return explanation;
}

}  // namespace sluice::policy
