#include "embed/core.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <span>
#include <thread>

#include "base/bounds.h"
#include "base/diagnostic.h"
#include "base/hash.h"
#include "embed/caught.h"
#include "embed/reservations.h"
#include "embed/waits.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "policy/actor_name.h"
#include "policy/dialect.h"
#include "policy/read/native.h"
#include "policy/read/native_review.h"

namespace sluice::detail {

using embed::DecisionRoom;
using embed::failed;
using embed::internal;
using embed::Shown;
using request::Verb;

namespace {

constexpr size_t batch_max = 16;

bool is_sound(std::string_view key, int64_t cost, time_point now) {
  return cost >= 0 && key.size() <= key_bytes_max && embed::is_sound(now);
}

}  // namespace

core::core(options how)
    : how_(std::move(how)),
      spaces_(std::make_shared<request::Spaces>()),
      store_(std::make_unique<store::EmbeddedStore>(how_.memory_bytes, base::Hash(), *spaces_,
                                                    how_.waiting_max)),
      policy_(std::make_shared<const Policy>()),
      waits_(std::make_unique<detail::waits>(*this)),
      reservations_(how_.holds_max > 0 ? std::make_unique<detail::reservations>(*this, *store_)
                                       : nullptr) {}

base::Result<size_t> core::keep_holds(store::Store& store) {
  reservations_ = std::make_unique<detail::reservations>(*this, store);
  return reservations_->restore(internal(now()));
}

time_point core::now() {
  try {
    if (how_.clock) return how_.clock();
  } catch (...) {  // it must not throw
  }
  return time_point(duration(clock_.now().us));
}

void core::end_holds(base::Time now) {
  if (reservations_ != nullptr) [[unlikely]]
    reservations_->end_due(now);
}

time_point core::next_hold_end() const {
  return reservations_ == nullptr ? latest_time : embed::external(reservations_->next_due());
}

// The space and the limits of a charge: its handle's, or those of an override; a take of limits
// that count is charged to them where they refuse it. False: the rule is gone.
inline bool core::terms_of(const handle& by, std::string_view key, Verb verb, base::Time now,
                           request::Charge& charge) {
  const terms::Now& its = by.terms_->now;
  if (its.space == nullptr) [[unlikely]]
    return false;
  charge.space = its.space;
  charge.limits = its.limits;
  charge.limits_id = its.limits_id;
  charge.overdrafts = its.overdrafts.get();
  charge.key = key;
  charge.verb = verb == Verb::wait ? Verb::take : verb;
  if (its.rule == nullptr) return true;
  charge.counts = its.rule->counts;
  if (overrides_.size() > 0) {
    policy::Override::Terms instead;
    if (overrides_.find(its.rule->id, key, now, instead)) {
      charge.limits = instead.limits;
      charge.limits_id = instead.limits_id;
      charge.counts = policy::counts_of(*its.rule, instead.limits);
    }
  }
  if (verb == Verb::take && charge.counts != 0) charge.verb = Verb::count;
  return true;
}

inline decision core::settle_one(request::Charge& charge, base::Time now) {
  request::Group group;
  group.charge_count = 1;
  DecisionRoom<limits_per_counter_max> room;
  const auto decisions = room.first(charge.limits.size());
  store_->apply({{&group, 1}, {&charge, 1}, decisions}, now);
  if (group.error != request::Error::none) [[unlikely]]
    return failed(embed::error_of(group.error));
  Shown shown(charge.verb);
  shown.add(decisions.first(charge.limits.size()));
  if (charge.verb == Verb::charge) shown.charged(charge, charge.cost);
  return shown.of(group.allowed);
}

decision core::decide(const handle& by, std::string_view key, int64_t cost, request::Verb verb,
                      time_point now) {
  if (!owns(by) || !is_sound(key, cost, now)) [[unlikely]]
    return failed(errc::invalid_argument);
  end_holds(internal(now));
  if (is_rule(by)) return decide_rule(by, key, cost, verb, internal(now));
  // Limits in code stay what they are, and known, as long as the handle.
  request::Charge charge;
  terms_of(by, key, request::told_as(verb), internal(now), charge);
  charge.all = verb == request::Verb::reset;
  charge.cost = cost;
  return settle_one(charge, internal(now));
}

decision core::decide_rule(const handle& by, std::string_view key, int64_t cost, request::Verb verb,
                           base::Time now) {
  const embed::Gate::Inside inside(gate_);
  request::Charge charge;
  if (!terms_of(by, key, request::told_as(verb), now, charge)) return failed(errc::unknown_rule);
  charge.all = verb == request::Verb::reset;
  charge.cost = cost;
  return settle_one(charge, now);
}

namespace {

int64_t sum_of(int64_t a, int64_t b) {
  return b > INT64_MAX - a ? INT64_MAX : a + b;
}

bool same_overdrafts(const request::Charge& a, const request::Charge& b) {
  return a.overdrafts == b.overdrafts ||
         (a.overdrafts != nullptr && b.overdrafts != nullptr && *a.overdrafts == *b.overdrafts);
}

}  // namespace

errc core::plan(view<charge> charges, Verb verb, base::Time now, embed::Charges& together) {
  together.charges.clear();
  together.whose.clear();
  uint32_t decisions = 0;
  for (const charge& one : charges) {
    if (one.by == nullptr || !owns(*one.by) || one.cost < 0 || one.key.size() > key_bytes_max)
      return errc::invalid_argument;
    request::Charge next;
    if (!terms_of(*one.by, one.key, verb, now, next)) return errc::unknown_rule;
    next.cost = one.cost;
    const auto same = std::find_if(together.charges.begin(), together.charges.end(),
                                   [&](const request::Charge& other) {
                                     return other.space == next.space && other.key == next.key;
                                   });
    together.whose.push_back(static_cast<uint32_t>(same - together.charges.begin()));
    if (same == together.charges.end()) {
      next.decision_first = decisions;
      decisions += static_cast<uint32_t>(next.limits.size());
      together.charges.push_back(next);
    } else if (same->limits_id != next.limits_id || !same_overdrafts(*same, next)) {
      return errc::conflicting_limits;
    } else {
      same->cost = sum_of(same->cost, next.cost);
    }
  }
  together.decisions.resize(decisions);
  return errc::ok;
}

namespace {

// The decision of the charge that stands for one of `cost`.
decision decision_of(const embed::Charges& together, size_t index, bool allowed, int64_t cost) {
  const request::Charge& its = together.charges[index];
  Shown shown(its.verb);
  shown.add(std::span(together.decisions).subspan(its.decision_first, its.limits.size()));
  if (its.verb == Verb::charge) shown.charged(its, cost);
  return shown.of(allowed);
}

}  // namespace

decision core::settle_all(view<charge> charges, Verb verb, time_point now, decision* each) {
  const auto fail = [&](errc why) {
    if (each != nullptr) std::fill_n(each, charges.size(), failed(why));
    return failed(why);
  };
  if (charges.size() > charges_max || !embed::is_sound(now)) return fail(errc::invalid_argument);
  if (charges.size() == 0) return embed::unmatched();
  end_holds(internal(now));
  const embed::Gate::Inside inside(gate_);
  const embed::Scratches::Taken scratch(scratches_, inside.cell());
  embed::Charges& together = scratch->together;
  if (const errc why = plan(charges, verb, internal(now), together); why != errc::ok)
    return fail(why);
  request::Group all;
  all.charge_count = static_cast<uint32_t>(together.charges.size());
  store_->apply({{&all, 1}, together.charges, together.decisions}, internal(now));
  if (all.error != request::Error::none) return fail(embed::error_of(all.error));
  for (size_t i = 0; each != nullptr && i < charges.size(); ++i)
    each[i] = decision_of(together, together.whose[i], all.allowed, charges[i].cost);
  Shown shown(verb);
  shown.add(together.decisions);
  decision told = shown.of(all.allowed);
  if (verb == Verb::charge)
    for (const request::Charge& its : together.charges)
      told.charged = sum_of(told.charged, embed::charged_of(its, its.cost));
  return told;
}

void core::take_many(view<charge> charges, decision* each, time_point now) noexcept {
  if (!embed::is_sound(now)) {
    std::fill_n(each, charges.size(), failed(errc::invalid_argument));
    return;
  }
  for (size_t first = 0; first < charges.size(); first += batch_max) {
    const size_t count = std::min(batch_max, charges.size() - first);
    try {
      take_batch({charges.data() + first, count}, each + first, internal(now));
    } catch (...) {  // those before are taken
      std::fill_n(each + first, count, failed(embed::caught().code));
    }
  }
}

void core::take_batch(view<charge> charges, decision* each, base::Time now) {
  end_holds(now);
  const embed::Gate::Inside inside(gate_);
  std::array<request::Charge, batch_max> asked;
  std::array<request::Group, batch_max> groups;
  std::array<size_t, batch_max> whose;
  DecisionRoom<batch_max * limits_per_counter_max> room;
  uint32_t count = 0, decisions = 0;
  for (size_t i = 0; i < charges.size(); ++i) {
    const charge& one = charges[i];
    if (one.by == nullptr || !owns(*one.by) || one.cost < 0 || one.key.size() > key_bytes_max) {
      each[i] = failed(errc::invalid_argument);
      continue;
    }
    request::Charge& next = asked[count];
    if (!terms_of(*one.by, one.key, Verb::take, now, next)) {
      each[i] = failed(errc::unknown_rule);
      continue;
    }
    next.cost = one.cost;
    next.decision_first = decisions;
    decisions += static_cast<uint32_t>(next.limits.size());
    groups[count].charge_first = count;
    groups[count].charge_count = 1;
    groups[count].may_fail = true;
    whose[count++] = i;
  }
  store_->apply(
      {std::span(groups).first(count), std::span(asked).first(count), room.first(decisions)}, now);
  for (uint32_t i = 0; i < count; ++i) {
    if (groups[i].error != request::Error::none) {
      each[whose[i]] = failed(embed::error_of(groups[i].error));
      continue;
    }
    Shown shown(Verb::take);
    shown.add(room.first(decisions).subspan(asked[i].decision_first, asked[i].limits.size()));
    each[whose[i]] = shown.of(groups[i].allowed);
  }
}

// Work that no call asks for: forgetting counters, limits and overrides; the thread that does so,
// if it is asked for; and what is due.

using embed::internal;

core::~core() {
  waits_->drop_holds();
  if (thread_ == nullptr) return;
  // A child after fork() has no such thread.
  if (process_ != getpid()) {
    static_cast<void>(thread_.release());
    return;
  }
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->ending = true;
  }
  thread_->ends.notify_all();
  thread_->thread.join();
}

void core::start_sweeping() {
  thread_ = std::make_unique<Thread>();
  process_ = getpid();
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_->thread = std::thread([this] { keep_house(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    thread_.reset();
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void core::keep_house() {
  const auto period = std::chrono::microseconds(store::Catalog::housekeeping_period.us);
  std::unique_lock lock(thread_->mutex);
  while (!thread_->ends.wait_for(lock, period, [this] { return thread_->ending; })) {
    lock.unlock();
    try {
      // What a step of the clock may still take back is not over.
      const time_point now =
          how_.clock ? how_.clock() : time_point(duration(clock_.earliest_now().us));
      sweep(store_->chains() / 100 + 1, now);
    } catch (...) {  // no memory: later
    }
    lock.lock();
  }
}

void core::sweep(std::size_t steps, time_point now) {
  if (!embed::is_sound(now)) return;
  end_holds(internal(now));
  {
    const std::lock_guard lock(change_);
    end_overrides(now);
  }
  const std::unique_lock lock(keep_house_, std::try_to_lock);
  if (!lock) return;  // another thread does
  store_->sweep(internal(now), steps);
  if (!spaces_->wants_round() || store_->is_walking()) return;
  request::Marks marks = spaces_->begin_round();
  { const embed::Gate::Closed all_have_left(gate_); }
  mark_all(marks);
  spaces_->end_round(marks);
}

// Forgets limits and spaces that nothing names. Not with change_ or in the gate.
void core::collect() {
  const std::lock_guard lock(keep_house_);
  request::Marks marks = spaces_->begin_round();
  { const embed::Gate::Closed all_have_left(gate_); }
  mark_all(marks);
  spaces_->end_round(marks);
}

void core::mark_all(request::Marks& marks) {
  for (bool first = true; !store_->mark_named(marks, first); first = false)
    if (store_->is_walking()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

limiter_stats core::stats() const {
  const store::Stats its = store_->stats();
  return {.counters = its.counters,
          .memory_bytes = its.memory_bytes,
          .memory_bytes_max = its.memory_bytes_max,
          .swept = its.swept,
          .refused = its.refused,
          .waiting = its.waiting,
          .limits = spaces_->known(),
          .holds = reservations_ == nullptr ? 0 : reservations_->size()};
}

due core::run_due(time_point now) {
  if (!embed::is_sound(now)) return {0, latest_time};
  end_holds(internal(now));
  waits::Done done;
  due ran;
  {
    const std::lock_guard lock(change_);
    ran.next = waits_->run(now, override_ends_, done);
  }
  // Nothing of this is touched from here on: a callback may destroy the limiter.
  for (waits::Waiting& one : done) {
    try {
      if (one.callback) one.callback(one.id, one.last);
    } catch (...) {  // it is the callback's own
    }
  }
  ran.called = done.size();
  return ran;
}

// Rules, limits in code and overrides: what a limiter's decisions go by, and how it is exchanged.

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
    case algorithm::concurrency:
      return limit::Algorithm::concurrency;
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
  if (one.overdraft < 0 || one.overdraft > quota_max)
    return "overdraft must be 0 to " + std::to_string(quota_max);
  if (!one.calendar.empty()) {
    if (one.window.count() != 0) return "a window of the calendar has no length; leave it 0";
    if (one.algorithm != algorithm::aligned_window && one.algorithm != algorithm::token_bucket)
      return "a window of the calendar is of aligned_window alone, as they differ in length";
    if (one.burst != 0) return "only a token_bucket has a burst; leave it 0";
    return {};
  }
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
  if (limit.algorithm == limit::Algorithm::concurrency) limit.burst = limit.window.us;
  return limit;
}

// Of a limit that names one; what is wrong with it in `problem`.
limit::Limit calendar_limit_of(const limit_spec& one, std::string& problem) {
  limit::Limit limit{.algorithm = limit::Algorithm::aligned_window, .quota = one.quota};
  const auto terms = limit::parse_calendar(one.calendar);
  if (!terms) {
    problem = "calendar is not like \"month@Europe/Berlin,month_day=9\"";
    return limit;
  }
  const limit::Calendar::Made its = limit::Calendar::of(*terms);
  limit.window = limit::Calendar::nominal(terms->unit);
  limit.calendar = its.calendar;
  if (limit.calendar) return limit;
  const limit::CalendarProblem why = limit::problem_of(its.fault, *terms, true);
  problem = why.message + "; " + why.remedy;
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
    std::string problem = problem_of(all[i]);
    if (problem.empty())
      limits.push_back(all[i].calendar.empty() ? limit_of(all[i])
                                               : calendar_limit_of(all[i], problem));
    if (!problem.empty()) return error{errc::invalid_argument, where(i) + problem};
  }
  if (limit::cells(limits) > limit::cells_max)
    return error{errc::invalid_argument,
                 "the limits need more memory than one counter may have; have at most two of "
                 "algorithm sliding_log or concurrency with a quota of 32 or more"};
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
  limit::Overdrafts overdrafts;
  for (size_t i = 0; i < all.size(); ++i) overdrafts.add((*limits)[i], all[i].overdraft);
  if (overdrafts.has_any()) its.overdrafts = std::make_shared<const limit::Overdrafts>(overdrafts);
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
  its.now.overdrafts = rule->overdrafts;
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
  // A program may have installed newer data of time zones.
  limit::Calendar::use_zone_data({});
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
  return {std::move(report)};  // a copy could fail, and it is done
}

result<void> core::set_override(const override_spec& one, time_point now) {
  if (!embed::is_sound(now) || !embed::is_sound(one.until))
    return error{errc::invalid_argument, "the time is out of range"};
  auto limits = limits_of(one.limits);
  if (!limits) return limits.why();
  for (size_t i = 0; i < one.limits.size(); ++i)
    if (one.limits[i].overdraft != quota_max)
      return error{errc::invalid_argument,
                   where(i) + "the overdraft is the rule's, which its overrides keep; leave it"};
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
  const bool is_new = !overrides_set_.contains(key);
  if (overrides_set_.size() >= base::bounds::overrides_max && is_new)
    return error{errc::too_many_overrides, "the table of overrides is full; remove some"};
  policy::Override next;
  next.rule = rule->second->id;
  next.actor = std::move(values);
  next.set = internal(now);
  next.terms = {.id = ++last_override_,
                .until = one.until == latest_time ? base::Time{INT64_MAX} : internal(one.until),
                .limits = spaces_->limits(held.id()),
                .limits_id = held.id()};
  // All that takes memory, before anything is changed.
  Override its{one, next.actor, next.rule, held};
  std::set<time_point> end;
  if (one.until != latest_time) end.insert(one.until);
  const auto at = overrides_set_.try_emplace(key).first;
  // What it replaces stays known until what waits by it has been matched again.
  std::swap(at->second, its);
  const auto take_back = [&] {
    std::swap(at->second, its);
    if (is_new) overrides_set_.erase(at);
  };
  bool has_room = true;
  try {
    waits_->change(now, [&] { has_room = overrides_.set(next); });
  } catch (...) {
    take_back();
    throw;
  }
  if (!has_room) {
    take_back();
    return error{errc::too_many_overrides,
                 "too many patterns of rule `" + one.rule + "` begin like this one"};
  }
  override_ends_.merge(end);
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
  waits_->change(now, [&] { overrides_.remove(at->second.rule, at->second.actor); });
  overrides_set_.erase(at);
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
  // Where memory runs out the next call goes on.
  waits_->change(now, [&] {
    for (const auto& [key, one] : overrides_set_)
      if (one.as_set.until <= now) overrides_.remove(one.rule, one.actor);
  });
  std::erase_if(overrides_set_, [&](const auto& one) { return one.second.as_set.until <= now; });
  override_ends_.erase(override_ends_.begin(), override_ends_.upper_bound(now));
}

core::Matched::Matched(core& its, view<entry> descriptor, int64_t cost, request::Verb verb,
                       time_point now) {
  if (cost < 0 || descriptor.size() > base::bounds::descriptor_entries_max || !embed::is_sound(now))
    return;
  auto* const entries = reinterpret_cast<request::Entry*>(room_);
  for (size_t i = 0; i < descriptor.size(); ++i) {
    if (descriptor[i].value.size() > key_bytes_max) return;
    new (&entries[i]) request::Entry{descriptor[i].key, descriptor[i].value};
  }
  its.end_holds(internal(now));
  inside_.emplace(its.gate_);
  scratch_.emplace(its.scratches_, inside_->cell());
  its.policy_->rules.match(nullptr,
                           {.descriptor = {entries, descriptor.size()},
                            .request = {.verb = verb, .cost = cost, .tag = {}},
                            .now = internal(now),
                            .overrides = its.overrides_table()},
                           plan());
  why_ = plan().parts().back().error.empty() ? errc::ok : errc::cannot_match;
}

decision core::decide(view<entry> descriptor, int64_t cost, request::Verb verb, time_point now) {
  const Matched matched(*this, descriptor, cost, verb, now);
  if (matched.why() != errc::ok) return failed(matched.why());
  policy::Plan& plan = matched.plan();
  const auto& part = plan.parts().back();
  store_->apply(plan.batch(), internal(now));
  embed::Shown shown(verb);
  bool allowed = true;
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    const request::Group& group = plan.group(step);
    if (group.error != request::Error::none) return failed(embed::error_of(group.error));
    allowed = group.allowed;
    shown.add(plan.decisions(step));
    if (verb == Verb::charge) shown.charged(plan.charge(step), cost);
  }
  return shown.of(allowed);
}

}  // namespace sluice::detail
