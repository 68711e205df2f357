#include "embed/core.h"

#include <algorithm>
#include <array>
#include <new>
#include <span>

#include "base/bounds.h"
#include "base/hash.h"
#include "embed/waits.h"
#include "limit/decide.h"

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
      waits_(std::make_unique<detail::waits>(*this)) {}

time_point core::now() {
  try {
    if (how_.clock) return how_.clock();
  } catch (...) {  // it must not throw
  }
  return time_point(duration(clock_.now().us));
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
  return shown.of(group.allowed);
}

decision core::decide(const handle& by, std::string_view key, int64_t cost, Ask ask,
                      time_point now) {
  if (!owns(by) || !is_sound(key, cost, now)) [[unlikely]]
    return failed(errc::invalid_argument);
  if (is_rule(by)) return decide_rule(by, key, cost, ask, internal(now));
  // Limits in code stay what they are, and known, as long as the handle.
  request::Charge charge;
  terms_of(by, key, ask.verb, internal(now), charge);
  charge.all = ask.all;
  charge.cost = cost;
  return settle_one(charge, internal(now));
}

decision core::decide_rule(const handle& by, std::string_view key, int64_t cost, Ask ask,
                           base::Time now) {
  const embed::Gate::Inside inside(gate_);
  request::Charge charge;
  if (!terms_of(by, key, ask.verb, now, charge)) return failed(errc::unknown_rule);
  charge.all = ask.all;
  charge.cost = cost;
  return settle_one(charge, now);
}

errc core::plan(view<charge> charges, Verb verb, base::Time now, embed::Charges& together) {
  together.charges.clear();
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
    if (same == together.charges.end()) {
      next.decision_first = decisions;
      decisions += static_cast<uint32_t>(next.limits.size());
      together.charges.push_back(next);
    } else if (same->limits_id != next.limits_id) {
      return errc::conflicting_limits;
    } else {
      same->cost = next.cost > INT64_MAX - same->cost ? INT64_MAX : same->cost + next.cost;
    }
  }
  together.decisions.resize(decisions);
  return errc::ok;
}

namespace {

// The decision of the charge that stands for `one`.
decision decision_of(const embed::Charges& together, size_t index, bool allowed) {
  const request::Charge& its = together.charges[index];
  Shown shown(its.verb);
  shown.add(std::span(together.decisions).subspan(its.decision_first, its.limits.size()));
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
  const embed::Gate::Inside inside(gate_);
  const embed::Scratches::Taken scratch(scratches_, inside.cell());
  embed::Charges& together = scratch->together;
  if (const errc why = plan(charges, verb, internal(now), together); why != errc::ok)
    return fail(why);
  request::Group all;
  all.charge_count = static_cast<uint32_t>(together.charges.size());
  store_->apply({{&all, 1}, together.charges, together.decisions}, internal(now));
  if (all.error != request::Error::none) return fail(embed::error_of(all.error));
  for (size_t i = 0; each != nullptr && i < charges.size(); ++i) {
    size_t at = 0;
    while (together.charges[at].key != charges[i].key ||
           together.charges[at].space != charges[i].by->terms_->now.space)
      ++at;
    each[i] = decision_of(together, at, all.allowed);
  }
  Shown shown(verb);
  shown.add(together.decisions);
  return shown.of(all.allowed);
}

void core::take_many(view<charge> charges, decision* each, time_point now) {
  if (!embed::is_sound(now)) {
    std::fill_n(each, charges.size(), failed(errc::invalid_argument));
    return;
  }
  for (size_t first = 0; first < charges.size(); first += batch_max) {
    const size_t count = std::min(batch_max, charges.size() - first);
    take_batch({charges.data() + first, count}, each + first, internal(now));
  }
}

void core::take_batch(view<charge> charges, decision* each, base::Time now) {
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

}  // namespace sluice::detail
