// The generic cell rate algorithm as RESP's CL.THROTTLE, THROTTLE and GCRA have it: burst, count
// and period come with each call, and a counter is one number, the theoretical arrival time (TAT).
// Pure functions over a State, so they have no owner and any thread may call them; inline,
// because the store calls them under a stripe's lock. What follows from a call's numbers alone, and
// all that may be wrong with them, is worked out before (`..._rate`), outside of locks.
//
// Sources: redis-cell 4d42338 (cell), throttlecrab 5d4a947 (crab), Redis' GCRA as it was written
// for 8.8 (redis). Where they lose a limit, a process or a fraction, this does not.
//
//   units        cell and crab: nanoseconds; redis: microseconds, and `now` is cut to whole
//                milliseconds. Signed 64 bits; products are taken in 128, and one that leaves 63 is
//                an error, never wrapped.
//   limit        window: E, the emission, in units: the time that brings a unit back. quota: L, the
//                limit. burst: F, the tolerance, in units of time.
//                  cell   E = trunc(period * 10^9 / count), divided as doubles, as the module does
//                         L = max_burst + 1                 F = E * L
//                  crab   E = floor(period * 10^9 / count)
//                         L = max_burst                     F = E * (L - 1), or ~F, below 0
//                  redis  E = max(1, round(period * 10^6 / count)), of doubles
//                         L = max_burst + 1, 2^63-1 at most F = E * L
//   state        units: the TAT, since 1970. fresh_at_us: the time from which the counter equals a
//                fresh one, rounded up: the TAT; of crab TAT + E of the call that wrote it. From
//                fresh_at_us on a counter is as one that is not there, whatever a call's numbers
//                are. All zero: fresh. 16 bytes, and the TAT alone is enough to come back to it
//                (tat_of, state_of), as for a counter that is shared with a Redis module.
//   base         cell, redis  max(now, TAT); now if there is none
//                crab         max(now - E, TAT); now - E if there is none
//   new TAT      base + E * quantity, and at least the base of a fresh counter: units given back
//                (quantity below 0; not for crab) fill it up, and what does not fit is spilled.
//   grant        iff new TAT - F <= now, and L is not negative. So quantity 0, a look, is granted
//                unless the counter owes more than this call's burst (which takes another call with
//                a larger one); and nothing but a look under L = 0.
//   write        The new TAT of a grant. A refusal and quantity 0 leave the state as it is.
//   remaining    max(0, trunc((now + F - T) / E)) of T, the new TAT of a grant, else the base.
//                0 to L; 0 for L < 0.
//   retry_after  0 when granted. Else new TAT - F - now: the same call is granted then, if none
//                comes between. cell and redis: `never` when E * quantity > F or L < 0. (crab has
//                no word for never: it tells the wait as if it could pass.)
//   reset_after  cell and redis: T - now, until the counter is as fresh. crab: T - now + F, what
//                throttlecrab tells, which is (L - 2) * E more than that. crab whose burst is ~F:
//                T - now + E, until the bucket is full (`telling_full`).
//   rounding     Durations are of whole microseconds, rounded up. Seconds (`seconds_up`) are
//                rounded up from these, which is as from nanoseconds: no wait is answered as 0.
//   bound        In T >= 1 microseconds, [a, a + T) for any a, calls with the same numbers take at
//                most (integer division)
//                    L + (T - 1) * 1000 / E                          cell, crab
//                    L + (T + 998) / 1000 * 1000 / E                 redis
//                units less those that were given back meanwhile, counted up to any grant.
//                Why: let t be the time of the first grant, u that of a later one, q what all of
//                these took less what they gave back. Each raises the TAT by E * quantity at least,
//                and the first from `now` at least (crab: now - E); so TAT(u) >= t + E * q (crab:
//                - E). It was granted, so TAT(u) <= u + F. So q <= (u - t + F) / E, and for crab 1
//                more. u - t is T - 1 us at most; of `now` cut to milliseconds, as many of these as
//                T - 1 us can meet. Some intervals do take that many: all that there is, at each
//                moment.
//   clock        The bound holds while the clock does not step back; it may stand still. After a
//                step back a counter owes what it owed and the step.
//   other rate   The TAT stays: what was used stays as a debt in time, not in units.
//   end of time  What would be a grant whose TAT or E * quantity leaves 63 bits is a refusal whose
//                retry_after is 0 (is_out_of_range), as that of no other refusal; it changes
//                nothing. A time before 1970 counts as 1970.
//
// Exact for every int64_t that the errors below do not name. The only floating point is that of the
// emission.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "limit/limit.h"
#include "limit/wide.h"

namespace sluice::limit::gcra {

// Why a call's numbers are not a valid limit.
enum class Error : uint8_t {
  none,
  zero_rate,     // cell: count or period 0, or an emission below a nanosecond
  not_positive,  // cell, redis: count or period below 0 (redis: 1); crab: one of three below 1, or
                 // an emission below a nanosecond
  bad_period,    // redis: not above 0 and below 10^12 s
  negative,      // redis: max_burst
  out_of_range,  // a product leaves 63 bits
};

// The result of a call's numbers: a limit, unless there is an error.
struct Rate {
  Error error = Error::none;
  Limit limit{};
};

inline constexpr int64_t nanoseconds = 1'000'000'000;  // in a second

constexpr bool is_gcra(Algorithm algorithm) {
  return algorithm >= Algorithm::gcra_cell && algorithm <= Algorithm::gcra_redis;
}

// The limit in a rule's list, where no call has given its numbers yet.
constexpr Limit without_numbers(Algorithm algorithm) {
  return {algorithm, 1, {1}, 1};
}

constexpr bool fits(Wide value) {
  return value >= INT64_MIN && value <= INT64_MAX;
}

// 2^63: the first double that does not fit.
inline constexpr double past_int64 = 9223372036854775808.0;

// `units`: the tolerance as a multiple of the emission.
inline Rate rate_of(Algorithm algorithm, int64_t emission, int64_t limit, int64_t units) {
  const Wide tolerance = Wide{emission} * units;
  if (!fits(tolerance)) return {Error::out_of_range};
  return {Error::none, {algorithm, limit, {emission}, static_cast<int64_t>(tolerance)}};
}

// CL.THROTTLE key max_burst count period, which is in seconds.
inline Rate cell_rate(int64_t max_burst, int64_t count, int64_t period) {
  if (count == 0 || period == 0) return {Error::zero_rate};
  if (count < 0 || period < 0) return {Error::not_positive};
  const Wide period_ns = Wide{period} * nanoseconds;
  if (!fits(period_ns) || max_burst == INT64_MAX) return {Error::out_of_range};
  const double emission =
      static_cast<double>(static_cast<int64_t>(period_ns)) / static_cast<double>(count);
  if (emission < 1) return {Error::zero_rate};
  if (emission >= past_int64) return {Error::out_of_range};
  return rate_of(Algorithm::gcra_cell, static_cast<int64_t>(emission), max_burst + 1,
                 max_burst + 1);
}

// THROTTLE key max_burst count_per_period period.
inline Rate crab_rate(int64_t max_burst, int64_t count, int64_t period) {
  if (max_burst < 1 || count < 1 || period < 1) return {Error::not_positive};
  const Wide period_ns = Wide{period} * nanoseconds;
  if (!fits(period_ns)) return {Error::out_of_range};
  const int64_t emission = static_cast<int64_t>(period_ns) / count;
  if (emission == 0) return {Error::not_positive};
  // The whole bucket must be representable in 63 bits too.
  if (!fits(Wide{emission} * max_burst)) return {Error::out_of_range};
  return rate_of(Algorithm::gcra_crab, emission, max_burst, max_burst - 1);
}

// GCRA key max_burst tokens_per_period period.
inline Rate redis_rate(int64_t max_burst, int64_t tokens, double period) {
  if (max_burst < 0) return {Error::negative};
  if (tokens < 1) return {Error::not_positive};
  if (!(period > 0 && period < 1e12)) return {Error::bad_period};
  // Below 10^18, so it fits.
  const double rounded = std::round(period * 1e6 / static_cast<double>(tokens));
  const auto emission = std::max<int64_t>(1, static_cast<int64_t>(rounded));
  const int64_t limit = max_burst == INT64_MAX ? max_burst : max_burst + 1;
  return rate_of(Algorithm::gcra_redis, emission, limit, limit);
}

// A limit of crab_rate whose reset_after is the time until its bucket is full.
constexpr Limit telling_full(Limit limit) {
  if (limit.burst >= 0) limit.burst = ~limit.burst;
  return limit;
}

// Was the limit made by telling_full?
constexpr bool tells_full(const Limit& limit) {
  return limit.algorithm == Algorithm::gcra_crab && limit.burst < 0;
}

// The part of a limit that each of `servers` grants if they do not know of one another: that part
// of the units, at least one, which come back that much more slowly.
inline Limit share_of(const Limit& limit, unsigned servers) {
  const auto cut = [](Wide n) {
    return static_cast<int64_t>(std::clamp<Wide>(n, INT64_MIN, INT64_MAX));
  };
  Limit share = limit;
  if (limit.quota > 0) share.quota = std::max<int64_t>(1, limit.quota / servers);
  share.window.us = cut(Wide{limit.window.us} * servers);
  const bool crab = limit.algorithm == Algorithm::gcra_crab;
  share.burst = cut(Wide{share.window.us} * (crab ? share.quota - 1 : share.quota));
  return tells_full(limit) ? telling_full(share) : share;
}

// The algorithm's units of time in a microsecond.
constexpr int64_t per_microsecond(Algorithm algorithm) {
  return algorithm == Algorithm::gcra_redis ? 1 : 1000;
}

// `now` in the algorithm's unit of time.
inline Wide instant(Algorithm algorithm, Time now) {
  const int64_t us = std::max<int64_t>(now.us, 0);
  return algorithm == Algorithm::gcra_redis ? Wide{us / 1000 * 1000} : Wide{us} * 1000;
}

inline Duration rounded_up(Algorithm algorithm, Wide length) {
  if (length <= 0) return {};
  if (length <= INT64_MAX) [[likely]] {
    const auto units = static_cast<int64_t>(length);
    return {algorithm == Algorithm::gcra_redis ? units : units / 1000 + (units % 1000 > 0 ? 1 : 0)};
  }
  const int64_t per = per_microsecond(algorithm);
  const Wide us = (length - 1) / per + 1;
  return us >= base::never.us ? base::never : Duration{static_cast<int64_t>(us)};
}

// The TAT at which a counter is as one that is not there: where its base would be at `now`.
inline Wide fresh_tat(const Limit& limit, Wide now) {
  return limit.algorithm == Algorithm::gcra_crab ? now - limit.window.us : now;
}

// The state with that TAT; of a limit, as crab's end depends on it.
inline State state_of(const Limit& limit, int64_t tat) {
  if (limit.algorithm == Algorithm::gcra_redis) {
    // The first microsecond of the first millisecond that is not before it.
    const Wide end = (Wide{tat} + 999) / 1000 * 1000;
    return {static_cast<int64_t>(std::min<Wide>(end, INT64_MAX)), tat};
  }
  const bool crab = limit.algorithm == Algorithm::gcra_crab;
  const Wide fresh_from = crab ? Wide{tat} + limit.window.us : Wide{tat};
  return {rounded_up(limit.algorithm, fresh_from).us, tat};
}

// The TAT of the state; nothing: the counter is fresh.
inline std::optional<int64_t> tat_of(const State& state, Time now) {
  if (state == State{} || state.fresh_at_us <= std::max<int64_t>(now.us, 0)) return {};
  return state.units;
}

// Does the refusal mean that the numbers exceed 63 bits?
inline bool is_out_of_range(const Decision& decision) {
  return !decision.allowed && decision.retry_after == Duration{};
}

inline Outcome out_of_range(const State& state, const Limit& limit) {
  return {{false, limit.quota, 0, base::never, Duration{}}, state};
}

// `limit` is of cell_rate, crab_rate or redis_rate, and the state of a counter of the same
// algorithm. cost: the quantity; below 0 units are given back.
inline Outcome decide(const State& state, const Limit& limit, int64_t cost, Time now) {
  SLUICE_CHECK(limit.window.us >= 1);
  const bool to_full = tells_full(limit);
  const int64_t emission = limit.window.us, tolerance = to_full ? ~limit.burst : limit.burst;
  const Wide added = Wide{emission} * cost;
  if (!fits(added)) return out_of_range(state, limit);
  const bool crab = limit.algorithm == Algorithm::gcra_crab;
  const Wide at = instant(limit.algorithm, now);
  const Wide fresh = fresh_tat(limit, at);
  const std::optional<int64_t> stored = tat_of(state, now);
  const Wide from = stored ? std::max<Wide>(*stored, fresh) : fresh;
  const Wide to = std::max(from + added, fresh);

  Outcome outcome{{}, state};
  Decision& d = outcome.decision;
  d.allowed = to - tolerance <= at && limit.quota >= 0;
  d.limit = limit.quota;
  if (d.allowed && cost != 0) {
    if (!fits(to)) return out_of_range(state, limit);
    outcome.next = to == fresh ? State{} : state_of(limit, static_cast<int64_t>(to));
  }
  const Wide current = d.allowed ? to : from;
  const Wide room = at + tolerance - current;
  // At most E * L, which fits.
  if (room > 0) d.remaining = static_cast<int64_t>(room) / emission;
  const int64_t told_besides = to_full ? emission : crab ? tolerance : 0;
  d.reset_after = rounded_up(limit.algorithm, current - at + told_besides);
  if (!d.allowed) {
    const bool can_pass = crab || (added <= tolerance && limit.quota >= 0);
    d.retry_after = can_pass ? rounded_up(limit.algorithm, to - tolerance - at) : base::never;
  }
  return outcome;
}

// Gives units back, at most as many as were used. Always allowed.
inline Outcome put(const State& state, const Limit& limit, int64_t units, Time now) {
  const Wide fresh = fresh_tat(limit, instant(limit.algorithm, now));
  const std::optional<int64_t> stored = tat_of(state, now);
  Outcome outcome{{}, State{}};
  if (stored) {
    const Wide to = Wide{*stored} - Wide{limit.window.us} * units;
    if (to > fresh) outcome.next = state_of(limit, static_cast<int64_t>(to));
  }
  outcome.decision = decide(outcome.next, limit, 0, now).decision;
  outcome.decision.allowed = true;
  outcome.decision.retry_after = {};
  return outcome;
}

// Whole seconds, rounded up.
inline int64_t seconds_up(Duration length) {
  return length.us / 1'000'000 + (length.us % 1'000'000 > 0 ? 1 : 0);
}

}  // namespace sluice::limit::gcra
