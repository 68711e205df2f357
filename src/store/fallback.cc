#include "store/fallback.h"

#include <algorithm>
#include <array>

#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/kept_limits.h"
#include "store/store.h"

namespace sluice::store {

using limit::Decision;
using limit::Limit;
using limit::State;
using request::Charge;
using request::OnError;
using request::Verb;

namespace {

Decision refused(const Limit& limit) {
  return {false, limit::units_max(limit), 0, try_again_after, try_again_after};
}

bool as_kept(Charge& charge, Decision* decisions, OnError wanted, base::Time now) {
  std::array<State, limit::cells_max> unused;
  const auto& windows = charge.space->windows;
  const auto result = charge.verb == Verb::take || charge.verb == Verb::would_take
                          ? limit::kept_limits::take(windows, {}, charge.limits, charge.cost, now,
                                                     unused.data(), decisions, false)
                          : limit::kept_limits::peek(windows, {}, now, decisions);
  charge.slot_mask = result.mask;
  if (wanted == OnError::allow) return result.allowed;
  for (size_t i = 0; i < windows.size(); ++i) {
    if ((result.mask >> i & 1) == 0) continue;
    *decisions = {false, decisions->limit, 0, try_again_after, try_again_after};
    ++decisions;
  }
  return false;
}

bool as_fresh(Charge& charge, Decision* decisions, OnError wanted, base::Time now) {
  bool allowed = true;
  charge.dropped = 0;
  for (const Limit& limit : charge.limits) {
    const auto at = static_cast<size_t>(&limit - charge.limits.data());
    const int64_t cost = charge.cost_of(at);
    std::array<State, limit::limit_cells_max> cells{};
    int64_t charged = 0;
    // A limit without a counter needs no store.
    if (wanted == OnError::deny && limit::has_counter(limit.algorithm))
      *decisions = refused(limit);
    else if (charge.verb == Verb::put)
      *decisions = limit::put(cells.data(), limit, charge.cost, charge.all, now, cells.data());
    else if (charge.verb == Verb::peek)
      *decisions = limit::peek(cells.data(), limit, now);
    else if (charge.verb == Verb::charge)
      *decisions =
          limit::debt::charge(cells.data(), limit, cost, now, charge.overdraft_of(at), charged);
    else if (charge.verb == Verb::count && limit::has(charge.counts, at))
      *decisions =
          limit::debt::count(cells.data(), limit, cost, now, charge.overdraft_of(at), charged);
    else
      *decisions = limit::decide(cells.data(), limit, cost, now, cells.data());
    allowed &= decisions->allowed;
    ++decisions;
  }
  return allowed;
}

}  // namespace

void fall_back(request::Group& group, const request::Batch& batch, request::Error error,
               base::Time now) {
  group.allowed = group.parked = group.answered = false;
  group.error = request::Error::none;
  if (group.answer_by <= now) {
    group.error = request::Error::deadline;
    return;
  }
  if (group.on_error == OnError::error || group.on_error == OnError::local) {
    group.error = error;
    return;
  }
  group.allowed = true;
  for (Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    Decision* const decisions = &batch.decisions[charge.decision_first];
    group.allowed &= charge.keeps_limits ? as_kept(charge, decisions, group.on_error, now)
                                         : as_fresh(charge, decisions, group.on_error, now);
  }
}

std::string_view Store::message_for(request::Error error) const {
  switch (error) {
    case request::Error::none:
      break;
    case request::Error::memory:
      return "the counter memory is full; raise store.memory, or wait for counters to expire";
    case request::Error::store:
      return "the store of the counters cannot be reached";
    case request::Error::deadline:
      return "the store of the counters did not answer in time";
    case request::Error::overloaded:
      return "too many requests wait for the store of the counters";
    case request::Error::no_space:
      return "the store of the counters has no room for a new one";
    case request::Error::read_only:
      return "the store of the counters takes no change";
    case request::Error::auth_failed:
      return "the store of the counters does not let this server in";
    case request::Error::wrong_type:
      return "what is stored under the counter's key is not a counter";
    case request::Error::no_number:
      return "value is not an integer or out of range";
  }
  return "";
}

}  // namespace sluice::store
