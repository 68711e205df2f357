#include "policy/rule_set.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/background.h"
#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "policy/actor_name.h"
#include "policy/overrides.h"
#include "policy/text.h"
#include "request/session.h"

namespace sluice::policy {

std::string name_or_pattern(const Rule& rule) {
  return rule.name.empty() ? rule.pattern : rule.name;
}

namespace {

using Descriptor = std::span<const request::Entry>;

// The entry of that key; of several the last one counts.
const request::Entry* find(Descriptor descriptor, std::string_view key) {
  for (size_t i = descriptor.size(); i-- > 0;) {
    if (same(descriptor[i].key, key)) return &descriptor[i];
  }
  return nullptr;
}

// impossible: the pattern is impossible, or the request takes too many steps.
enum class Fit { yes, no, impossible };

Fit fit(const Condition& condition, Descriptor descriptor, MatchSteps& steps) {
  if (condition.pattern.impossible()) return Fit::impossible;
  const request::Entry* entry = find(descriptor, condition.key);
  const bool fits = entry != nullptr ? condition.pattern.matches(entry->value, steps)
                                     : condition.pattern.matches({});
  if (steps.over()) [[unlikely]]
    return Fit::impossible;
  return fits ? Fit::yes : Fit::no;
}

Fit fit(const Rule& rule, Descriptor descriptor, std::string_view& error, MatchSteps& steps) {
  for (const Condition& condition : rule.conditions) {
    const Fit result = fit(condition, descriptor, steps);
    if (result == Fit::impossible)
      error = steps.over() ? too_many_steps : condition.pattern.error();
    if (result != Fit::yes) return result;
  }
  return Fit::yes;
}

// policy::key_text of the actor's values; an entry that is absent counts as empty.
std::string_view key_of(const Rule& rule, Descriptor descriptor, base::Arena& arena) {
  return key_text(
      rule.actor.size(),
      [&](size_t i) -> std::string_view {
        const request::Entry* entry = find(descriptor, rule.actor[i]);
        return entry != nullptr ? entry->value : std::string_view("");
      },
      [&](size_t bytes) { return arena.allocate(bytes); });
}

}  // namespace

void Plan::clear() {
  parts_.clear();
  steps_.clear();
  groups_.clear();
  charges_.clear();
  decisions_.clear();
  keys_.clear();
  joint_order_.clear();
}

void Plan::skip() {
  parts_.push_back({.step_first = static_cast<uint32_t>(steps_.size()),
                    .groups_end = static_cast<uint32_t>(groups_.size())});
}

void Plan::let_wait(request::Ticket ticket, uint64_t arrival) {
  request::Group& group = groups_.back();
  group.may_wait = true;
  group.ticket = ticket;
  group.arrival = arrival;
}

void Plan::answer_by(size_t part, base::Time time) {
  const uint32_t first = part == 0 ? 0 : parts_[part - 1].groups_end;
  for (request::Group& group : std::span(groups_).subspan(first))
    group.answer_by = std::min(group.answer_by, time);
}

std::span<const limit::Decision> Plan::decisions(const RuleMatch& step) const {
  const request::Charge& its = charges_[step.charge];
  const size_t count =
      its.keeps_limits ? static_cast<size_t>(std::popcount(its.slot_mask)) : its.limits.size();
  return std::span(decisions_).subspan(its.decision_first, count);
}

void Plan::open_group(bool may_fail) {
  // Its rules settle together, so the strictest OnError of them holds if the store cannot decide.
  groups_.push_back({.charge_first = static_cast<uint32_t>(charges_.size()),
                     .may_fail = may_fail,
                     .on_error = request::OnError::allow});
}

namespace {

bool has_algorithms_of(std::span<const limit::Limit> limits, const Rule& rule) {
  return std::equal(limits.begin(), limits.end(), rule.limits.begin(), rule.limits.end(),
                    [](const auto& a, const auto& b) { return a.algorithm == b.algorithm; });
}

}  // namespace

namespace {

inline request::Verb verb_of(const Rule& rule, const Asked& asked) {
  // What waits is taken when it is granted, so it is not charged before.
  if (asked.verb == request::Verb::wait) return request::Verb::take;
  const bool counts = asked.verb == request::Verb::take && rule.counts != 0 && !asked.strict;
  return counts ? request::Verb::count : asked.verb;
}

}  // namespace

// Adds a charge to the last group. Forced inline, because each decision goes through it.
[[gnu::always_inline]] inline void Plan::add_charge(const Rule& rule, std::string_view key,
                                                    const Asked& asked) {
  const bool keeps_limits = rule.limits.empty();
  const bool brings_numbers =
      rule.limits_from == LimitsFrom::numbers && has_algorithms_of(asked.limits, rule);
  const bool negative_costs = keeps_limits || rule.limits_from == LimitsFrom::numbers;
  charges_.push_back({.space = rule.space,
                      .key = key,
                      .verb = verb_of(rule, asked),
                      .all = asked.all,
                      .reset_first = keeps_limits && asked.reset_first,
                      .keeps_limits = keeps_limits,
                      .as_written = asked.as_written,
                      .cost = negative_costs ? asked.cost : std::max<int64_t>(asked.cost, 0),
                      .limits = keeps_limits || brings_numbers ? asked.limits : rule.limits,
                      .rule_name = &rule.name,
                      .limits_id = rule.limits_id,
                      .decision_first = static_cast<uint32_t>(decisions_.size()),
                      .counts = rule.counts});
  if (rule.limits_from == LimitsFrom::request && asked.inline_space != nullptr) [[unlikely]] {
    request::Charge& charge = charges_.back();
    charge.space = asked.inline_space;
    charge.limits = asked.limits;
    charge.limits_id = asked.inline_limits_id;
    charge.counts = asked.counts;
    if (asked.verb == request::Verb::take && asked.counts != 0) charge.verb = request::Verb::count;
  }
  decisions_.resize(decisions_.size() + room_of(charges_.back()));
  request::Group& group = groups_.back();
  ++group.charge_count;
  // A request without the numbers is about the counter itself, which only the store knows.
  // A charge that is not stored would be lost.
  const bool needs_store =
      asked.needs_store || (rule.limits_from == LimitsFrom::numbers && !brings_numbers) ||
      (asked.verb == request::Verb::charge && rule.on_store_error != request::OnError::local);
  group.on_error =
      std::min(group.on_error, needs_store ? request::OnError::error : rule.on_store_error);
}

void Plan::add_step(const Rule& rule, std::string_view key, std::string_view actor,
                    const Asked& asked) {
  steps_.push_back({&rule, static_cast<uint32_t>(groups_.size() - 1),
                    static_cast<uint32_t>(charges_.size()), 0, actor});
  add_charge(rule, key, asked);
  ++parts_.back().step_count;
}

void Plan::drop_last_group() {
  const uint32_t first = groups_.back().charge_first;
  decisions_.resize(charges_[first].decision_first);
  charges_.resize(first);
  groups_.pop_back();
}

namespace {

// Windows of the clock that count, all of them.
bool all_count(std::span<const limit::Limit> limits, limit::LimitMask counts) {
  return counts == limit::all_of(limits) &&
         std::all_of(limits.begin(), limits.end(), [](const limit::Limit& limit) {
           return limit.algorithm == limit::Algorithm::aligned_window;
         });
}

}  // namespace

limit::LimitMask counts_of(const Rule& rule, std::span<const limit::Limit> limits) {
  if (rule.counts == 0) return 0;
  limit::LimitMask counts = 0;
  for (size_t i = 0; i < limits.size(); ++i) {
    bool any = false, counting = false, of_kind = false;
    for (size_t j = 0; j < rule.limits.size(); ++j) {
      if (rule.limits[j].window != limits[i].window || of_kind) continue;
      of_kind = rule.limits[j].algorithm == limits[i].algorithm;
      counting = limit::has(rule.counts, j) || (counting && !of_kind);
      any = true;
    }
    if (!any) counting = rule.counts == limit::all_of(rule.limits);
    if (counting) counts = static_cast<limit::LimitMask>(counts | 1u << i);
  }
  return counts;
}

// In a sparing group each charge of a counter is decided by itself.
bool Plan::follows(const request::Charge& other, const Rule& rule, const Asked& asked) const {
  return asked.sparing && other.verb == request::Verb::count &&
         verb_of(rule, asked) == request::Verb::count && all_count(rule.limits, rule.counts) &&
         all_count(other.limits, other.counts);
}

// If the last group charges the counter already, the cost is added to that charge, or the new
// charge follows it. `charge`: the index of the charge. False: the request brings limits of its
// own that differ, so the costs cannot be added.
bool Plan::add_joint_charge(const Rule& rule, std::string_view key, const Asked& asked,
                            uint32_t& charge) {
  for (charge = groups_.back().charge_first; charge < charges_.size(); ++charge) {
    request::Charge& other = charges_[charge];
    const bool brings_limits =
        rule.limits_from == LimitsFrom::request && asked.inline_space != nullptr;
    if (other.space != (brings_limits ? asked.inline_space : rule.space) || other.key != key)
      continue;
    if (follows(other, rule, asked)) {
      charge = static_cast<uint32_t>(charges_.size());
      add_charge(rule, key, asked);
      charges_.back().follows = true;
      return true;
    }
    const bool brings_numbers = rule.limits_from == LimitsFrom::numbers;
    const std::span<const limit::Limit> limits =
        brings_limits || brings_numbers ? asked.limits : rule.limits;
    const bool is_same =
        std::equal(limits.begin(), limits.end(), other.limits.begin(), other.limits.end());
    if (other.keeps_limits || !is_same || (brings_limits && other.counts != asked.counts))
      return false;
    const int64_t cost = std::max<int64_t>(asked.cost, 0);
    other.cost = cost > INT64_MAX - other.cost ? INT64_MAX : other.cost + cost;
    return true;
  }
  add_charge(rule, key, asked);
  return true;
}

request::Charge& Plan::ask(const Rule& rule, std::string_view key, std::string_view actor,
                           const Asked& asked) {
  skip();
  open_group(true);
  add_step(rule, key, actor, asked);
  if (asked.overrides != nullptr)
    override_from(parts_.back().step_first, *asked.overrides, asked.now);
  groups_.back().on_error = request::OnError::error;
  parts_.back().groups_end = static_cast<uint32_t>(groups_.size());
  return charges_.back();
}

namespace {

// An override may have changed a charge that counts to one that does not. A charge that followed it
// then follows an earlier one, or none.
void renew_follows(std::span<const request::Group> groups, std::span<request::Charge> charges) {
  const auto counts = [](const request::Charge& charge) {
    return charge.verb == request::Verb::count && limit::is_counted(charge.limits);
  };
  for (const request::Group& group : groups) {
    if (!group.sparing) continue;
    const auto all = charges.subspan(group.charge_first, group.charge_count);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].follows) continue;
      all[i].follows =
          counts(all[i]) && std::any_of(all.begin(), all.begin() + static_cast<ptrdiff_t>(i),
                                        [&](const request::Charge& other) {
                                          return counts(other) && other.space == all[i].space &&
                                                 other.key == all[i].key;
                                        });
    }
  }
}

}  // namespace

size_t Plan::room_of(const request::Charge& charge) {
  return charge.keeps_limits ? charge.space->windows.size() : charge.limits.size();
}

void Plan::override_from(size_t first, const Overrides& overrides, limit::Time now) {
  const auto steps = std::span(steps_).subspan(first);
  if (steps.size() > 1 && overrides.prefetches()) {
    for (const RuleMatch& step : steps) overrides.prefetch_slots(step.rule->id, step.actor);
    for (const RuleMatch& step : steps) overrides.prefetch_nodes(step.rule->id, step.actor);
  }
  bool moved = false, any = false;
  MatchSteps match_steps;
  const RequestPlan* part = parts_.data();
  for (size_t i = first; i < steps_.size(); ++i) {
    RuleMatch& step = steps_[i];
    request::Charge& charge = charges_[step.charge];
    Override::Terms terms;
    // Each request has a budget of its own.
    for (; i >= size_t{part->step_first} + part->step_count; ++part) match_steps = MatchSteps();
    if (!overrides.find(step.rule->id, step.actor, now, terms, match_steps)) continue;
    step.override_id = terms.id;
    any = true;
    const size_t room = room_of(charge);
    if (charge.keeps_limits && limit::is_counted(terms.limits)) {
      // Replace limits that the request brought; a request without limits gets none.
      if (!charge.limits.empty()) charge.limits = terms.limits;
    } else {
      charge.keeps_limits = charge.reset_first = false;
      charge.cost = std::max<int64_t>(charge.cost, 0);
      charge.limits = terms.limits;
      charge.limits_id = terms.limits_id;
      if (terms.space != nullptr) charge.space = terms.space;
    }
    moved |= room != room_of(charge);
    if (charge.verb == request::Verb::count && limit::is_counted(charge.limits)) [[unlikely]] {
      charge.counts = counts_of(*step.rule, charge.limits);
      if (charge.counts == 0) charge.verb = request::Verb::take;
    }
  }
  if (any) renew_follows(groups_, charges_);
  if (!moved) return;
  size_t end = 0;
  for (request::Charge& charge : charges_) {
    charge.decision_first = static_cast<uint32_t>(end);
    end += room_of(charge);
  }
  decisions_.resize(end);
}

RuleSet::DialectRules::~DialectRules() {
  for (; !rules_.empty(); rules_.pop_back()) base::yield_if_background();
}

void RuleSet::DialectRules::add(Rule rule) {
  base::yield_if_background();
  rule.counted_as_shadow |= rule.mode == Mode::shadow;
  built_in_ += rule.built_in;
  index_.add(rule.conditions);
  rules_.push_back(std::move(rule));
}

RuleSet::RuleSet(std::span<const Dialect* const> dialects) {
  lists_.reserve(1 + dialects.size());
  lists_.emplace_back(native_dialect);
  for (const Dialect* dialect : dialects) lists_.emplace_back(*dialect);
}

void RuleSet::add(const Dialect& dialect, Rule rule) {
  rule.number = size_++;
  rule.id = rule_id(dialect.name, dialect.rule_name(rule), rule.actor);
  for (const Condition& condition : rule.conditions)
    if (condition.pattern.regex() != nullptr) regexes_.push_back(condition.pattern);
  auto list = std::find_if(lists_.begin(), lists_.end(),
                           [&](const DialectRules& one) { return one.dialect_ == &dialect; });
  if (list == lists_.end()) list = lists_.emplace(list, dialect);
  list->add(std::move(rule));
}

void RuleSet::set_finder(const Dialect& dialect, std::unique_ptr<const Finder> finder) {
  const auto list = std::find_if(lists_.begin(), lists_.end(),
                                 [&](const DialectRules& one) { return one.dialect_ == &dialect; });
  SLUICE_CHECK(list != lists_.end());
  list->finder_ = std::move(finder);
  has_finder_ = true;
}

uint64_t RuleSet::regexes_given_up() const {
  uint64_t all = 0;
  for (const Pattern& pattern : regexes_) all += pattern.regex()->given_up();
  return all;
}

size_t RuleSet::written() const {
  size_t count = 0;
  for (const DialectRules& list : lists_) count += list.written();
  return count;
}

// There are few lists. The native list is compared last, because requests find it in another way.
inline const RuleSet::DialectRules* RuleSet::find(const Dialect* dialect) const {
  for (auto list = lists_.begin() + 1; list != lists_.end(); ++list)
    if (list->dialect_ == dialect) return &*list;
  return dialect == &native_dialect ? &lists_.front() : nullptr;
}

const Finder* RuleSet::finder(const Dialect* dialect) const {
  const DialectRules* const list = find(dialect);
  return list == nullptr ? nullptr : list->finder_.get();
}

std::span<const Rule> RuleSet::rules(const Dialect* dialect) const {
  const DialectRules* const list = find(dialect);
  return list == nullptr ? std::span<const Rule>() : list->rules();
}

template <class Visit>
bool RuleSet::DialectRules::candidates(Descriptor descriptor, Visit&& visit) const {
  bool went_through = true;
  const auto one = [&](const Rule& rule) {
    if (rule.mode == Mode::off) return true;
    return went_through = visit(rule);
  };
  if (rules_.size() > unindexed_max) {
    index_.candidates(descriptor, [&](uint32_t number) { return one(rules_[number]); });
    return went_through;
  }
  for (const Rule& rule : rules_) {
    if (!one(rule)) break;
  }
  return went_through;
}

constexpr std::string_view too_many_charges =
    "more rules apply to this request than can settle together";

// Finds the rules that apply to the request of the last part: shadow rules go to `shadow`, enforced
// ones to Plan::enforced_.
template <class Shadow>
inline void RuleSet::find_rules(const Dialect* dialect, const Asked& asked, Plan& plan,
                                Shadow&& shadow) const {
  const Descriptor descriptor = asked.descriptor;
  Plan::RequestPlan& part = plan.parts_.back();
  MatchSteps steps;
  const size_t first = plan.enforced_.size();
  const auto visit = [&](const Rule& rule) {
    if (asked.now >= rule.until) return true;
    const Fit result = fit(rule, descriptor, part.error, steps);
    if (result == Fit::no) return true;
    if (result == Fit::impossible) return false;
    const std::string_view key = key_of(rule, descriptor, plan.keys_);
    if (rule.mode == Mode::shadow) {
      shadow(rule, key, key);
      return true;
    }
    if (plan.enforced_.size() - first == base::bounds::group_charges_max) {
      part.error = too_many_charges;
      return false;
    }
    plan.enforced_.push_back({&rule, key, key});
    return rule.then == Then::continue_;
  };
  const bool goes_on =
      asked.scope == request::RuleScope::dialect || lists_.front().candidates(descriptor, visit);
  if ((goes_on || has_finder_) && asked.scope != request::RuleScope::native) {
    const DialectRules* const own = find(dialect);
    if (own != nullptr && own->finder_ != nullptr) [[unlikely]] {
      if (part.error.empty()) {
        const auto found = own->finder_->find(asked, steps, plan.keys_);
        const Rule* const rule = found ? &own->rules_[found->rule] : nullptr;
        if (steps.over())
          part.error = too_many_steps;
        else if (found && rule->mode == Mode::shadow)
          shadow(*rule, found->key, found->actor);
        else if (found && plan.enforced_.size() - first == base::bounds::group_charges_max)
          part.error = too_many_charges;
        else if (found)
          plan.enforced_.push_back({rule, found->key, found->actor});
      }
    } else if (own != nullptr && goes_on) {
      own->candidates(descriptor, visit);
    }
  }
  if (steps.over()) [[unlikely]]
    too_costly_->fetch_add(1, std::memory_order_relaxed);
}

// Each decision goes through it, so its calls are inlined, although match_together has them too.
[[gnu::flatten]] void RuleSet::match(const Dialect* dialect, const Asked& asked, Plan& plan) const {
  plan.skip();
  if (asked.verb == request::Verb::noop) return;
  plan.enforced_.clear();
  find_rules(dialect, asked, plan,
             [&](const Rule& rule, std::string_view key, std::string_view actor) {
               plan.open_group(true);
               plan.add_step(rule, key, actor, asked);
             });
  Plan::RequestPlan& part = plan.parts_.back();
  if (part.error.empty() && !plan.enforced_.empty()) {
    plan.open_group(false);
    part.enforced = true;
    for (const auto& [rule, key, actor] : plan.enforced_) plan.add_step(*rule, key, actor, asked);
  }
  part.groups_end = static_cast<uint32_t>(plan.groups_.size());
  if (asked.overrides != nullptr) plan.override_from(part.step_first, *asked.overrides, asked.now);
}

void RuleSet::match_together(const Dialect* dialect, std::span<const Asked> requests,
                             Plan& plan) const {
  SLUICE_CHECK(requests.size() <= base::bounds::together_max);
  const size_t first = plan.parts_.size();
  std::array<size_t, base::bounds::together_max> ends{};  // of each request, in Plan::enforced_
  std::string_view error;
  plan.enforced_.clear();
  plan.joint_.clear();
  // Charges of shadow rules come first, so that those of the common group are adjacent.
  for (size_t i = 0; i < requests.size(); ++i) {
    plan.skip();
    plan.parts_.back().joint = true;
    find_rules(dialect, requests[i], plan,
               [&](const Rule& rule, std::string_view key, std::string_view actor) {
                 plan.open_group(true);
                 plan.joint_.push_back({{&rule, static_cast<uint32_t>(plan.groups_.size() - 1),
                                         static_cast<uint32_t>(plan.charges_.size()), 0, actor},
                                        i});
                 plan.add_charge(rule, key, requests[i]);
               });
    ends[i] = plan.enforced_.size();
    if (error.empty()) error = plan.parts_.back().error;
    const bool has_rule = ends[i] > (i == 0 ? 0 : ends[i - 1]);
    if (error.empty() && requests[i].needs_rule && !has_rule) error = request::no_rule_applies;
  }
  const size_t shadows = plan.joint_.size();
  if (error.empty() && !plan.enforced_.empty()) {
    plan.open_group(false);
    const auto group = static_cast<uint32_t>(plan.groups_.size() - 1);
    plan.groups_.back().sparing = requests.front().sparing;
    for (size_t i = 0, at = 0; i < requests.size(); ++i) {
      for (; at < ends[i] && error.empty(); ++at) {
        const auto& [rule, key, actor] = plan.enforced_[at];
        uint32_t charge = 0;
        if (!plan.add_joint_charge(*rule, key, requests[i], charge))
          error = "a key comes twice, with different limits along for the same counter";
        else if (plan.groups_.back().charge_count > base::bounds::group_charges_max)
          error = too_many_charges;
        plan.joint_.push_back({{rule, group, charge, 0, actor}, i});
      }
    }
    if (!error.empty()) {
      plan.drop_last_group();
      plan.joint_.resize(shadows);
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    Plan::RequestPlan& part = plan.parts_[first + i];
    part.step_first = static_cast<uint32_t>(plan.steps_.size());
    part.groups_end = static_cast<uint32_t>(plan.groups_.size());
    part.error = error;
    part.enforced = error.empty() && ends[i] > (i == 0 ? 0 : ends[i - 1]);
    part.order_first = static_cast<uint32_t>(plan.joint_order_.size());
    for (const auto& [step, its] : plan.joint_) {
      if (its != i) continue;
      plan.steps_.push_back(step);
      ++part.step_count;
      if (step.rule->mode != Mode::enforce) continue;
      plan.joint_order_.push_back(step.charge);
      ++part.order_count;
    }
  }
  if (!requests.empty() && requests.front().overrides != nullptr)
    plan.override_from(plan.parts_[first].step_first, *requests.front().overrides,
                       requests.front().now);
}

const Rule* RuleSet::decider(const Dialect* dialect, Descriptor descriptor,
                             std::string_view& error) const {
  error = {};
  MatchSteps steps;
  const Rule* found = nullptr;
  const DialectRules* const list = find(dialect);
  if (list == nullptr) return nullptr;
  list->candidates(descriptor, [&](const Rule& rule) {
    const Fit result = fit(rule, descriptor, error, steps);
    if (result == Fit::yes && rule.mode == Mode::enforce && rule.then == Then::stop) found = &rule;
    return result != Fit::impossible && found == nullptr;
  });
  return found;
}

uint64_t rule_id(std::string_view dialect, std::string_view name,
                 std::span<const std::string> actor) {
  std::vector<uint64_t> digests = {base::digest(dialect), base::digest(name)};
  for (const std::string& key : actor) digests.push_back(base::digest(key));
  return base::digest_of(digests);
}

std::optional<Mismatch> mismatch(const Rule& rule, Descriptor descriptor, std::string_view& error) {
  error = {};
  MatchSteps steps(UINT64_MAX);
  for (const Condition& condition : rule.conditions) {
    const Fit result = fit(condition, descriptor, steps);
    if (result == Fit::yes) continue;
    if (result == Fit::impossible) error = condition.pattern.error();
    Mismatch found{&condition, std::nullopt};
    if (const request::Entry* entry = find(descriptor, condition.key)) found.value = entry->value;
    return found;
  }
  return std::nullopt;
}

}  // namespace sluice::policy
