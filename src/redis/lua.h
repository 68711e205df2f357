// The text of the scripts that decide inside Redis, in parts that scripts.h puts together.
// Literals; they live for ever. One text of the algorithms serves two arithmetics: `lua_plain`,
// where every intermediate fits a double (below 2^53; what would not gives up with `~w` before
// anything is written), and `lua_wide`, whole numbers of any size in limbs of 7 decimal digits.
//
// Both arithmetics define N (text to number), S (number to text), Z, ONE, NEVER, div (rounded down,
// both not negative), cdiv (rounded up), mod, mul, least and capacity.
#pragma once

#include <string_view>

namespace sluice::redis {

extern const std::string_view lua_plain, lua_wide;
// The clock, Redis' own (for lua_plain in fewer steps) or, in tests, the last argument; and how
// many ms a key is kept beyond the moment from which it is as a fresh one.
extern const std::string_view lua_redis_time, lua_redis_time_plain, lua_told_time;
// F.x of each algorithm: x(state, quota, window, burst, cost) gives allowed, remaining,
// reset_after, retry_after, the next state, and whether a refusal has changed it. A state is a flat
// list of marks and units, none for a fresh counter.
extern const std::string_view lua_token_bucket, lua_sliding_window, lua_sliding_log,
    lua_fixed_bucket, lua_always;
// The same of gcra_*, and their P.x; needs lua_wide. A state that stays is the table it was.
extern const std::string_view lua_gcra;
// A counter of gcra_cell that redis-cell shares: load_tat, write_tat. Needs lua_wide and
// lua_states.
extern const std::string_view lua_tat_text;
// Heads of two functions; lua_window is the rest of either.
extern const std::string_view lua_fixed_window, lua_aligned_window, lua_window;
// P.x: gives units back.
extern const std::string_view lua_put;
// What becomes of a state under other limits.
extern const std::string_view lua_carry_over;
// What becomes of a list of states, and which limits are left out; needs the one before.
extern const std::string_view lua_carry_list;
// Charges that count past their limits; needs the one before.
extern const std::string_view lua_count;
// Counters that keep their limits.
extern const std::string_view lua_kept_limits;
// A value as states, and back.
extern const std::string_view lua_states;
// Loads, decides, writes: takes and peeks under the limits that a counter was written under, or
// everything.
extern const std::string_view lua_settle_light, lua_settle_full;
// The end of the light script where it answers with receipts.
extern const std::string_view lua_light_receipts;
// A hit on a counter that other programs share, stored as what is left (Divvy's).
extern const std::string_view lua_remaining_text;
// Takes back what charges took, by their receipts; needs lua_wide, the algorithms, lua_states and
// lua_window_text.
extern const std::string_view lua_undo;
// The receipts of what a script has written; needs lua_states.
extern const std::string_view lua_receipts;
// W.x: counters that other programs share with a key for each window. And the script for groups of
// such charges alone.
extern const std::string_view lua_window_text, lua_settle_window_text;

}  // namespace sluice::redis
