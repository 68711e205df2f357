// The texts of the scripts that decide within Redis, in parts from which scripts.h composes them.
// Literals, valid for the whole process. The same text of the algorithms is used with two
// arithmetics: `lua_plain`, whose numbers are doubles (a result that may reach 2^53 makes the
// script reply `~w` before it writes anything), and `lua_wide`, whole numbers of any size, in limbs
// of 7 decimal digits.
//
// Both arithmetics define N (text to number), S (number to text), Z, ONE, NEVER, FULL (the most
// units that may be used), div (rounded down, both not negative), cdiv (rounded up), mod, mul,
// least, capacity, bounded and charged.
#pragma once

#include <string_view>

namespace sluice::redis {

extern const std::string_view lua_plain, lua_wide;
// The current time `now`, in microseconds: Redis' clock (for lua_plain in fewer steps) or, in
// tests, the last argument. And SPARE: the ms for which a key is kept after the time from which it
// equals a fresh counter.
extern const std::string_view lua_redis_time, lua_redis_time_plain, lua_told_time;
// The same where a script uses `clock`, seconds and microseconds as TIME has them, and SPARE.
extern const std::string_view lua_redis_clock, lua_told_clock;
// F.x for each algorithm, where x is its letter: F.x(state, quota, window, burst, cost) returns
// allowed, remaining, reset_after, retry_after, the next state, and whether a refusal changes the
// state as well. A state is a flat list of marks and units (limit::State), empty for a fresh
// counter.
extern const std::string_view lua_token_bucket, lua_sliding_window, lua_sliding_log,
    lua_concurrency, lua_fixed_bucket, lua_always;
// For lists of runs: lua_sliding_log and lua_concurrency need it.
extern const std::string_view lua_merge;
// F.x and P.x for gcra_*; needs lua_wide. If the state does not change, they return the same table.
extern const std::string_view lua_gcra;
// load_tat and write_tat, for a counter of gcra_cell that is shared with redis-cell. Needs lua_wide
// and lua_states.
extern const std::string_view lua_tat_text;
// The first lines of F.f and F.a; lua_window is the rest of each. lua_calendar_window: F.m, P.m and
// calendar_of, which reads a limit's boundaries.
extern const std::string_view lua_fixed_window, lua_aligned_window, lua_window, lua_calendar_window;
// P.x(state, units, quota, window, burst): the state after units were given back.
extern const std::string_view lua_put;
// carry_over: the state of a limit under another limit (limit/carry_over.h).
extern const std::string_view lua_carry_over;
// carry_list: the states of a list of limits under another list, and the limits that are left out
// (limit/carry_list.h); needs lua_carry_over.
extern const std::string_view lua_carry_list;
// Charges with the verbs `charge` and `count`, which may bring debt (limit/debt.h), and charges
// behind units that waiters claim; needs lua_carry_list and lua_states.
extern const std::string_view lua_count;
// Counters that keep their limits (limit/kept_limits.h).
extern const std::string_view lua_kept_limits;
// Reads and writes the states in a value.
extern const std::string_view lua_states;
// costs_of: the most of several costs in a text, and all of them.
extern const std::string_view lua_costs;
// note_given: what is given back to a counter that has holds (lua_holds.cc); needs lua_states.
extern const std::string_view lua_given;
// Reads a counter's value, with the limits that it was written under.
extern const std::string_view lua_counters;
// The script about holds, behind what lua_settle_full needs. And a whole one: where the hold of an
// id is in Redis Cluster.
extern const std::string_view lua_holds, lua_hold_at;
// The scripts' main parts: load, decide, write. `light` only handles takes and peeks of counters
// that were written under the limits in force; `full` handles everything.
extern const std::string_view lua_settle_light, lua_settle_full;
// The end of the light script where it answers with receipts.
extern const std::string_view lua_light_receipts;
// The script for a hit on a counter that is shared with Divvy, which stores the units left.
extern const std::string_view lua_remaining_text;
// end_of: when the window of a counter that is shared with Divvy ends; needs lua_states.
extern const std::string_view lua_window_end;
// The script that takes back charges by their receipts; needs lua_wide, the algorithms, lua_states,
// lua_costs, lua_window_text and lua_window_end.
extern const std::string_view lua_undo;
// receipts_of: the receipts for what a script has written; needs lua_states and lua_window_end.
extern const std::string_view lua_receipts;
// W.x: functions for counters with a key for each window, which other programs share. And the
// script for groups that have only such charges.
extern const std::string_view lua_window_text, lua_settle_window_text;

}  // namespace sluice::redis
