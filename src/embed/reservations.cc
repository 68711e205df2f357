#include "embed/reservations.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/check.h"
#include "embed/core.h"
#include "embed/decisions.h"
#include "embed/waits.h"

namespace sluice::detail {

using embed::failed;
using embed::internal;
using embed::Shown;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;
using store::HoldBook;

static_assert(holds_most == base::bounds::holds_max);
static_assert(hold_ttl_max.count() == base::bounds::hold_us_max);

namespace {

// The public name of a hold is 16 bytes, the one in the book is their text in base64url.
constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t id_bytes = 22;

std::array<char, id_bytes> id_of(const hold& its) {
  std::array<char, id_bytes> id;
  // 6 bits each, the highest first; the last one has 2, and 4 that are 0.
  for (size_t i = 0; i < id_bytes; ++i) {
    const size_t first = 6 * i;
    uint64_t six;
    if (first + 6 <= 64)
      six = its.high >> (58 - first);
    else if (first < 64)
      six = its.high << (first - 58) | its.low >> (122 - first);
    else
      six = first <= 122 ? its.low >> (122 - first) : its.low << (first - 122);
    id[i] = digits[six & 63];
  }
  return id;
}

hold hold_of(std::string_view id) {
  hold its;
  if (id.size() != id_bytes) return its;
  for (size_t i = 0; i < id_bytes; ++i) {
    const uint64_t six = digits.find(id[i]);
    const size_t first = 6 * i;
    if (first + 6 <= 64) {
      its.high |= six << (58 - first);
    } else if (first < 64) {
      its.high |= six >> (first - 58);
      its.low |= six << (122 - first);
    } else {
      its.low |= first <= 122 ? six << (122 - first) : six >> (first - 122);
    }
  }
  return its;
}

bool are_units(view<int64_t> all) {
  return all.size() <= charges_max &&
         std::all_of(all.begin(), all.end(), [](int64_t n) { return n >= 0 && n <= quota_max; });
}

bool is_length(duration ttl) {
  return ttl >= duration(0);
}

base::Duration internal_length(duration ttl) {
  return {std::min(ttl, hold_ttl_max).count()};
}

int64_t sum_of(std::span<const int64_t> all) {
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

errc error_of(const HoldCall& call) {
  switch (call.outcome) {
    case HoldOutcome::done:
    case HoldOutcome::refused:
    case HoldOutcome::not_held:
    case HoldOutcome::waiting:
      return errc::ok;
    case HoldOutcome::failed:
      return call.error == request::Error::none ? errc::internal : embed::error_of(call.error);
    case HoldOutcome::unknown:
      return errc::no_such_hold;
    case HoldOutcome::settled:
      return errc::already_settled;
    case HoldOutcome::ended:
      return errc::hold_ended;
    case HoldOutcome::full:
      return errc::too_many_holds;
    case HoldOutcome::wrong_number:
      return errc::invalid_argument;
    case HoldOutcome::no_places:
      return errc::no_places;
    case HoldOutcome::in_use:  // only of ids that a caller chooses
      break;
  }
  return errc::internal;
}

bool is_refused(const HoldCall& call) {
  return call.outcome == HoldOutcome::refused || call.outcome == HoldOutcome::waiting;
}

// Of a call that is answered by the hold alone: the limit that is nearest its end.
decision decision_of(const HoldCall& call, Verb verb) {
  const errc why = error_of(call);
  if (why != errc::ok) return failed(why);
  Shown shown(verb);
  if (call.has_decision) shown.add({&call.decision, 1});
  return shown.of(call.outcome == HoldOutcome::done);
}

// Limits in code have no rule that says less.
constexpr HoldTerms terms_of_code{.ttl_max = {base::bounds::hold_us_max}};

// What holds for all charges of a reservation.
class JoinedTerms {
 public:
  // One more charge: its rule's terms, and its limits. `units`: how many of its units may be held.
  void add(const HoldTerms& its, std::span<const limit::Limit> limits, int64_t& units) {
    if (std::exchange(any_, true))
      terms_.join(its);
    else
      terms_ = its;
    for (const limit::Limit& limit : limits) {
      if (limit::has_places(limit)) {
        has_places_ = true;
        lease_ = std::min(lease_, limit.window);
        lease_max_ = std::min(lease_max_, base::Duration{limit.burst});
      } else if (limit::has_counter(limit.algorithm)) {
        units = std::min(units, its.most_of(limit::units_max(limit)));
      }
    }
  }
  // The terms, and of places how long they are held. Nothing: there are none to acquire.
  std::optional<HoldTerms> of(HoldCall& call) const {
    HoldTerms terms = terms_;
    terms.ttl_max = std::min(terms.ttl_max, lease_max_);
    if (!call.is_place) return terms;
    if (!has_places_) return std::nullopt;
    if (call.ttl.us == 0) call.ttl = lease_;
    // An ended place is never revived.
    return HoldTerms{.ttl_max = lease_max_, .ignores_late = true};
  }

 private:
  HoldTerms terms_ = terms_of_code;
  bool any_ = false, has_places_ = false;
  base::Duration lease_ = base::never, lease_max_ = base::never;
};

// The call of a reserve: of one that is parked it goes on.
HoldCall& begun(reservations::Kind kind, duration ttl, reservations::Pending* pending,
                HoldCall& own) {
  HoldCall& call = pending == nullptr ? own : pending->call;
  if (pending != nullptr && pending->wait != nullptr) return call;
  call = {.ask = HoldAsk::reserve,
          .ttl = internal_length(ttl),
          .is_place = kind == reservations::Kind::place};
  return call;
}

}  // namespace

reservations::reservations(core& its_core, store::Store& store)
    : core_(its_core),
      holds_(store, its_core.spaces(),
             {.most = its_core.how().holds_max,
              .ttl = {its_core.how().hold_ttl.count()},
              .remember = {its_core.how().hold_remember.count()}}) {}

void reservations::end(base::Time now) {
  const embed::Gate::Inside inside(core_.gate());
  holds_.end_due(now);
}

// With the gate entered. Units of charges that are one count together.
void reservations::hold_all(HoldCall& call, const std::optional<HoldTerms>& terms,
                            request::Batch batch, std::span<const HoldBook::Share> shares,
                            std::span<const int64_t> units, base::Time now, Pending* pending) {
  if (!terms) {
    call.outcome = HoldOutcome::no_places;
    return;
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    int64_t cost = 0;
    for (size_t subject = 0; subject < units.size(); ++subject)
      if ((shares[i].subjects >> subject & 1) != 0) cost += units[subject];
    batch.charges[i].cost = cost;
  }
  if (pending == nullptr || batch.groups.empty() || batch.groups.back().may_fail) {
    SLUICE_CHECK(holds_.reserve(call, *terms, batch, shares, units, now, {}));
    return;
  }
  request::Group& group = batch.groups.back();
  group.may_wait = true;
  group.ticket = pending->asker.ticket;
  group.arrival = pending->arrival;
  call.waits = true;
  if (pending->wait != nullptr) batch.groups = batch.groups.last(1);  // shadow rules hold theirs
  SLUICE_CHECK(holds_.reserve_or_wait(call, *terms, batch, shares, units, now, pending->asker,
                                      pending->wait));
  pending->arrival = group.arrival;
  pending->answered = group.answered;
  pending->fits = true;
  if (group.error != request::Error::none) return;
  for (const auto& its : batch.charges.subspan(group.charge_first, group.charge_count))
    for (const auto& one : batch.decisions.subspan(its.decision_first, its.limits.size()))
      if (!one.allowed && one.retry_after.us != 0 && (its.cost > one.limit || one.limit == 0))
        pending->fits = false;
}

reservation reservations::reserve(Kind kind, view<charge> charges, duration ttl, time_point now,
                                  int64_t* each, Pending* pending) {
  if (charges.size() > charges_max || !is_length(ttl) || !embed::is_sound(now))
    return {failed(errc::invalid_argument)};
  end_due(internal(now));
  HoldCall own;
  HoldCall& call = begun(kind, ttl, pending, own);
  decision answer;
  {
    const embed::Gate::Inside inside(core_.gate());
    const embed::Scratches::Taken scratch(core_.scratches(), inside.cell());
    embed::Charges& together = scratch->together;
    if (const errc why = core_.plan(charges, Verb::reserve, internal(now), together);
        why != errc::ok)
      return {failed(why)};
    std::vector<HoldBook::Share> shares(together.charges.size());
    std::vector<int64_t> units(charges.size());
    JoinedTerms terms;
    for (size_t i = 0; i < charges.size(); ++i) {
      if (charges[i].cost > quota_max) return {failed(errc::invalid_argument)};
      const policy::Rule* const rule = core::rule_of(*charges[i].by);
      const size_t at = together.whose[i];
      shares[at].subjects |= uint64_t{1} << i;
      shares[at].rule = core::name_of(*charges[i].by);
      units[i] = charges[i].cost;
      terms.add(rule == nullptr ? terms_of_code : rule->reserve, together.charges[at].limits,
                units[i]);
    }
    request::Group all;
    all.charge_count = static_cast<uint32_t>(together.charges.size());
    hold_all(call, terms.of(call),
             {{&all, all.charge_count > 0 ? 1u : 0u}, together.charges, together.decisions}, shares,
             units, internal(now), pending);
    if (all.error != request::Error::none) call.error = all.error;
    if (error_of(call) == errc::ok) {
      Shown shown(Verb::reserve);
      shown.add(together.decisions);
      answer = shown.of(!is_refused(call));
    } else {
      answer = failed(error_of(call));
    }
  }
  if (pending != nullptr) return told(call, answer, now, each);
  return noted(told(call, answer, now, each));
}

reservation reservations::reserve(Kind kind, view<entry> descriptor, int64_t cost, duration ttl,
                                  time_point now, Pending* pending) {
  if (cost > quota_max || !is_length(ttl)) return {failed(errc::invalid_argument)};
  HoldCall own;
  HoldCall& call = begun(kind, ttl, pending, own);
  decision answer;
  {
    const core::Matched matched(core_, descriptor, cost, Verb::reserve, now);
    if (matched.why() != errc::ok) return {failed(matched.why())};
    policy::Plan& plan = matched.plan();
    const auto& part = plan.parts().back();
    // It waits by rules that apply no more.
    if (pending != nullptr && pending->wait != nullptr && !plan.may_wait())
      return {failed(errc::unknown_rule)};
    const request::Batch batch = plan.batch();
    std::vector<HoldBook::Share> shares(batch.charges.size());
    int64_t units = cost;
    JoinedTerms terms;
    for (const auto& step : plan.steps(part)) {
      shares[step.charge].subjects = 1;
      shares[step.charge].rule = step.rule->name;
      if (step.rule->mode == policy::Mode::enforce)
        terms.add(step.rule->reserve, plan.charge(step).limits, units);
    }
    hold_all(call, terms.of(call), batch, shares, {&units, 1}, internal(now), pending);
    Shown shown(Verb::reserve);
    for (const auto& step : plan.steps(part)) {
      if (step.rule->mode != policy::Mode::enforce) continue;
      if (call.outcome == HoldOutcome::failed) call.error = plan.group(step).error;
      if (error_of(call) == errc::ok) shown.add(plan.decisions(step));
    }
    answer = error_of(call) == errc::ok ? shown.of(!is_refused(call)) : failed(error_of(call));
  }
  if (pending != nullptr) return told(call, answer, now, nullptr);
  return noted(told(call, answer, now, nullptr));
}

void reservations::grant(Pending& its, const decision& answer, time_point at) {
  {
    const embed::Gate::Inside inside(core_.gate());
    holds_.grant(its.call, *its.wait, internal(at));
  }
  its.wait.reset();
  const errc why = error_of(its.call);
  its.answer = told(its.call, why == errc::ok ? answer : failed(why), at, nullptr);
}

void reservations::drop(Pending& its, bool is_granted, time_point now) {
  const auto wait = std::move(its.wait);
  const embed::Gate::Inside inside(core_.gate());
  holds_.drop(*wait, is_granted, internal(now));
}

reservation reservations::told(const HoldCall& call, const decision& answer, time_point now,
                               int64_t* each) {
  reservation its;
  its.now = answer;
  if (call.outcome != HoldOutcome::done) return its;
  its.id = hold_of(call.made_id);
  its.until = now + duration(call.ends_in.us);
  its.reserved = sum_of(call.reserved);
  if (each != nullptr) std::copy(call.reserved.begin(), call.reserved.end(), each);
  return its;
}

// `run_due` has to be called by its end. Outside the gate.
reservation reservations::noted(reservation its) {
  if (its.id) core_.waits().note_end(its.until);
  return its;
}

void reservations::settle(const hold& its, HoldCall& call, base::Time now) {
  const auto id = id_of(its);
  call.id = {id.data(), id.size()};
  const embed::Gate::Inside inside(core_.gate());
  SLUICE_CHECK(holds_.settle(call, now, {}));
}

reservation reservations::change(const hold& its, HoldAsk ask, view<int64_t> more, duration ttl,
                                 time_point now, int64_t* each) {
  if (!are_units(more) || !is_length(ttl) || !embed::is_sound(now))
    return {failed(errc::invalid_argument)};
  end_due(internal(now));
  HoldCall call{.ask = ask, .ttl = internal_length(ttl), .units = {more.begin(), more.end()}};
  settle(its, call, internal(now));
  reservation changed = noted(told(call, decision_of(call, Verb::take), now, each));
  if (call.outcome != HoldOutcome::refused) return changed;
  changed.id = its;
  changed.reserved = sum_of(call.reserved);
  if (each != nullptr) std::copy(call.reserved.begin(), call.reserved.end(), each);
  return changed;
}

settlement reservations::settle(const hold& its, HoldAsk ask, view<int64_t> used, time_point now) {
  if (!are_units(used) || !embed::is_sound(now)) return {failed(errc::invalid_argument)};
  end_due(internal(now));
  HoldCall call{.ask = ask, .units = {used.begin(), used.end()}};
  settle(its, call, internal(now));
  settlement told;
  told.now = decision_of(call, Verb::charge);
  told.now.retry_after = told.now.reset_after = {};  // the book does not keep them
  told.used = sum_of(call.used);
  if (call.outcome != HoldOutcome::done) return told;
  told.returned = call.returned;
  told.charged = call.charged;
  told.late = call.late;
  told.repeated = call.repeated;
  return told;
}

}  // namespace sluice::detail
