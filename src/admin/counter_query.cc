#include "admin/counter_query.h"

#include <algorithm>
#include <utility>

namespace sluice::admin {

using limit::Decision;
using limit::Limit;
using request::Verb;

namespace {

// The most units that a fresh counter has for one take.
int64_t most_of(std::span<const CounterLimit> limits) {
  int64_t most = INT64_MAX;
  for (const CounterLimit& one : limits)
    if (has_counter(one.limit.algorithm)) most = std::min(most, limit::units_max(one.limit));
  return most == INT64_MAX ? 0 : most;
}

}  // namespace

std::vector<Limit> limits_of(const request::Charge& charge, std::span<const Decision> decisions) {
  if (!charge.keeps_limits) return {charge.limits.begin(), charge.limits.end()};
  std::vector<Limit> limits;
  for (size_t i = 0; i < charge.space->windows.size(); ++i)
    if ((charge.slot_mask >> i & 1) != 0)
      limits.push_back({limit::Algorithm::token_bucket, decisions[limits.size()].limit,
                        charge.space->windows[i], decisions[limits.size()].limit});
  return limits;
}

CounterQuery::CounterQuery(std::shared_ptr<const live::LivePolicy> policy,
                           std::vector<CounterState> counters, Change change, int64_t used)
    : engine::AdminQuery(std::move(policy)),
      counters_(std::move(counters)),
      change_(change),
      used_(used) {}

bool CounterQuery::next(policy::Plan& plan, const engine::QueryContext& asking) {
  switch (stage_) {
    case Stage::begin:
      // What a fresh counter has is said by its limits: first these.
      if (change_ != Change::set) return plan_change(plan, asking);
      plan_looks(plan, asking);
      stage_ = Stage::limits_known;
      return true;
    case Stage::limits_known:
      read_looks(plan);
      if (counters_.front().moved || counters_.front().error != request::Error::none) return false;
      most_ = most_of(counters_.front().limits);
      too_much_ = used_ > most_;
      if (too_much_) return false;
      return plan_change(plan, asking);
    case Stage::looked:
      read_looks(plan);
      stage_ = Stage::asked;
      return plan_probes(plan, asking);
    case Stage::asked:
      read_probes(plan);
      break;
  }
  return false;
}

request::Charge& CounterQuery::ask(policy::Plan& plan, const CounterState& one,
                                   const engine::QueryContext& asking, Verb verb, int64_t cost,
                                   std::span<const Limit> limits) {
  const policy::Asked asked{.descriptor = {},
                            .verb = verb,
                            .cost = cost,
                            .limits = limits,
                            .now = asking.now,
                            .overrides = one.owner.overridden ? asking.overrides : nullptr};
  return plan.ask(*one.owner.rule, one.key, one.owner.actor, asked);
}

bool CounterQuery::plan_change(policy::Plan& plan, const engine::QueryContext& asking) {
  plan.clear();
  if (change_ != Change::none) {
    CounterState& one = counters_.front();
    const bool sets = change_ == Change::set;
    auto& charge = ask(plan, one, asking, sets ? Verb::take : Verb::put, sets ? used_ : 0);
    one.moved = charge.space != one.owner.space;
    if (one.moved) return false;
    charge.all = !sets;
    charge.refill = sets && charge.keeps_limits;
    charge.reset_first = sets && !charge.keeps_limits;
    changed_ = true;
  }
  plan_looks(plan, asking);
  stage_ = Stage::looked;
  return true;
}

void CounterQuery::plan_looks(policy::Plan& plan, const engine::QueryContext& asking) {
  for (const CounterState& one : counters_) ask(plan, one, asking, Verb::peek, 0);
}

void CounterQuery::read_looks(const policy::Plan& plan) {
  const auto parts = plan.parts();
  // The change that was asked for.
  const size_t before = parts.size() - counters_.size();
  for (const auto& part : parts.first(before)) {
    const request::Group& change = plan.group(plan.steps(part).front());
    counters_.front().error = change.error;
    denied_ = !change.allowed;
  }
  for (size_t i = 0; i < counters_.size(); ++i) {
    CounterState& one = counters_[i];
    const auto& step = plan.steps(parts[before + i]).front();
    if (one.error == request::Error::none) one.error = plan.group(step).error;
    if (one.error != request::Error::none) continue;
    const request::Charge& charge = plan.charge(step);
    one.moved |= charge.space != one.owner.space;
    one.override_id = step.override_id;
    one.keeps_limits = charge.keeps_limits;
    const auto decisions = plan.decisions(step);
    const auto limits = limits_of(charge, decisions);
    one.limits.clear();
    for (size_t j = 0; j < limits.size(); ++j) {
      const Decision& d = decisions[j];
      const bool allowed = has_counter(limits[j].algorithm) ? d.remaining >= 1 : d.allowed;
      one.limits.push_back({limits[j], allowed, d.remaining,
                            allowed ? base::Duration{} : base::never, d.reset_after});
    }
  }
}

// Only the answer to a take says how long to wait.
bool CounterQuery::plan_probes(policy::Plan& plan, const engine::QueryContext& asking) {
  plan.clear();
  in_probes_.reserve(counters_.size());
  for (size_t i = 0; i < counters_.size(); ++i) {
    const CounterState& one = counters_[i];
    if (std::all_of(one.limits.begin(), one.limits.end(), [](const auto& l) { return l.allowed; }))
      continue;
    auto& limits = in_probes_.emplace_back();
    if (one.keeps_limits)
      for (const CounterLimit& l : one.limits) limits.push_back(l.limit);
    // By the limits that it keeps, whatever an override puts in their place next time.
    engine::QueryContext as_kept{asking.now, asking.store,
                                 one.keeps_limits ? nullptr : asking.overrides};
    ask(plan, one, as_kept, Verb::would_take, 1, limits);
    probed_.push_back(i);
  }
  return !probed_.empty();
}

void CounterQuery::read_probes(const policy::Plan& plan) {
  for (size_t i = 0; i < probed_.size(); ++i) {
    CounterState& one = counters_[probed_[i]];
    const auto& step = plan.steps(plan.parts()[i]).front();
    one.error = plan.group(step).error;
    const auto decisions = plan.decisions(step);
    for (size_t j = 0; j < std::min(one.limits.size(), decisions.size()); ++j)
      if (!one.limits[j].allowed) one.limits[j].retry_after = decisions[j].retry_after;
  }
}

}  // namespace sluice::admin
