// Rules, limits in code and overrides: what a limiter's decisions go by, and how it is exchanged.
#include <algorithm>
#include <array>
#include <new>
#include <span>

#include "base/bounds.h"
#include "base/diagnostic.h"
#include "embed/core.h"
#include "embed/waits.h"
#include "limit/decide.h"
#include "policy/actor_name.h"
#include "policy/dialect.h"
#include "policy/read/native.h"
#include "policy/read/native_review.h"

namespace sluice::detail {

using embed::failed;
using embed::internal;

namespace {

constexpr size_t name_bytes_max = 255;

// The public numbers are those of the ABI, the internal ones may change.
std::optional<limit::Algorithm> internal_of(algorithm which) {
  switch (which) {
    case algorithm::token_bucket:
      return limit::Algorithm::token_bucket;
    case algorithm::fixed_window:
      return limit::Algorithm::fixed_window;
    case algorithm::aligned_window:
      return limit::Algorithm::aligned_window;
    case algorithm::sliding_window:
      return limit::Algorithm::sliding_window;
    case algorithm::sliding_log:
      return limit::Algorithm::sliding_log;
    case algorithm::fixed_bucket:
      return limit::Algorithm::fixed_bucket;
  }
  return std::nullopt;
}

std::string where(size_t i) {
  return "limits[" + std::to_string(i) + "]: ";
}

// What is wrong with it; empty: nothing.
std::string problem_of(const limit_spec& one) {
  if (!internal_of(one.algorithm)) return "unknown algorithm";
  if (one.quota < 1 || one.quota > quota_max)
    return "quota must be 1 to " + std::to_string(quota_max);
  if (one.algorithm == algorithm::fixed_bucket) {
    if (one.window.count() != 0) return "a fixed_bucket has no window; leave it 0";
  } else if (one.window.count() < 1 || one.window > window_max) {
    return "window must be 1 to " + std::to_string(window_max.count()) + " microseconds";
  }
  if (one.burst != 0 && one.algorithm != algorithm::token_bucket)
    return "only a token_bucket has a burst; leave it 0";
  if (one.burst < 0 || one.burst > quota_max)
    return "burst must be 1 to " + std::to_string(quota_max) + ", or 0 for the quota";
  return {};
}

limit::Limit limit_of(const limit_spec& one) {
  limit::Limit limit{.algorithm = *internal_of(one.algorithm),
                     .quota = one.quota,
                     .window = {one.window.count()},
                     .burst = one.burst};
  if (limit.algorithm == limit::Algorithm::fixed_bucket ||
      (limit.algorithm == limit::Algorithm::token_bucket && limit.burst == 0))
    limit.burst = limit.quota;
  return limit;
}

constexpr auto too_many_limits =
    "more different limits than options::limits_max are known; drop handles that are not used";

}  // namespace

result<std::vector<limit::Limit>> limits_of(view<limit_spec> all) {
  if (all.size() < 1 || all.size() > limits_per_counter_max)
    return error{errc::invalid_argument,
                 "a counter has 1 to " + std::to_string(limits_per_counter_max) +
                     " limits, and there are " + std::to_string(all.size())};
  std::vector<limit::Limit> limits;
  for (size_t i = 0; i < all.size(); ++i) {
    if (const std::string problem = problem_of(all[i]); !problem.empty())
      return error{errc::invalid_argument, where(i) + problem};
    limits.push_back(limit_of(all[i]));
  }
  if (limit::cells(limits) > limit::cells_max)
    return error{errc::invalid_argument,
                 "the limits need more memory than one counter may have; have at most two of "
                 "algorithm sliding_log with a quota of 32 or more"};
  return limits;
}

// Once more when what is not named any more has been forgotten.
request::LimitsRef core::hold_limits(std::span<const limit::Limit> limits) {
  request::LimitsRef held = spaces_->hold_limits(limits, how_.limits_max);
  if (held) return held;
  collect();
  return spaces_->hold_limits(limits, how_.limits_max);
}

result<handle> core::limits(std::string_view name, view<limit_spec> all) {
  if (name.size() > name_bytes_max)
    return error{errc::invalid_argument,
                 "a name has at most " + std::to_string(name_bytes_max) + " bytes"};
  auto limits = limits_of(all);
  if (!limits) return limits.why();
  std::string suffix;
  for (const limit::Limit& one : *limits) {
    suffix += suffix.empty() ? ':' : ',';
    suffix += limit::name_of(one.algorithm);
  }
  const std::string prefix = "code:" + std::string(name) + ":";
  request::SpaceRef space = spaces_->hold(prefix, suffix, {}, how_.limits_max);
  if (!space) {
    collect();
    space = spaces_->hold(prefix, suffix, {}, how_.limits_max);
  }
  request::LimitsRef held = hold_limits(*limits);
  if (!space || !held) return error{errc::too_many_limits, too_many_limits};
  handle made(new terms(spaces_, std::string(name), false));
  terms::Now& its = made.terms_->now;
  its.space = space.get();
  its.limits = spaces_->limits(held.id());
  its.limits_id = held.id();
  its.space_held = std::move(space);
  its.limits_held = std::move(held);
  return made;
}

// With the gate closed, or before any other thread has it.
void core::put_in_force(const policy::Rule* rule, terms& its) {
  its.now = {};
  if (rule == nullptr) return;
  its.now.space = rule->space;
  its.now.limits = spaces_->limits(rule->limits_id);
  its.now.limits_id = rule->limits_id;
  its.now.rule = rule;
  its.now.space_held = rule->space_held;
  its.now.limits_held = rule->limits_held;
}

result<handle> core::find(std::string_view name) {
  const std::lock_guard lock(change_);
  if (const auto known = rules_.find(name); known != rules_.end()) {
    if (known->second.terms_->now.space != nullptr) return known->second;
  }
  const auto rule = policy_->by_name.find(std::string(name));
  if (rule == policy_->by_name.end())
    return error{errc::unknown_rule, "no rule is called `" + std::string(name) + "`"};
  handle made(new terms(spaces_, std::string(name), true));
  put_in_force(rule->second, *made.terms_);
  rules_.insert_or_assign(std::string(name), made);
  return made;
}

result<policy_report> core::reload(std::string_view text, std::string_view name, time_point now) {
  if (!embed::is_sound(now)) return error{errc::invalid_argument, "the time is out of range"};
  if (text.size() > base::bounds::config_bytes_max)
    return error{errc::policy, std::string(name) + ": is longer than " +
                                   std::to_string(base::bounds::config_bytes_max) + " bytes"};
  const auto next = std::make_shared<Policy>();
  base::Diagnostics diagnostics;
  policy::read_native(text, name, *spaces_, next->rules, diagnostics);
  if (!base::has_errors(diagnostics)) policy::review(next->rules, diagnostics);
  policy_report report;
  std::string errors;
  for (const base::Diagnostic& one : diagnostics) {
    if (one.severity == base::Diagnostic::Severity::error)
      errors += (errors.empty() ? "" : "\n") + base::to_string(one);
    else
      report.warnings.push_back(base::to_string(one));
  }
  if (!errors.empty()) return error{errc::policy, errors};
  if (spaces_->known() > how_.limits_max) return error{errc::too_many_limits, too_many_limits};
  for (const policy::Rule& rule : next->rules.native_rules())
    next->by_name.emplace(policy::name_or_pattern(rule), &rule);
  report.rules = next->rules.size();

  std::shared_ptr<const Policy> before = next;
  const std::lock_guard lock(change_);
  std::erase_if(rules_, [](const auto& one) { return one.second.terms_->is_last(); });
  // What goes out of force stays known until what waits by it has been matched again.
  std::vector<terms::Now> gone(rules_.size());
  waits_->change(now, [&] {
    policy_.swap(before);
    size_t i = 0;
    for (auto& [rule, its] : rules_) {
      const auto found = next->by_name.find(rule);
      std::swap(gone[i++], its.terms_->now);
      put_in_force(found == next->by_name.end() ? nullptr : found->second, *its.terms_);
    }
  });
  return report;
}

result<void> core::set_override(const override_spec& one, time_point now) {
  if (!embed::is_sound(now) || !embed::is_sound(one.until))
    return error{errc::invalid_argument, "the time is out of range"};
  auto limits = limits_of(one.limits);
  if (!limits) return limits.why();
  request::LimitsRef held = hold_limits(*limits);
  if (!held) return error{errc::too_many_limits, too_many_limits};
  std::vector<std::string> values;
  for (const std::string& written : one.actor) {
    const auto value = policy::ActorValue::read(written);
    if (!value) return error{errc::invalid_argument, "the actor: " + value.problem().text};
    values.push_back(value->name());
  }
  const std::string actor = policy::key_text(values);
  if (actor.size() > base::bounds::override_actor_bytes_max)
    return error{errc::invalid_argument,
                 "the actor is longer than " +
                     std::to_string(base::bounds::override_actor_bytes_max) + " bytes"};
  const std::lock_guard lock(change_);
  const auto rule = policy_->by_name.find(one.rule);
  if (rule == policy_->by_name.end())
    return error{errc::unknown_rule, "no rule is called `" + one.rule + "`"};
  if (rule->second->actor.size() != one.actor.size())
    return error{errc::invalid_argument, "rule `" + one.rule + "` has an actor of " +
                                             std::to_string(rule->second->actor.size()) +
                                             " values, and there are " +
                                             std::to_string(one.actor.size())};
  const OverrideKey key{one.rule, actor};
  if (overrides_set_.size() >= base::bounds::overrides_max && !overrides_set_.contains(key))
    return error{errc::too_many_overrides, "the table of overrides is full; remove some"};
  policy::Override next;
  next.rule = rule->second->id;
  next.actor = std::move(values);
  next.set = internal(now);
  next.terms = {.id = ++last_override_,
                .until = one.until == latest_time ? base::Time{INT64_MAX} : internal(one.until),
                .limits = spaces_->limits(held.id()),
                .limits_id = held.id()};
  bool has_room = true;
  // What it replaces stays known until what waits by it has been matched again.
  const Override before = std::exchange(overrides_set_[key], {one, next.actor, next.rule, held});
  waits_->change(now, [&] { has_room = overrides_.set(next); });
  if (!has_room) {
    overrides_set_.erase(key);
    return error{errc::too_many_overrides,
                 "too many patterns of rule `" + one.rule + "` begin like this one"};
  }
  if (one.until != latest_time) override_ends_.insert(one.until);
  return {};
}

result<void> core::remove_override(std::string_view rule, const std::vector<std::string>& actor,
                                   time_point now) {
  if (!embed::is_sound(now)) return error{errc::invalid_argument, "the time is out of range"};
  const std::lock_guard lock(change_);
  std::vector<std::string> values;
  for (const std::string& written : actor) {
    const auto value = policy::ActorValue::read(written, true);
    values.push_back(value ? value->name() : written);
  }
  const auto at = overrides_set_.find({std::string(rule), policy::key_text(values)});
  if (at == overrides_set_.end())
    return error{errc::not_found,
                 "rule `" + std::string(rule) + "` has no override for this actor"};
  const Override before = std::move(at->second);
  overrides_set_.erase(at);
  waits_->change(now, [&] { overrides_.remove(before.rule, before.actor); });
  return {};
}

std::vector<override_spec> core::overrides(time_point now) {
  const std::lock_guard lock(change_);
  std::vector<override_spec> all;
  for (const auto& [key, one] : overrides_set_)
    if (one.as_set.until > now) all.push_back(one.as_set);
  return all;
}

// With change_.
void core::end_overrides(time_point now) {
  if (override_ends_.empty() || *override_ends_.begin() > now) return;
  override_ends_.erase(override_ends_.begin(), override_ends_.upper_bound(now));
  std::vector<Override> ended;
  for (auto at = overrides_set_.begin(); at != overrides_set_.end();) {
    if (at->second.as_set.until > now) {
      ++at;
      continue;
    }
    ended.push_back(std::move(at->second));
    at = overrides_set_.erase(at);
  }
  waits_->change(now, [&] {
    for (const Override& one : ended) overrides_.remove(one.rule, one.actor);
  });
}

decision core::decide(view<entry> descriptor, int64_t cost, Ask ask, time_point now) {
  constexpr size_t entries_max = base::bounds::descriptor_entries_max;
  if (cost < 0 || descriptor.size() > entries_max || !embed::is_sound(now))
    return failed(errc::invalid_argument);
  alignas(request::Entry) std::byte room[entries_max * sizeof(request::Entry)];
  auto* const entries = reinterpret_cast<request::Entry*>(room);
  for (size_t i = 0; i < descriptor.size(); ++i) {
    if (descriptor[i].value.size() > key_bytes_max) return failed(errc::invalid_argument);
    new (&entries[i]) request::Entry{descriptor[i].key, descriptor[i].value};
  }
  const embed::Gate::Inside inside(gate_);
  const embed::Scratches::Taken scratch(scratches_, inside.cell());
  policy::Plan& plan = scratch->plan;
  policy_->rules.match(nullptr,
                       {.descriptor = {entries, descriptor.size()},
                        .verb = ask.verb,
                        .all = ask.all,
                        .cost = cost,
                        .now = internal(now),
                        .overrides = overrides_table()},
                       plan);
  const auto& part = plan.parts().back();
  if (!part.error.empty()) return failed(errc::cannot_match);
  store_->apply(plan.batch(), internal(now));
  embed::Shown shown(ask.verb);
  bool allowed = true;
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    const request::Group& group = plan.group(step);
    if (group.error != request::Error::none) return failed(embed::error_of(group.error));
    allowed = group.allowed;
    shown.add(plan.decisions(step));
  }
  return shown.of(allowed);
}

}  // namespace sluice::detail
