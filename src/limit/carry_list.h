// Changes the list of limits of a counter: decides which limit of the new list takes which state of
// the old one. A pure function on cells, any thread; called under a stripe's lock, rarely.
//
// A limit is identified by its kind, (algorithm, window or calendar); that of concurrency is the
// algorithm alone. Each limit of the new list
// goes on with
//
//   1. the limit of its kind that was in force; of several the first with the first;
//   2. without one, the limit of its kind that is left out (limit/left_out.h);
//   3. and, without one that was in force, with the first that was in force and has no partner yet
//      of the same algorithm, else the one in the same place (so a token_bucket becomes a
//      fixed_bucket), as far as limit::carry_over keeps anything of that.
//
// Of several states a bucket goes on with the one in which less is there; another limit with the
// first of these. What was in force and has no partner of its kind is left out from then on, with
// its state, also if another limit went on with it. (CarryOver::apart: step 3 is left out.
// CarryOver::left: only if none did; a counter of limitd's moves as a whole.)
//
//   bound   Whatever is granted while limits of one kind are in force, the largest of them alone
//           (the largest quota with the largest burst) would have granted as well: each change
//           gives a limit the state of its kind, or a stricter one. So overrides that come and go
//           give no unit twice. Three things forget: a kind that did not fit into cells_max cells
//           begins again; a fixed_window that begins with the open window of another length counts
//           the rest of that as one window more; and with CarryOver::left another kind that went on
//           with the state, or a smaller bucket, has it to itself.
//   also    A token_bucket whose burst is lowered remembers what was used beyond (left_out.h); a
//           fixed_bucket owes it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "limit/left_out.h"
#include "limit/limit.h"
#include "limit/opened.h"

namespace sluice::limit {

// `cells` must fit `from`. `next` must have room for counter_cells_max, and not overlap `cells`.
CellCount carry_over_list(std::span<const State> cells, std::span<const Limit> from,
                          std::span<const Limit> to, CarryOver carry, Time now, State* next);

// Which limits of the new list take nothing over from a counter whose limits are all used up.
LimitMask fresh_after(std::span<const Limit> from, std::span<const Limit> to, CarryOver carry);

// The same counter under the same limits, without the limits that are left out and fresh.
CellCount drop_fresh(std::span<const State> cells, std::span<const Limit> limits, Time now,
                     State* next);

// Corrects a counter that was written while the clock was ahead of `now`: its cells under the
// limits in force, and those left out, become cells of `now`. Nothing is taken. Empty: the clock
// was not ahead.
std::optional<CellCount> bring_back(std::span<const State> cells, std::span<const Limit> limits,
                                    Time now, State* next);

}  // namespace sluice::limit
