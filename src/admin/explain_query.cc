#include "admin/explain_query.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "engine/verdict.h"
#include "policy/actor_name.h"

namespace sluice::admin {

ExplainQuery::ExplainQuery(std::shared_ptr<const live::LivePolicy> policy, ExplainedRequest request)
    : engine::AdminQuery(std::move(policy)), request_(std::move(request)) {
  for (const auto& [key, value] : request_.descriptor) entries_.push_back({key, value});
  if (request_.dialect != nullptr && request_.dialect->arrange != nullptr)
    request_.dialect->arrange(entries_);
}

policy::Asked ExplainQuery::asked() const {
  return {.descriptor = entries_,
          .verb = request::Verb::would_take,
          .cost = request_.cost,
          .limits = request_.limits,
          .now = now_};
}

bool ExplainQuery::next(policy::Plan& its_plan, const engine::QueryContext& asking) {
  if (std::exchange(asked_, true)) {
    read(its_plan, asking.store);
    return false;
  }
  now_ = asking.now;
  plan(its_plan, asking.overrides);
  return true;
}

void ExplainQuery::plan(policy::Plan& plan, const policy::Overrides* overrides) {
  policy::Asked its = asked();
  its.overrides = overrides;
  policy().rules->match(request_.dialect, its, plan);
  for (const auto& step : plan.steps(plan.parts().front())) {
    policy::Override::Terms terms;
    const bool has_one =
        step.override_id != 0 && overrides->find(step.rule->id, step.actor, now_, terms);
    own_.push_back(has_one && terms.id == step.override_id ? terms.own : policy::OwnLimits{0});
  }
  // Shadow rules take first, each by itself. One that shares a counter has taken by then.
  const request::Batch batch = plan.batch();
  const auto counter_of = [](const request::Charge& charge) {
    return std::tuple(charge.space, charge.key, charge.limits_id);
  };
  std::map<decltype(counter_of({})), uint8_t> takes;
  for (const request::Group& group : batch.groups) {
    const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
    for (request::Charge& charge : charges)
      if (const auto one = takes.find(counter_of(charge)); one != takes.end())
        charge.before = one->second;
    uint8_t& count = takes[counter_of(charges.front())];
    if (count < UINT8_MAX) ++count;
  }
}

void ExplainQuery::read(const policy::Plan& plan, const store::Store& store) {
  const auto& part = plan.parts().front();
  for (const auto& step : plan.steps(part)) {
    ExplainedStep& one = steps_.emplace_back();
    one.rule = step.rule;
    one.override_id = step.override_id;
    one.actor = policy::actor_name(step.actor, step.rule->actor);
    const request::Charge& charge = plan.charge(step);
    if (charge.keeps_limits || limit::is_counted(charge.limits))
      one.counter = charge.space->prefix + std::string(charge.key) + charge.space->suffix;
    const request::Group& group = plan.group(step);
    if (group.error != request::Error::none) {
      one.error = store.message_for(group.error);
      continue;
    }
    const auto decisions = plan.decisions(step);
    const auto limits = limits_of(charge, decisions);
    for (size_t i = 0; i < decisions.size(); ++i) {
      const limit::Decision& d = decisions[i];
      const auto own = own_[steps_.size() - 1];
      const bool of_rule = own != 0 && (own >> i & 1) == 0;
      one.decisions.push_back(
          {limits[i], d.allowed, d.remaining, d.retry_after, d.reset_after, of_rule});
    }
  }
  const request::Verdict verdict = engine::verdict_of(plan, part, store);
  verdict_.error = verdict.error;
  if (!verdict.error.empty() || !verdict.matched) return;
  verdict_.matched = true;
  verdict_.allowed = verdict.allowed;
  verdict_.retry_after = verdict.allowed ? base::Duration{} : base::never;
  verdict_.reset_after = {};
  if (verdict.tightest == nullptr) return;
  verdict_.remaining = verdict.tightest->remaining;
  verdict_.reset_after = verdict.tightest->reset_after;
  if (!verdict.allowed) verdict_.retry_after = verdict.tightest->retry_after;
}

}  // namespace sluice::admin
