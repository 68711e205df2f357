// A counter opened: the whole state of each limit in force (limit/debt.h) in a place of its own, to
// be changed and closed again. For counters in debt or with limits left out, and for changes that
// may bring debt; others are decided on their cells. A value on the stack of one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/left_out.h"
#include "limit/limit.h"

namespace sluice::limit {

// The cells of a counter.
struct CellCount {
  size_t all = 0;
  size_t left_out = 0;  // of these, behind those of the limits in force: debt and limits left out
};

class Opened {
 public:
  // `cells` must fit the limits (left_out::fits), and both must live as long.
  Opened(std::span<const State> cells, std::span<const Limit> limits);
  // A fresh counter.
  explicit Opened(std::span<const Limit> limits);
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  // The whole state of limit `i`: debt::whole_cells(limit) cells.
  State* whole(size_t i) { return places_[i]; }
  // The cells of the limits left out.
  std::span<const State> left_out() const { return left_out_; }

  // Takes what was taken from bucket `i` among `of`, `units[i]`, from the limits left out that are
  // its memory, or gives units back.
  void take_left_out(LimitMask of, Time now, std::span<const int64_t> units) {
    change_left_out([&](const Limit& limit, State* whole) {
      int64_t unused = 0;
      for (size_t i = 0; i < limits_.size(); ++i) {
        if (!has(of, i) || !left_out::is_memory(limit, limits_.subspan(i, 1))) continue;
        debt::charge(whole, limit, units[i], now, Overdrafts::none, unused);
        break;
      }
    });
  }
  void put_left_out(int64_t units, CarryOver carry, Time now) {
    change_left_out([&](const Limit& limit, State* whole) {
      if (left_out::is_memory(limit, limits_) ||
          (limit.algorithm == Algorithm::fixed_bucket && carry != CarryOver::apart))
        debt::put(whole, limit, units, false, now);
    });
  }
  // Calls `change(limit, whole state)` for each limit left out.
  template <class Change>
  void change_left_out(const Change& change) {
    if (left_out_.empty()) return;
    std::array<State, counter_cells_max> changed;
    size_t count = 0;
    std::span<const State> rest = left_out_;
    for (LeftOut one; left_out::next(rest, one);) {
      auto whole = one.cells();
      change(one.limit, whole.data());
      count = left_out::append({one.limit, {whole.data(), debt::whole_cells(one.limit)}},
                               changed.data(), count);
    }
    State* const at = reinterpret_cast<State*>(changed_);
    std::copy_n(changed.begin(), count, at);
    left_out_ = {at, count};
  }
  void drop_fresh(Time now);
  void forget_left_out() { left_out_ = {}; }
  // Writes the counter's cells, at most counter_cells_max. Limits left out for which there is no
  // room go.
  CellCount close(State* next) const;

 private:
  std::span<const Limit> limits_;
  std::array<State*, slots_max> places_;
  std::span<const State> left_out_;
  // Not zeroed, as most of it is not used.
  alignas(State) std::byte changed_[counter_cells_max * sizeof(State)];
  alignas(State) std::byte room_[slots_max * limit_cells_max * sizeof(State)];
};

}  // namespace sluice::limit
