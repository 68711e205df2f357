// Units of a hold (request/hold.h): taken from a counter at one time, of which some go back later,
// so that the counter is never above the one from which only those had been taken that were used
// (the ideal). Pure functions, any thread; for what is rare, so not inlined into decisions.
//
// A part is what one take took from one limit. Its mark is what the limit's state was right after
// that take: how much was used in which window, or of a bucket how much was missing.
//
//   fixed_window     from the window of the take, while it is open. A window that the take opened
//                    stays as it is, though it came to nothing, as long as units of it are used or
//                    held; else it closes. (Of the ideal too: the take opened it.)
//   aligned_window   from the window of the take, until it ends
//   sliding_window   from the counter of that window, while it weighs
//   sliding_log      from the run of that microsecond or the one that it was merged into
//   fixed_bucket     from what is out
//   concurrency      from the run that ends with it or the one that it was merged into, until its
//                    end. A put gives back the units that end first: since one, no more than the
//                    units of that run after the take, less all that was given back since. The
//                    limit of the take has the hold's lease (limit_for).
//   token_bucket     What would have come back in time by now is not given back. A bucket that
//                    missed M parts after the take gives back at most M - elapsed * Q - (what was
//                    given back since). Where others take meanwhile that is less than the ideal
//                    allows, as their takes are not looked at.
//   put              "The latest first" takes units of holds as well. Since a put the bound of the
//                    bucket holds for every algorithm, with Q = 0: what was used after the take,
//                    less all that was given back since.
//   reset            The counter has forgotten the units: none goes back.
//   another list     of limits may have had another rate for a while, so since it was written under
//                    one a bucket gets nothing back. Its units come back in time.
//
// Under other limits a part belongs to the limit of its kind (left_out.h); `then` is the limit of
// the take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/limit.h"

namespace sluice::limit::held {

// The limit that decides the take of a hold with that time to live.
inline Limit limit_for(const Limit& limit, Duration ttl) {
  return limit.algorithm == Algorithm::concurrency ? concurrency::with_lease(limit, ttl) : limit;
}

// The mark of places that end then: the units of that run, or of the one that it was merged into.
inline State mark_at(const State* whole, int64_t end_us, Time now) {
  const concurrency::Runs runs({whole, concurrency::runs_max}, now);
  const size_t i = runs.of(end_us);
  return {end_us, i == runs.count ? 0 : runs.all[i].units};
}

// The mark of a take that was granted now; of a cost of 0 it is of no use.
inline State mark_of(const State* whole, const Limit& limit, Time now) {
  if (limit.algorithm == Algorithm::sliding_window) return {whole[1].fresh_at_us, whole[0].units};
  if (limit.algorithm == Algorithm::concurrency)
    return mark_at(whole, concurrency::end_of(limit, now), now);
  return whole[0];
}

struct Part {
  const Limit& then;  // the limit that it was taken from
  State mark;
  Time taken;
  Given given;  // when it was taken
};

namespace detail {

inline Wide since(const Part& part, const Given& given) {
  return static_cast<Wide>(given.units - part.given.units);
}

// What others put back may have been of the part.
inline int64_t kept(const Part& part, int64_t units, const Given& given) {
  if (given.puts == part.given.puts) return units;
  return static_cast<int64_t>(
      std::clamp<Wide>(Wide{part.mark.units} - since(part, given), 0, units));
}

inline int64_t in_window(State& window, int64_t most) {
  const int64_t back = std::clamp<int64_t>(window.units, 0, most);
  window.units -= back;
  if (window.units == 0) window = {};
  return back;
}

}  // namespace detail

// Gives back up to `units` of the part, 0 to its units. `given`: of the counter, now. Returns how
// many went back, rounded up.
inline int64_t give_back(State* whole, const Limit& limit, const Part& part, int64_t units,
                         const Given& given, Time now) {
  const State& mark = part.mark;
  if (units <= 0 || !has_counter(limit.algorithm) || given.resets != part.given.resets) return 0;
  if (limit.algorithm == Algorithm::token_bucket) {
    const Wide missing = debt::bucket::missing(whole, limit, now);
    const Wide then = token_bucket::wide::missing(mark, part.then, part.then.burst, part.taken);
    const Wide elapsed = std::max<Wide>(Wide{now.us} - part.taken.us, 0);
    const Wide bound = then - elapsed * std::max(part.then.quota, limit.quota) -
                       std::min<Wide>(detail::since(part, given), used_max) * limit.window.us;
    const Wide back = std::max<Wide>(std::min({Wide{units} * limit.window.us, bound, missing}), 0);
    if (back > 0) debt::bucket::set(whole, missing - back, limit, now);
    return static_cast<int64_t>((back + limit.window.us - 1) / limit.window.us);
  }
  const int64_t most = detail::kept(part, units, given);
  if (most == 0) return 0;
  switch (limit.algorithm) {
    case Algorithm::fixed_window:
    case Algorithm::aligned_window:
      if (whole[0].fresh_at_us != mark.fresh_at_us || now.us >= mark.fresh_at_us) return 0;
      return detail::in_window(whole[0], most);
    case Algorithm::sliding_window: {
      if (sliding_counters::fresh(std::span(whole, 2), limit, now)) return 0;
      const int64_t end_us = whole[1].fresh_at_us;  // of the window that whole[0] counts
      if (end_us == mark.fresh_at_us) {
        const int64_t back = std::min(whole[0].units, most);
        sliding_counters::put(std::span(whole, 2), limit, back, now, std::span(whole, 2));
        return back;
      }
      if (now.us >= end_us || Wide{end_us} - mark.fresh_at_us != limit.window.us) return 0;
      const int64_t back = std::clamp<int64_t>(whole[1].units, 0, most);
      whole[1].units -= back;
      return back;
    }
    case Algorithm::sliding_log: {
      if (now.us >= mark.fresh_at_us) return 0;
      size_t runs = 0;  // that end with it or later: the last of these has it
      while (runs < sliding_log::times_max && whole[runs].units > 0 &&
             whole[runs].fresh_at_us >= mark.fresh_at_us)
        ++runs;
      if (runs == 0) return 0;
      State& run = whole[runs - 1];
      const int64_t back = std::min(run.units, most);
      run.units -= back;
      if (run.units == 0) {
        std::copy(whole + runs, whole + sliding_log::times_max, &run);
        whole[sliding_log::times_max - 1] = {};
      }
      return back;
    }
    case Algorithm::concurrency:
      return concurrency::move({whole, concurrency::runs_max}, limit, most, mark.fresh_at_us,
                               now.us, now);
    case Algorithm::fixed_bucket: {
      const int64_t back = std::clamp<int64_t>(whole[0].units, 0, most);
      debt::put(whole, limit, back, false, now);
      return back;
    }
    default:
      return 0;
  }
}

// Of a part of places: up to `units` end at `to` instead. Returns how many; their mark is
// mark_of({to}), with `given`.
inline int64_t move(State* whole, const Limit& limit, const Part& part, int64_t units,
                    const Given& given, Time to, Time now) {
  if (units <= 0 || limit.algorithm != Algorithm::concurrency || given.resets != part.given.resets)
    return 0;
  return concurrency::move({whole, concurrency::runs_max}, limit, detail::kept(part, units, given),
                           part.mark.fresh_at_us, to.us, now);
}

}  // namespace sluice::limit::held
