// The model of CL.THROTTLE, THROTTLE and GCRA, for tests: unbounded integers, the formulas of the
// specification in their order, one counter.
#pragma once

#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstdint>
#include <optional>

#include "limit/gcra.h"

namespace sluice::limit::gcra_model {

using Int = boost::multiprecision::cpp_int;
using Five = std::array<int64_t, 5>;

inline const Int int_min = -(Int(1) << 63), int_max = (Int(1) << 63) - 1;

struct Call {
  Algorithm kind = Algorithm::gcra_cell;
  int64_t max_burst = 0, count = 1;
  int64_t period = 1;  // for gcra_redis in microseconds: its double is period / 10^6
  int64_t quantity = 1;
  bool to_full = false;  // for gcra_crab: its reset_after is the time until the bucket is full
};

inline gcra::Rate rate_of(const Call& call) {
  if (call.kind == Algorithm::gcra_cell)
    return gcra::cell_rate(call.max_burst, call.count, call.period);
  if (call.kind == Algorithm::gcra_crab) {
    gcra::Rate rate = gcra::crab_rate(call.max_burst, call.count, call.period);
    if (call.to_full && rate.error == gcra::Error::none)
      rate.limit = gcra::telling_full(rate.limit);
    return rate;
  }
  return gcra::redis_rate(call.max_burst, call.count, static_cast<double>(call.period) / 1e6);
}

inline Int ceil_div(const Int& a, const Int& b) {
  const Int down = a / b;  // toward 0
  return a > 0 && down * b != a ? Int(down + 1) : down;
}

// The replies about one key: five integers as the command has them, or nothing for an error. Each
// algorithm has a function of its own, as the specification has a formula for each.
class Key {
 public:
  std::optional<Five> ask(const Call& call, int64_t now_us) {
    if (call.kind == Algorithm::gcra_cell) return cell(call, Int(now_us) * 1000);
    if (call.kind == Algorithm::gcra_crab) return crab(call, Int(now_us) * 1000);
    return redis(call, Int(now_us / 1000) * 1000);
  }
  // For a key of which all calls were of one kind.
  bool fresh(Algorithm kind, int64_t now_us) const {
    const int64_t us = kind == Algorithm::gcra_redis ? now_us / 1000 * 1000 : now_us;
    return !tat_ || Int(us) * 1000 >= fresh_from_;
  }

 private:
  static bool fits(const Int& n) { return n >= int_min && n <= int_max; }
  static int64_t number(const Int& n) { return static_cast<int64_t>(n); }

  std::optional<Five> cell(const Call& call, const Int& now) {
    const Int period = Int(call.period) * 1'000'000'000, limit = Int(call.max_burst) + 1;
    if (call.count <= 0 || call.period <= 0 || !fits(period) || !fits(limit)) return {};
    const Int emission(
        std::trunc(static_cast<double>(number(period)) / static_cast<double>(call.count)));
    if (emission == 0 || !fits(emission)) return {};
    return as_cell(call, now, emission, limit, 1'000'000'000, 1);
  }

  std::optional<Five> redis(const Call& call, const Int& now) {
    if (call.max_burst < 0 || call.count < 1 || call.period < 1) return {};
    const double exact = static_cast<double>(call.period) / 1e6 * 1e6;
    Int emission(std::round(exact / static_cast<double>(call.count)));
    if (emission < 1) emission = 1;
    Int limit = Int(call.max_burst) + 1;
    if (limit > int_max) limit = int_max;
    return as_cell(call, now, emission, limit, 1'000'000, 1000);
  }

  std::optional<Five> as_cell(const Call& call, const Int& now, const Int& emission,
                              const Int& limit, const Int& second, const Int& to_ns) {
    const Int tolerance = emission * limit, cost = emission * call.quantity;
    if (!fits(tolerance) || !fits(cost)) return {};
    const Int tat = tat_ && *tat_ > now ? *tat_ : now;
    Int new_tat = tat + cost;
    if (new_tat < now) new_tat = now;
    // A negative limit denies every call, also one that gives units back.
    const bool allowed = new_tat - tolerance <= now && limit >= 0;
    if (allowed && call.quantity != 0) {
      if (!fits(new_tat)) return {};
      tat_ = new_tat;
      fresh_from_ = new_tat * to_ns;
    }
    const Int ttl = (allowed ? new_tat : tat) - now;
    Int remaining = (tolerance - ttl) / emission;
    if (remaining < 0) remaining = 0;
    Int retry = -1;
    if (!allowed && cost <= tolerance && limit >= 0)
      retry = ceil_div(new_tat - tolerance - now, second);
    return Five{allowed ? 0 : 1, number(limit), number(remaining), number(retry),
                number(ceil_div(ttl, second))};
  }

  std::optional<Five> crab(const Call& call, const Int& now) {
    const Int period = Int(call.period) * 1'000'000'000;
    if (call.count < 1 || call.period < 1 || call.max_burst < 1 || call.quantity < 0) return {};
    const Int emission = period / call.count;
    const Int tolerance = emission * (call.max_burst - 1), cost = emission * call.quantity;
    if (emission == 0 || !fits(period) || !fits(emission * call.max_burst) || !fits(cost))
      return {};
    const bool is_there = tat_ && fresh_from_ > now;
    Int tat = now - emission;
    if (is_there && *tat_ > tat) tat = *tat_;
    const Int new_tat = tat + cost;
    const bool allowed = new_tat - tolerance <= now;
    if (allowed && call.quantity != 0) {
      if (!fits(new_tat)) return {};
      tat_ = new_tat;
      fresh_from_ = new_tat + emission;
    }
    const Int current = allowed ? new_tat : tat;
    Int remaining = (now + tolerance - current) / emission;
    if (remaining < 0) remaining = 0;
    Int reset = current - now + (call.to_full ? emission : tolerance);
    if (reset < 0) reset = 0;
    const Int retry = allowed ? Int(0) : Int(new_tat - tolerance - now);
    const Int second = 1'000'000'000;
    return Five{allowed ? 1 : 0, call.max_burst, number(remaining), number(ceil_div(reset, second)),
                number(ceil_div(retry, second))};
  }

  std::optional<Int> tat_;
  Int fresh_from_ = 0;  // in nanoseconds
};

// A decision as the command's reply has it.
inline Five five_of(Algorithm kind, const Decision& d) {
  const int64_t retry = d.retry_after == base::never ? -1 : gcra::seconds_up(d.retry_after);
  const int64_t reset = gcra::seconds_up(d.reset_after);
  if (kind == Algorithm::gcra_crab) return {d.allowed ? 1 : 0, d.limit, d.remaining, reset, retry};
  return {d.allowed ? 0 : 1, d.limit, d.remaining, d.allowed ? -1 : retry, reset};
}

// A counter that the pure functions decide.
struct Counter {
  State state;

  std::optional<Five> ask(const Call& call, int64_t now_us) {
    const gcra::Rate rate = rate_of(call);
    if (rate.error != gcra::Error::none) return {};
    if (call.kind == Algorithm::gcra_crab && call.quantity < 0) return {};
    const Outcome outcome = gcra::decide(state, rate.limit, call.quantity, {now_us});
    state = outcome.next;
    if (gcra::is_out_of_range(outcome.decision)) return {};
    return five_of(call.kind, outcome.decision);
  }
};

}  // namespace sluice::limit::gcra_model
