#include "policy/rule_set.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/background.h"
#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "limit/left_out.h"
#include "policy/actor_name.h"
#include "policy/inline_limits.h"
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
  views_.clear();
  list_count_ = 0;
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
  return std::span(decisions_).subspan(its.decision_first, its.decided());
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

inline request::Verb verb_of(const Rule& rule, const Matching& asked) {
  // What waits is taken when it is granted, so it is not charged before.
  if (asked.request.verb == request::Verb::wait) return request::Verb::take;
  const request::Verb verb = request::told_as(asked.request.verb);
  const bool counts = verb == request::Verb::take && rule.counts != 0 &&
                      asked.request.message->refused != request::Refused::nothing;
  return counts ? request::Verb::count : verb;
}

inline bool brings_limits(const Rule& rule, const Matching& asked) {
  return rule.limits_from == LimitsFrom::request && asked.limits_id != 0;
}

}  // namespace

// By a secret: clients choose values, and must not find two that share a turn.
[[gnu::noinline]] void Plan::set_fair_value(const Rule& rule, const Matching& asked) {
  static const base::Hash hash;
  const request::Entry* const entry = find(asked.descriptor, rule.fair_by);
  std::string_view value = entry == nullptr ? std::string_view() : entry->value;
  if (rule.fair_by == certificate_entry && asked.certificate) value = *asked.certificate;
  charges_.back().fair_value = std::max<uint64_t>(hash(0, value), 1);
}

// Adds a charge to the last group. Forced inline, because each decision goes through it.
[[gnu::always_inline]] inline void Plan::add_charge(const Rule& rule, std::string_view key,
                                                    const Matching& asked) {
  const request::Request& its = asked.request;
  const bool keeps_limits = rule.limits.empty();
  const bool brings_numbers =
      rule.limits_from == LimitsFrom::numbers && has_algorithms_of(asked.limits, rule);
  const bool negative_costs = keeps_limits || rule.limits_from == LimitsFrom::numbers;
  charges_.push_back({.space = rule.space,
                      .key = key,
                      .verb = verb_of(rule, asked),
                      .all = its.verb == request::Verb::reset,
                      .reset_first = keeps_limits && its.verb == request::Verb::take_anew,
                      .keeps_limits = keeps_limits,
                      .cost = negative_costs ? its.cost : std::max<int64_t>(its.cost, 0),
                      .limits = keeps_limits || brings_numbers ? asked.limits : rule.limits,
                      .rule = &rule,
                      .limits_id = rule.limits_id,
                      .decision_first = static_cast<uint32_t>(decisions_.size()),
                      .counts = rule.counts,
                      .overdrafts = rule.overdrafts.get()});
  if (brings_limits(rule, asked)) [[unlikely]] {
    request::Charge& charge = charges_.back();
    charge.limits = asked.limits;
    charge.limits_id = asked.limits_id;
    charge.counts = its.limits.counts;
    if (its.verb == request::Verb::take && charge.counts != 0) charge.verb = request::Verb::count;
    charge.overdrafts = its.limits.overdrafts;
    charge.as_written = its.verb == request::Verb::peek && its.limits.count == 0;
  }
  if (!rule.fair_by.empty()) [[unlikely]]
    set_fair_value(rule, asked);
  decisions_.resize(decisions_.size() + room_of(charges_.back()));
  request::Group& group = groups_.back();
  ++group.charge_count;
  // A request without the numbers is about the counter itself, which only the store knows.
  // A charge that is not stored would be lost.
  const bool needs_store =
      its.message->needs_store || (rule.limits_from == LimitsFrom::numbers && !brings_numbers) ||
      (its.verb == request::Verb::charge && rule.on_store_error != request::OnError::local);
  group.on_error =
      std::min(group.on_error, needs_store ? request::OnError::error : rule.on_store_error);
}

void Plan::add_step(const Rule& rule, std::string_view key, std::string_view actor,
                    const Matching& asked) {
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
      if (!same_window(rule.limits[j], limits[i]) || of_kind) continue;
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
bool Plan::follows(const request::Charge& other, const Rule& rule, const Matching& asked) const {
  return asked.request.message->refused == request::Refused::spares &&
         other.verb == request::Verb::count && verb_of(rule, asked) == request::Verb::count &&
         all_count(rule.limits, rule.counts) && all_count(other.limits, other.counts);
}

namespace {

constexpr std::string_view other_limits =
    "a key comes twice, with different limits along for the same counter";
constexpr std::string_view two_of_a_kind =
    "a key comes twice, with two different limits of one algorithm and window";
constexpr std::string_view too_many_limits =
    "a key comes several times, with more limits in all than one counter may have: 8, of them two "
    "of sliding_log with a quota of 32 or more";

int64_t sum_of(int64_t a, int64_t b) {
  return b > INT64_MAX - a ? INT64_MAX : a + b;
}

bool are_same(const limit::Overdrafts* a, const limit::Overdrafts* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

}  // namespace

// If the last group charges the counter already, the cost is added to that charge, or the new
// charge follows it. `charge`: the index of the charge; `view`: what the request sees of it, or
// no_view. Returns an error if the costs cannot be added.
std::string_view Plan::add_joint_charge(const Rule& rule, std::string_view key,
                                        const Matching& asked, uint32_t& charge, uint32_t& view) {
  view = no_view;
  for (charge = groups_.back().charge_first; charge < charges_.size(); ++charge) {
    request::Charge& other = charges_[charge];
    if (other.space != rule.space || other.key != key) continue;
    if (follows(other, rule, asked)) {
      charge = static_cast<uint32_t>(charges_.size());
      add_charge(rule, key, asked);
      charges_.back().follows = true;
      return {};
    }
    const bool brings = brings_limits(rule, asked);
    const bool brings_numbers = rule.limits_from == LimitsFrom::numbers;
    const std::span<const limit::Limit> limits =
        brings || brings_numbers ? asked.limits : rule.limits;
    const bool is_same =
        std::ranges::equal(limits, other.limits) &&
        (!brings || (other.counts == asked.request.limits.counts &&
                     are_same(other.overdrafts, asked.request.limits.overdrafts))) &&
        other.costs == nullptr;
    if (!is_same && brings) return join_list(charge, asked, view);
    if (other.keeps_limits || !is_same) return other_limits;
    other.cost = sum_of(other.cost, std::max<int64_t>(asked.request.cost, 0));
    return {};
  }
  add_charge(rule, key, asked);
  return {};
}

// Adds the request's list of limits to those of the charge, which came with earlier requests.
std::string_view Plan::join_list(uint32_t index, const Matching& asked, uint32_t& view) {
  request::Charge& charge = charges_[index];
  const auto view_of = [&](const request::Charge& its, size_t list) {
    view = static_cast<uint32_t>(views_.size());
    views_.push_back({.joined = index, .list = list, .its = its});
  };
  if (charge.costs == nullptr) {
    if (list_count_ == lists_.size()) lists_.push_back(std::make_unique<JoinedList>());
    JoinedList& list = *lists_[list_count_];
    list.count = charge.limits.size();
    std::ranges::copy(charge.limits, list.limits.begin());
    std::fill_n(list.costs.begin(), list.count, charge.cost);
    list.overdrafts = {};
    for (size_t i = 0; i < list.count; ++i)
      list.overdrafts.add(charge.limits[i], charge.overdraft_of(i));
    view_of(charge, list_count_++);
    for (uint8_t i = 0; i < list.count; ++i) views_.back().at[i] = i;
    for (JointStep& earlier : joint_)
      if (earlier.step.charge == index) earlier.view = view;
    charge.costs = list.costs.data();
    if (charge.verb == request::Verb::take) charge.verb = request::Verb::count;
  }
  const auto of_it = std::ranges::find(views_, index, &View::joined);
  JoinedList& list = *lists_[of_it->list];
  const int64_t cost = std::max<int64_t>(asked.request.cost, 0);
  const limit::LimitMask its_counts = asked.request.limits.counts;
  charge.cost = sum_of(charge.cost, cost);
  const auto known = std::find_if(of_it, views_.end(), [&](const View& one) {
    return one.joined == index && one.its.counts == its_counts &&
           are_same(one.its.overdrafts, asked.request.limits.overdrafts) &&
           std::ranges::equal(one.its.limits, asked.limits);
  });
  if (known != views_.end()) {
    view = static_cast<uint32_t>(known - views_.begin());
    known->its.cost = sum_of(known->its.cost, cost);
  } else {
    request::Charge its = of_it->its;
    its.limits = asked.limits;
    its.limits_id = asked.limits_id;
    its.counts = its_counts;
    its.overdrafts = asked.request.limits.overdrafts;
    its.cost = cost;
    if (its.verb == request::Verb::take || its.verb == request::Verb::count)
      its.verb = its.counts == 0 ? request::Verb::take : request::Verb::count;
    view_of(its, of_it->list);
    std::array<bool, limit::slots_max> paired{};
    for (size_t i = 0; i < asked.limits.size(); ++i) {
      const limit::Limit& limit = asked.limits[i];
      size_t at = 0;
      while (at < list.count && (paired[at] || !limit::same_kind(list.limits[at], limit))) ++at;
      if (at == limit::slots_max) return too_many_limits;
      const bool counts = limit::has(its_counts, i);
      const int64_t overdraft = its.overdraft_of(i);
      if (at == list.count) {
        list.limits[at] = limit;
        list.costs[at] = 0;
        list.overdrafts.add(limit, overdraft);
        ++list.count;
        if (counts) charge.counts = static_cast<limit::LimitMask>(charge.counts | 1u << at);
      } else if (list.limits[at] != limit || limit::has(charge.counts, at) != counts ||
                 list.overdrafts.most[at] != overdraft) {
        return two_of_a_kind;
      }
      paired[at] = true;
      views_.back().at[i] = static_cast<uint8_t>(at);
    }
    charge.limits = std::span(list.limits).first(list.count);
    if (limit::cells(charge.limits) > limit::cells_max) return too_many_limits;
  }
  const View& its = views_[view];
  for (size_t i = 0; i < its.its.limits.size(); ++i)
    list.costs[its.at[i]] = sum_of(list.costs[its.at[i]], cost);
  return {};
}

// One list for the same limits, in whatever order the requests came.
void Plan::sort_list(uint32_t index, std::span<View> views) {
  request::Charge& joined = charges_[index];
  const size_t count = joined.limits.size();
  std::array<uint8_t, limit::slots_max> order{}, place{};
  for (uint8_t i = 0; i < count; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.begin() + count, [&](uint8_t a, uint8_t b) {
    const auto key = [&](uint8_t i) {
      const limit::Limit& limit = joined.limits[i];
      return std::tuple(limit.algorithm, limit.window.us, limit.quota, limit.burst,
                        limit.calendar.code());
    };
    return key(a) < key(b);
  });
  const auto first =
      std::ranges::find_if(views, [&](const View& view) { return view.joined == index; });
  JoinedList& list = *lists_[first->list];
  const JoinedList was = list;
  limit::LimitMask counts = 0;
  list.overdrafts = {};
  for (uint8_t i = 0; i < count; ++i) {
    place[order[i]] = i;
    list.overdrafts.add(was.limits[order[i]], was.overdrafts.most[order[i]]);
    list.limits[i] = was.limits[order[i]];
    list.costs[i] = was.costs[order[i]];
    if (limit::has(joined.counts, order[i]))
      counts = static_cast<limit::LimitMask>(counts | 1u << i);
  }
  joined.counts = counts;
  joined.overdrafts = list.overdrafts.has_any() ? &list.overdrafts : nullptr;
  for (View& view : views)
    if (view.joined == index)
      for (uint8_t& at : view.at) at = place[at];
}

// Numbers the joined lists of the last group, and adds the charges that its requests see, those of
// views_ from `first_view` on. False: there are too many lists.
bool Plan::close_lists(size_t first_view, size_t first_step, InlineLimits* lists) {
  for (View& view : std::span(views_).subspan(first_view)) {
    request::Charge& joined = charges_[view.joined];
    if (view.its.decision_first == joined.decision_first) {  // the first of its views
      sort_list(view.joined, std::span(views_).subspan(first_view));
      joined.limits_id = lists == nullptr ? 0 : lists->find(joined.limits);
      if (joined.limits_id == 0) return false;
      joined.decision_first = static_cast<uint32_t>(decisions_.size());
      decisions_.resize(decisions_.size() + joined.limits.size());
    } else {
      view.its.decision_first = static_cast<uint32_t>(decisions_.size());
      decisions_.resize(decisions_.size() + view.its.limits.size());
    }
    view.its.costs = nullptr;
    view.charge = static_cast<uint32_t>(charges_.size());
    charges_.push_back(view.its);
  }
  for (JointStep& step : std::span(joint_).subspan(first_step))
    if (step.view != no_view) step.step.charge = views_[step.view].charge;
  return true;
}

// The charge that settles what `charge` shows.
uint32_t Plan::joined_charge(const RequestPlan& part, uint32_t charge) const {
  for (const View& view : std::span(views_).subspan(part.view_first, part.view_count))
    if (view.charge == charge) return view.joined;
  return charge;
}

void Plan::copy_views(const RequestPlan& part) {
  for (const View& view : std::span(views_).subspan(part.view_first, part.view_count)) {
    const request::Charge& joined = charges_[view.joined];
    if (joined.costs == nullptr) continue;
    request::Charge& its = charges_[view.charge];
    its.counted = joined.counted;
    its.dropped = std::min(joined.dropped, its.cost);
    for (size_t i = 0; i < its.limits.size(); ++i)
      decisions_[its.decision_first + i] = decisions_[joined.decision_first + view.at[i]];
  }
}

request::Charge& Plan::ask(const Rule& rule, std::string_view key, std::string_view actor,
                           const Matching& asked) {
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

// Under an override a counter has one list for all requests, who then see its charge itself.
void Plan::show_overridden() {
  for (const RequestPlan& part : parts_) {
    if (part.view_count == 0) continue;
    const auto show = [&](uint32_t& charge) {
      const uint32_t joined = joined_charge(part, charge);
      if (charges_[joined].costs == nullptr) charge = joined;
    };
    for (RuleMatch& step : std::span(steps_).subspan(part.step_first, part.step_count))
      show(step.charge);
    for (uint32_t& charge : std::span(joint_order_).subspan(part.order_first, part.order_count))
      show(charge);
  }
}

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
    // Each request has a budget of its own.
    for (; i >= size_t{part->step_first} + part->step_count; ++part) match_steps = MatchSteps();
    request::Charge& charge = charges_[joined_charge(*part, step.charge)];
    Override::Terms terms;
    if (!overrides.find(step.rule->id, step.actor, now, terms, match_steps)) continue;
    step.override_id = terms.id;
    any = true;
    charge.costs = nullptr;
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
    // The limits of an override keep those of the rule.
    charge.overdrafts = step.rule->overdrafts.get();
    if (charge.verb == request::Verb::count && limit::is_counted(charge.limits)) [[unlikely]] {
      charge.counts = counts_of(*step.rule, charge.limits);
      if (charge.counts == 0) charge.verb = request::Verb::take;
    }
  }
  if (any) {
    renew_follows(groups_, charges_);
    show_overridden();
  }
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
  const auto is_certificate = [](std::string_view key) { return key == certificate_entry; };
  asks_certificate_ = asks_certificate_ || std::ranges::any_of(rule.actor, is_certificate) ||
                      is_certificate(rule.fair_by) ||
                      std::ranges::any_of(rule.conditions, is_certificate, &Condition::key);
  for (const Condition& condition : rule.conditions)
    if (condition.pattern.regex() != nullptr) regexes_.push_back(condition.pattern);
  if (&dialect == &native_dialect && !rule.unit.empty() && !rule.name.empty())
    units_.emplace(rule.name, rule.unit);
  auto list = std::find_if(lists_.begin(), lists_.end(),
                           [&](const DialectRules& one) { return one.dialect_ == &dialect; });
  if (list == lists_.end()) list = lists_.emplace(list, dialect);
  list->add(std::move(rule));
}

void RuleSet::set_own_rules(const Dialect& dialect, std::unique_ptr<const OwnRules> own) {
  const auto list = std::find_if(lists_.begin(), lists_.end(),
                                 [&](const DialectRules& one) { return one.dialect_ == &dialect; });
  SLUICE_CHECK(list != lists_.end());
  list->own_ = std::move(own);
  for (Rule& rule : list->rules_) rule.is_planned = true;
  has_own_ = true;
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
inline void RuleSet::find_rules(const Dialect* dialect, const Matching& asked, Plan& plan,
                                Shadow&& shadow) const {
  Descriptor descriptor = asked.descriptor;
  if (asks_certificate_ && asked.certificate) [[unlikely]]
    descriptor = plan.certified(asked);
  Plan::RequestPlan& part = plan.parts_.back();
  MatchSteps steps = asked.planning == nullptr ? MatchSteps() : asked.planning->steps;
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
  const bool goes_on = asked.request.scope == request::RuleScope::dialect ||
                       lists_.front().candidates(descriptor, visit);
  descriptor = asked.descriptor;
  if (asked.planning != nullptr && asked.request.scope != request::RuleScope::native) [[unlikely]] {
    if (part.error.empty() && steps.over()) {
      part.error = too_many_steps;
    } else if (const auto& [rule, key, actor] = asked.planning->charge;
               rule != nullptr && part.error.empty()) {
      if (rule->mode == Mode::shadow)
        shadow(*rule, key, actor);
      else if (plan.enforced_.size() - first == base::bounds::group_charges_max)
        part.error = too_many_charges;
      else
        plan.enforced_.push_back({rule, key, actor});
    }
  } else if (goes_on && asked.request.scope != request::RuleScope::native) {
    const DialectRules* const own = find(dialect);
    if (own != nullptr && own->own_ == nullptr) own->candidates(descriptor, visit);
  }
  if (steps.over()) [[unlikely]]
    too_costly_->fetch_add(1, std::memory_order_relaxed);
}

[[gnu::noinline, gnu::cold]] void RuleSet::match_for_people(const DialectRules& list,
                                                            const Matching& asked,
                                                            Plan& plan) const {
  Planning planning{.rules = list.rules(), .own = *list.own(), .texts = plan.texts()};
  if (const auto found = planning.own.find(asked.descriptor, planning.steps, planning.texts))
    planning.charge = {&planning.rules[found->rule], found->key, found->actor};
  Matching planned = asked;
  planned.planning = &planning;
  match(&list.dialect(), planned, plan);
}

// Each decision goes through it, so its calls are inlined, although match_together has them too.
[[gnu::flatten]] void RuleSet::match(const Dialect* dialect, const Matching& asked,
                                     Plan& plan) const {
  if (has_own_ && asked.planning == nullptr) [[unlikely]] {
    const DialectRules* const list = planned(dialect);
    if (list != nullptr) return match_for_people(*list, asked, plan);
  }
  plan.skip();
  if (asked.request.verb == request::Verb::noop) return;
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

void RuleSet::match_together(const Dialect* dialect, std::span<const Matching> requests, Plan& plan,
                             InlineLimits* lists) const {
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
    if (error.empty() && requests[i].request.message->needs_rule && !has_rule)
      error = request::no_rule_applies;
  }
  const size_t shadows = plan.joint_.size(), first_view = plan.views_.size();
  if (error.empty() && !plan.enforced_.empty()) {
    plan.open_group(false);
    const auto group = static_cast<uint32_t>(plan.groups_.size() - 1);
    plan.groups_.back().sparing =
        requests.front().request.message->refused == request::Refused::spares;
    for (size_t i = 0, at = 0; i < requests.size(); ++i) {
      for (; at < ends[i] && error.empty(); ++at) {
        const auto& [rule, key, actor] = plan.enforced_[at];
        uint32_t charge = 0, view = Plan::no_view;
        error = plan.add_joint_charge(*rule, key, requests[i], charge, view);
        if (error.empty() && plan.groups_.back().charge_count > base::bounds::group_charges_max)
          error = too_many_charges;
        plan.joint_.push_back({{rule, group, charge, 0, actor}, i, view});
      }
    }
    if (error.empty() && !plan.close_lists(first_view, shadows, lists))
      error = request::too_many_inline_limits;
    if (!error.empty()) {
      plan.drop_last_group();
      plan.views_.resize(first_view);
      plan.joint_.resize(shadows);
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    Plan::RequestPlan& part = plan.parts_[first + i];
    part.step_first = static_cast<uint32_t>(plan.steps_.size());
    part.groups_end = static_cast<uint32_t>(plan.groups_.size());
    part.error = error;
    part.enforced = error.empty() && ends[i] > (i == 0 ? 0 : ends[i - 1]);
    part.view_first = static_cast<uint32_t>(first_view);
    part.view_count = static_cast<uint32_t>(plan.views_.size() - first_view);
    part.order_first = static_cast<uint32_t>(plan.joint_order_.size());
    for (const auto& [step, its, view] : plan.joint_) {
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
