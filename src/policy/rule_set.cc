#include "policy/rule_set.h"

#include <utility>

#include "policy/text.h"

namespace sluice::policy {

namespace {

using Descriptor = std::span<const limit::Entry>;

// The last entry of that key counts.
const limit::Entry* find(Descriptor descriptor, std::string_view key) {
  for (size_t i = descriptor.size(); i-- > 0;) {
    if (same(descriptor[i].key, key)) return &descriptor[i];
  }
  return nullptr;
}

enum class Fit { yes, no, impossible };

Fit fit(const Condition& condition, Descriptor descriptor) {
  if (condition.pattern.impossible()) return Fit::impossible;
  const limit::Entry* entry = find(descriptor, condition.key);
  const bool fits = entry ? condition.pattern.matches(entry->value) : condition.pattern.matches({});
  return fits ? Fit::yes : Fit::no;
}

Fit fit(const Rule& rule, Descriptor descriptor, std::string_view& error) {
  for (const Condition& condition : rule.conditions) {
    const Fit result = fit(condition, descriptor);
    if (result == Fit::impossible) error = condition.pattern.error();
    if (result != Fit::yes) return result;
  }
  return Fit::yes;
}

}  // namespace

void Plan::clear() {
  parts_.clear();
  steps_.clear();
  groups_.clear();
  charges_.clear();
  decisions_.clear();
}

std::span<const limit::Decision> Plan::decisions(const Step& step) const {
  const limit::Group& its = groups_[step.group];
  if (its.charge_count == 0) return {};
  const limit::Charge& first = charges_[its.charge_first];
  const limit::Charge& last = charges_[its.charge_first + its.charge_count - 1];
  const size_t end = last.decision_first + last.limits.size();
  return std::span(decisions_).subspan(first.decision_first, end - first.decision_first);
}

void RuleSet::add(Dialect, Rule rule) {
  rule.counted_as_shadow |= rule.mode == Mode::shadow;
  divvy_index_.add(rule.conditions);
  divvy_.push_back(std::move(rule));
}

std::span<const Rule> RuleSet::rules(Dialect) const {
  return divvy_;
}

// Calls `visit(rule)` in order for the rules that may apply, until it returns false.
template <class Visit>
void RuleSet::candidates(Descriptor descriptor, Visit&& visit) const {
  if (divvy_.size() > unindexed_max) {
    divvy_index_.candidates(descriptor, [&](uint32_t number) { return visit(divvy_[number]); });
    return;
  }
  for (const Rule& rule : divvy_) {
    if (!visit(rule)) return;
  }
}

void RuleSet::match(Dialect, Descriptor descriptor, int64_t cost, Plan& plan) const {
  Plan::Part& part = plan.parts_.emplace_back();
  part.step_first = static_cast<uint32_t>(plan.steps_.size());
  candidates(descriptor, [&](const Rule& rule) {
    const Fit result = fit(rule, descriptor, part.error);
    if (result == Fit::no) return true;
    if (result == Fit::impossible) return false;
    std::string_view actor = "";
    if (!rule.actor.empty()) {
      if (const limit::Entry* entry = find(descriptor, rule.actor)) actor = entry->value;
    }
    plan.steps_.push_back({&rule, static_cast<uint32_t>(plan.groups_.size())});
    plan.groups_.push_back(
        {.charge_first = static_cast<uint32_t>(plan.charges_.size()), .charge_count = 1});
    plan.charges_.push_back({.space = rule.space,
                             .key = actor,
                             .cost = cost,
                             .limits = std::span(&rule.limit, 1),
                             .decision_first = static_cast<uint32_t>(plan.decisions_.size())});
    plan.decisions_.emplace_back();
    ++part.step_count;
    return rule.mode != Mode::enforce;
  });
}

const Rule* RuleSet::decider(Dialect, Descriptor descriptor, std::string_view& error) const {
  error = {};
  const Rule* found = nullptr;
  candidates(descriptor, [&](const Rule& rule) {
    const Fit result = fit(rule, descriptor, error);
    if (result == Fit::yes && rule.mode == Mode::enforce) found = &rule;
    return result != Fit::impossible && found == nullptr;
  });
  return found;
}

std::optional<Mismatch> mismatch(const Rule& rule, Descriptor descriptor, std::string_view& error) {
  error = {};
  for (const Condition& condition : rule.conditions) {
    const Fit result = fit(condition, descriptor);
    if (result == Fit::yes) continue;
    if (result == Fit::impossible) error = condition.pattern.error();
    Mismatch found{&condition, std::nullopt};
    if (const limit::Entry* entry = find(descriptor, condition.key)) found.value = entry->value;
    return found;
  }
  return std::nullopt;
}

}  // namespace sluice::policy
