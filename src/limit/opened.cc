#include "limit/opened.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::limit {

Opened::Opened(std::span<const State> cells, std::span<const Limit> limits) : limits_(limits) {
  SLUICE_CHECK(limits.size() <= slots_max);
  State* at = reinterpret_cast<State*>(room_);
  for (size_t i = 0; i < limits.size(); ++i) {
    const size_t count = limit::cells(limits[i]), whole = debt::whole_cells(limits[i]);
    places_[i] = at;
    std::copy_n(cells.begin(), count, at);
    std::fill(at + count, at + whole, State{});
    cells = cells.subspan(count);
    at += whole;
  }
  for (left_out::Debt debt; left_out::next(cells, limits, debt);) {
    State* const more = places_[debt.index] + limit::cells(limits[debt.index]);
    if (debt.state.empty())
      *more = debt::bucket::mark_of({debt.units});
    else
      std::copy(debt.state.begin(), debt.state.end(), more);
  }
  left_out_ = cells;
}

void Opened::drop_fresh(Time now) {
  change_left_out([now](const Limit& limit, State* whole) {
    if (is_fresh({whole, 1}, now)) std::fill_n(whole, debt::whole_cells(limit), State{});
  });
}

Opened::Opened(std::span<const Limit> limits) : limits_(limits) {
  SLUICE_CHECK(limits.size() <= slots_max);
  State* at = reinterpret_cast<State*>(room_);
  for (size_t i = 0; i < limits.size(); ++i) {
    places_[i] = at;
    at = std::fill_n(at, debt::whole_cells(limits[i]), State{});
  }
}

CellCount Opened::close(State* next) const {
  size_t count = 0;
  for (size_t i = 0; i < limits_.size(); ++i) {
    const size_t cells = limit::cells(limits_[i]);
    std::copy_n(places_[i], cells, next + count);
    count += cells;
  }
  const size_t in_force = count;
  for (size_t i = 0; i < limits_.size(); ++i) {
    if (limits_[i].algorithm != Algorithm::token_bucket || places_[i][1] == State{}) continue;
    next[count++] = left_out::debt_head(i, 0, places_[i][1].units);
  }
  size_t first = 0;  // of the limit's cells in force
  for (size_t i = 0; i < limits_.size(); ++i) {
    const size_t cells = limit::cells(limits_[i]);
    const State* const more = places_[i] + cells;
    size_t runs = 0;
    if (has_runs(limits_[i]))
      while (runs < sliding_log::times_max - cells && more[runs].units > 0) ++runs;
    const size_t room = counter_cells_max - count;
    if (runs > 0 && room >= 2) {
      const size_t kept = std::min(runs, room - 1);
      next[count++] = left_out::debt_head(i, kept, 0);
      keep_runs({more, runs}, {next + count, kept});
      count += kept;
    } else if (runs > 0) {
      for (size_t run = 0; run < runs; ++run) next[first + cells - 1].units += more[run].units;
    }
    first += cells;
  }
  std::span<const State> rest = left_out_;
  for (LeftOut one; left_out::next(rest, one);) count = left_out::append(one, next, count);
  return {count, count - in_force};
}

}  // namespace sluice::limit
