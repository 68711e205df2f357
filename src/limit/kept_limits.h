// A counter that keeps its limits: they come along with requests, one for each of a few windows,
// and stay until they are replaced. A request may name some of them, all or none; it is granted if
// the balance of each that it names covers its cost, and a grant is taken from every balance that
// the counter has, named or not. Droplet's buckets are such. Pure functions over a run of State
// cells, so they have no owner and any thread may call them; inline, because the store calls
// them under a stripe's lock. They allocate nothing.
//
// Times are integer microseconds. Of a window of length W: L = its limit, b = its balance, at most
// L, below 0 in debt. L units come back per W, evenly: a microsecond brings L parts of 1/W unit, so
// nothing is ever rounded. c = cost: positive takes, negative adds.
//
//   state        1 + 2n cells of 16 bytes for n windows. The first: fresh_at_us, the time from
//                which every balance is at its limit, so that the counter could be dropped
//                (INT64_MAX: no such time; the time of the state if it already is, or has no
//                windows); units, a mask of the windows that there are, by their place in the list
//                of all. Then for each of these, rising: {time of the state, L} and {b's whole
//                units, rounded down; the parts beyond, 0 to W - 1}. No cells at all: a counter
//                that is not there.
//   configure    Before anything else each named limit that is new or another is put in place, also
//                if the request is then refused. A new window starts with b = L. In one that there
//                is, what came back until now came at the old L, and b stays. So the request that
//                lowers a limit is still answered from the b that was there; what is then kept is
//                at most the new L, whether it was granted or not.
//   grant        iff b >= c for each window that is named. So cost 0 is refused in debt, and so is
//                a negative one that does not lift b to 0. No window named: always.
//   take         A grant sets every b, named or not, to min(b - c, L). Those that are not named may
//                go into debt, by any amount (see debt).
//   remaining    min(b - c, L) of a window that is named, rounded down to a unit: as it is after
//                the grant, or as it would have been. Below 0 where the window refuses. A window
//                that covers the cost says what would be left, even if another one refused.
//   limit        L.
//   allowed      b >= c, of each window by itself.
//   retry_after  0 where b >= c. Else the time after which this window covers the same cost if
//                no units are taken meanwhile: ceil((c - b) * W / L), and not a microsecond less;
//                `never` when c > L.
//   reset_after  until b is L again: ceil((L - b) * W / L), of the b that is kept.
//   refusal      takes nothing.
//   peek         every window that there is: floor(b), allowed; changes nothing.
//   bound        T >= 1 microseconds, [a, a + T) for any a, in which each grant names the window
//                and its L stays: all that is taken less all that is added is at most (integer
//                division)
//                    L + (T - 1) * L / W.
//                Why: b is at most L at a, (T - 1) * L / W come back until the last moment, and
//                every grant leaves b >= 0.
//   debt         is held at 2^62 units: what a counter owes beyond is forgotten. That takes 2^31
//                takes of 2^31 in a row, and is answered as -2^62.
//   clock        A state of the future (the clock stepped back) becomes one of now, with its
//                balances: nothing comes back meanwhile, nothing is lost.
//   end of time  A moment that cannot be represented, nor one so far away, is `never`.
//
// Exact for every cost, limits 1 to 2^32 - 1, windows 1 us to base::bounds::window_us_max, and any
// time; no float, no overflow. A call that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/limit.h"
#include "limit/wide.h"

namespace sluice::limit::kept_limits {

inline constexpr int64_t limit_max = UINT32_MAX;
inline constexpr int64_t debt_max = int64_t{1} << 62;

// The number of cells of a counter with these windows.
constexpr size_t cells(uint32_t mask) {
  return 1 + 2 * static_cast<size_t>(std::popcount(mask));
}

struct Result {
  bool allowed = false;
  uint32_t mask = 0;  // the windows that were answered, one decision for each, rising
  size_t cells = 0;   // the number of cells of the counter
};

// The stored balance of one window.
struct Balance {
  int64_t time_us, limit;
  int64_t units, parts;  // b = units + parts / W
};

// Advances the balance to `now`.
inline void advance(Balance& b, int64_t window_us, Time now) {
  if (now.us > b.time_us && b.units < b.limit) {
    const auto window = static_cast<uint64_t>(window_us), limit = static_cast<uint64_t>(b.limit);
    const uint64_t elapsed_us = static_cast<uint64_t>(now.us) - static_cast<uint64_t>(b.time_us);
    uint64_t gained, units, parts;
    if (!__builtin_mul_overflow(elapsed_us, limit, &gained) &&
        !__builtin_add_overflow(gained, static_cast<uint64_t>(b.parts), &gained)) [[likely]] {
      units = gained / window;
      parts = gained % window;
    } else {
      const Wide wide = Wide{elapsed_us} * b.limit + b.parts;
      units = static_cast<uint64_t>(std::min<Wide>(wide / window_us, UINT64_MAX));
      parts = static_cast<uint64_t>(wide % window_us);
    }
    const bool full = units >= static_cast<uint64_t>(b.limit - b.units);
    b.units = full ? b.limit : b.units + static_cast<int64_t>(units);
    b.parts = full ? 0 : static_cast<int64_t>(parts);
  }
  b.time_us = now.us;
}

// Takes the cost. The balance is kept between the most debt and the limit.
inline void take_units(Balance& b, int64_t cost) {
  int64_t units;
  if (__builtin_sub_overflow(b.units, cost, &units)) units = cost < 0 ? b.limit : -debt_max;
  if (units < -debt_max) {
    b.units = -debt_max;
    b.parts = 0;
  } else if (units >= b.limit) {
    b.units = b.limit;
    b.parts = 0;
  } else {
    b.units = units;
  }
}

// Until the balance, which is of `now`, is `units` or more, at most L; `never`: past the end of
// time.
inline Duration until(const Balance& b, int64_t units, int64_t window_us, Time now) {
  if (b.units >= units) return {};
  const int64_t lacking = units - b.units;
  const int64_t most_us = INT64_MAX - std::max<int64_t>(now.us, 1);
  int64_t parts;
  if (!__builtin_mul_overflow(lacking, window_us, &parts)) [[likely]] {
    const int64_t us = (parts - b.parts - 1) / b.limit + 1;
    return us > most_us ? base::never : Duration{us};
  }
  const Wide us = (Wide{lacking} * window_us - b.parts - 1) / b.limit + 1;
  return us > most_us ? base::never : Duration{static_cast<int64_t>(us)};
}

// The balances of a stored counter. Entries of windows that it does not have are not set.
struct Balances {
  uint32_t mask = 0;
  std::array<Balance, slots_max> of;
};

inline void check_windows(std::span<const Duration> windows) {
  SLUICE_CHECK(windows.size() <= slots_max);
  for (const Duration window : windows)
    SLUICE_CHECK(window.us >= 1 && window.us <= base::bounds::window_us_max);
}

// Can these cells have been left by take()? For what is read from outside the process; all else
// here takes it for granted.
inline bool is_valid(std::span<const Duration> windows, std::span<const State> state) {
  if (state.empty()) return true;
  const int64_t mask = state[0].units;
  if (mask < 0 || mask >> windows.size() != 0) return false;
  if (state.size() != cells(static_cast<uint32_t>(mask))) return false;
  const State* cell = &state[1];
  for (size_t i = 0; i < windows.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    const int64_t limit = cell[0].units, units = cell[1].fresh_at_us, parts = cell[1].units;
    if (limit < 1 || limit > limit_max || units > limit || units < -debt_max) return false;
    if (parts < 0 || parts >= windows[i].us || (units == limit && parts > 0)) return false;
    cell += 2;
  }
  return true;
}

// The balances at `now`.
inline Balances read(std::span<const Duration> windows, std::span<const State> state, Time now) {
  Balances all;
  if (state.empty()) return all;
  SLUICE_CHECK(state[0].units >= 0 && state[0].units >> windows.size() == 0);
  all.mask = static_cast<uint32_t>(state[0].units);
  SLUICE_CHECK(state.size() == cells(all.mask));
  const State* cell = state.data() + 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    if ((all.mask >> i & 1) == 0) continue;
    all.of[i] = {cell[0].fresh_at_us, cell[0].units, cell[1].fresh_at_us, cell[1].units};
    advance(all.of[i], windows[i].us, now);
    cell += 2;
  }
  return all;
}

inline void write(std::span<const Duration> windows, const Balances& all, Time now, State* out) {
  int64_t fresh_at_us = now.us;
  State* cell = out + 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    if ((all.mask >> i & 1) == 0) continue;
    const Balance& b = all.of[i];
    const Duration wait = until(b, b.limit, windows[i].us, now);
    fresh_at_us = wait == base::never ? INT64_MAX : std::max(fresh_at_us, now.us + wait.us);
    cell[0] = {b.time_us, b.limit};
    cell[1] = {b.units, b.parts};
    cell += 2;
  }
  out[0] = {fresh_at_us, all.mask};
}

// `windows` are all that a counter may have, rising. `in` is the counter, empty to begin with a
// fresh one. `asked` are the limits that came along: the quota and the window of each count, and
// the window is one of `windows`. `out` has room for 1 + 2 * windows.size() cells and may be where
// `in` is; `decisions` for windows.size(). `take_nothing`: another charge of the group is refused,
// so that the limits are put in place and all is answered, but nothing is taken.
inline Result take(std::span<const Duration> windows, std::span<const State> in,
                   std::span<const Limit> asked, int64_t cost, Time now, State* out,
                   Decision* decisions, bool take_nothing) {
  check_windows(windows);
  Balances all = read(windows, in, now);
  Result result{.allowed = true};
  for (const Limit& limit : asked) {
    const size_t i = static_cast<size_t>(std::find(windows.begin(), windows.end(), limit.window) -
                                         windows.begin());
    SLUICE_CHECK(i < windows.size());
    SLUICE_CHECK(limit.quota >= 1 && limit.quota <= limit_max);
    const uint32_t bit = uint32_t{1} << i;
    if ((all.mask & bit) == 0) all.of[i] = {now.us, limit.quota, limit.quota, 0};
    all.of[i].limit = limit.quota;
    all.mask |= bit;
    result.mask |= bit;
  }
  for (size_t i = 0; i < windows.size(); ++i)
    if ((result.mask >> i & 1) != 0) result.allowed &= all.of[i].units >= cost;

  for (size_t i = 0; i < windows.size(); ++i) {
    if ((all.mask >> i & 1) == 0) continue;
    Balance& kept = all.of[i];
    Balance after = kept;
    take_units(after, cost);
    const bool covers = kept.units >= cost;
    take_units(kept, result.allowed && !take_nothing ? cost : 0);
    if ((result.mask >> i & 1) == 0) continue;
    *decisions++ = {covers, kept.limit, after.units, until(kept, kept.limit, windows[i].us, now),
                    covers              ? Duration{}
                    : cost > kept.limit ? base::never
                                        : until(kept, cost, windows[i].us, now)};
  }
  write(windows, all, now, out);
  result.cells = cells(all.mask);
  return result;
}

// Sets every balance to its limit.
inline void refill(std::span<State> state) {
  for (size_t i = 1; i + 1 < state.size(); i += 2) state[i + 1] = {state[i].units, 0};
}

// The state.
inline Result peek(std::span<const Duration> windows, std::span<const State> in, Time now,
                   Decision* decisions) {
  check_windows(windows);
  const Balances all = read(windows, in, now);
  for (size_t i = 0; i < windows.size(); ++i) {
    if ((all.mask >> i & 1) == 0) continue;
    const Balance& b = all.of[i];
    *decisions++ = {true, b.limit, b.units, until(b, b.limit, windows[i].us, now), {}};
  }
  return {true, all.mask, in.size()};
}

}  // namespace sluice::limit::kept_limits
