#include "limit/carry_list.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "limit/carry_over.h"

namespace sluice::limit {

namespace {

// A limit of the old list, in force or left out, whose state a new limit may take.
struct Source : LeftOut {
  bool paired = false;  // a limit of its kind takes its state
  bool lent = false;    // a limit of another kind takes its state as well
};

template <size_t most>
struct Sources {
  std::array<Source, most> all;
  size_t count = 0;
  void add(const Limit& limit, std::span<const State> state) {
    all[count].limit = limit;
    all[count++].state = state;
  }
  std::span<Source> each() { return {all.data(), count}; }
};

// Has state `a` of a bucket fewer units than `b`, now and at all later times?
bool is_stricter(const State& a, const State& b) {
  return a.fresh_at_us != b.fresh_at_us ? a.fresh_at_us > b.fresh_at_us : a.units > b.units;
}

class CarriedList {
 public:
  CarriedList(std::span<const State> cells, std::span<const Limit> from, std::span<const Limit> to,
              CarryOver carry, Time now)
      : was_whole_(cells, from), to_(to), carry_(carry), now_(now) {
    for (size_t i = 0; i < from.size(); ++i)
      in_force_.add(from[i], {was_whole_.whole(i), debt::whole_cells(from[i])});
    std::span<const State> rest = was_whole_.left_out();
    for (LeftOut one; left_out::next(rest, one);)
      if (!is_fresh(one.state, now)) left_out_.add(one.limit, one.state);
    pair();
  }

  CellCount write(State* next) {
    Opened is_whole(to_);
    for (size_t i = 0; i < to_.size(); ++i)
      if (has_counter(to_[i].algorithm)) carry(i, is_whole.whole(i));
    const size_t in_force = limit::cells(to_);
    size_t count = is_whole.close(next).all;
    for (size_t i = 0; i < to_.size(); ++i)
      if (memory_[i]) count = left_out::append({memory_[i]->limit, memory_[i]->whole}, next, count);
    for (const Source& one : left_out_.each())
      if (!one.paired) count = left_out::append(one, next, count);
    // Limits that can be stored in fewer cells come last.
    for (const bool logs : {false, true}) {
      for (const Source& one : in_force_.each())
        if (logs == has_runs(one.limit) && is_to_be_left_out(one))
          count = left_out::append(one, next, count);
    }
    return {count, count - in_force};
  }

 private:
  struct Memory {
    Limit limit;
    WholeBucket whole;
  };

  template <class All, class Fits>
  static Source* first(All& all, const Fits& fits) {
    for (Source& one : all.each())
      if (fits(one)) return &one;
    return nullptr;
  }

  template <class All>
  void pair_with(All& all, bool exact, std::array<Source*, slots_max>& found) {
    for (size_t i = 0; i < to_.size(); ++i) {
      if (was_[i] != nullptr || found[i] != nullptr) continue;
      found[i] = first(all, [&](const Source& one) {
        return !one.paired && same_kind(one.limit, to_[i]) &&
               (!exact || same_window(one.limit, to_[i]));
      });
      if (found[i] != nullptr) found[i]->paired = true;
    }
  }

  void pair() {
    // Of one kind those of one window first.
    for (const bool exact : {true, false}) pair_with(in_force_, exact, was_);
    for (const bool exact : {true, false}) pair_with(left_out_, exact, returns_);
    // The memory of a bucket applies to all limits of its kind that change.
    for (Source& one : left_out_.each()) {
      if (one.paired) continue;
      for (size_t i = 0; i < to_.size(); ++i)
        if (changes(i) && same_kind(one.limit, to_[i])) one.lent = true;
    }
    if (carry_ != CarryOver::apart) lend();
    for (Source& one : left_out_.each()) one.paired |= one.lent;
  }

  // Limits without a state of their kind go on with another one's.
  void lend() {
    for (size_t i = 0; i < to_.size(); ++i) {
      if (was_[i] != nullptr) continue;
      lends_[i] = first(in_force_, [&](const Source& one) {
        return !one.paired && !one.lent && one.limit.algorithm == to_[i].algorithm;
      });
      if (lends_[i] != nullptr) lends_[i]->lent = true;
    }
    for (size_t i = 0; i < std::min(to_.size(), in_force_.count); ++i) {
      Source& one = in_force_.all[i];
      if (was_[i] != nullptr || lends_[i] != nullptr || one.paired || one.lent) continue;
      lends_[i] = &one;
      one.lent = true;
    }
  }

  bool changes(size_t i) const { return was_[i] == nullptr || was_[i]->limit != to_[i]; }

  // Calls `visit(source)` for each source of its kind whose state the limit may take.
  template <class Visit>
  void each_of_kind(size_t i, const Visit& visit) {
    if (was_[i] != nullptr) visit(*was_[i]);
    if (returns_[i] != nullptr) visit(*returns_[i]);
    if (!changes(i)) return;
    for (const Source& one : left_out_.each())
      if (one.lent && same_kind(one.limit, to_[i])) visit(one);
  }

  void carry(size_t i, State* whole) {
    const Limit& to = to_[i];
    bool any = false;
    const auto go_on_with = [&](const Source& one) {
      const auto was = one.cells();
      if (!any) {
        carry_over(was, one.limit, to, carry_, now_, {whole, debt::whole_cells(to)});
      } else if (is_bucket(to)) {
        WholeBucket as;
        carry_over(was, one.limit, to, carry_, now_, std::span(as).first(debt::whole_cells(to)));
        if (is_stricter(as[0], whole[0])) std::copy_n(as.begin(), debt::whole_cells(to), whole);
      }
      any = true;
    };
    if (to.algorithm == Algorithm::token_bucket && carry_ != CarryOver::left && changes(i)) {
      any = remember(i, whole);
    } else {
      each_of_kind(i, go_on_with);
    }
    if (lends_[i] != nullptr) go_on_with(*lends_[i]);
  }

  // A token_bucket takes the largest number of missing units of the sources of its kind, and
  // remembers those for which it has no room. False: there is no source of its kind.
  bool remember(size_t i, State* whole) {
    const Limit& to = to_[i];
    Limit large = to;
    each_of_kind(i,
                 [&](const Source& one) { large.burst = std::max(large.burst, one.limit.burst); });
    WholeBucket all;
    bool any = false;
    each_of_kind(i, [&](const Source& one) {
      const auto was = one.cells();
      const WholeBucket as = carry_over_bucket(was.data(), one.limit, large, CarryOver::used, now_);
      if (!any || is_stricter(as[0], all[0])) all = as;
      any = true;
    });
    if (!any) return false;
    const WholeBucket is = carry_over_bucket(all.data(), large, to, CarryOver::used, now_);
    std::copy(is.begin(), is.end(), whole);
    if (is_stricter(all[0], is[0])) memory_[i] = Memory{large, all};
    return true;
  }

  bool is_to_be_left_out(const Source& one) {
    if (one.paired || is_fresh(one.state, now_) || (carry_ == CarryOver::left && one.lent))
      return false;
    // A memory exists already, and has more missing units.
    return first(left_out_, [&](const Source& other) {
             return !other.paired && same_kind(other.limit, one.limit);
           }) == nullptr;
  }

  Opened was_whole_;
  std::span<const Limit> to_;
  const CarryOver carry_;
  const Time now_;
  Sources<slots_max> in_force_;
  Sources<left_out::most> left_out_;
  // By the limit's index in `to`: the source of its kind in force, of its kind left out, of another
  // kind.
  std::array<Source*, slots_max> was_{}, returns_{}, lends_{};
  std::array<std::optional<Memory>, slots_max> memory_{};
};

}  // namespace

CellCount carry_over_list(std::span<const State> cells, std::span<const Limit> from,
                          std::span<const Limit> to, CarryOver carry, Time now, State* next) {
  SLUICE_CHECK(from.size() <= slots_max && to.size() <= slots_max &&
               limit::cells(to) <= cells_max && cells.size() >= limit::cells(from));
  return CarriedList(cells, from, to, carry, now).write(next);
}

LimitMask fresh_after(std::span<const Limit> from, std::span<const Limit> to, CarryOver carry) {
  constexpr Time now{1'000'000'000'000'000};  // any will do
  std::array<State, counter_cells_max> was, next;
  Opened used(from);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t charged = 0;
    debt::charge(used.whole(i), from[i], units_max(from[i]), now, Overdrafts::none, charged);
  }
  const size_t cells = used.close(was.data()).all;
  const size_t count = carry_over_list({was.data(), cells}, from, to, carry, now, next.data()).all;
  Opened is({next.data(), count}, to);
  LimitMask fresh = 0;
  for (size_t i = 0; i < to.size(); ++i)
    if (has_counter(to[i].algorithm) && is_fresh({is.whole(i), debt::whole_cells(to[i])}, now))
      fresh = static_cast<LimitMask>(fresh | 1u << i);
  return fresh;
}

CellCount drop_fresh(std::span<const State> cells, std::span<const Limit> limits, Time now,
                     State* next) {
  Opened counter(cells, limits);
  counter.drop_fresh(now);
  return counter.close(next);
}

std::optional<CellCount> bring_back(std::span<const State> cells, std::span<const Limit> limits,
                                    Time now, State* next) {
  Opened counter(cells, limits);
  bool was_ahead = false;
  // Of a state that counts for less long as one of now.
  const auto look = [&](const Limit& limit, State* whole) {
    if (!has_counter(limit.algorithm)) return;
    auto is = LeftOut{limit, {whole, debt::whole_cells(limit)}}.cells();
    debt::decide(is.data(), limit, 0, now);
    if (is[0].units <= 0 || is[0].fresh_at_us >= whole[0].fresh_at_us) return;
    std::copy_n(is.begin(), debt::whole_cells(limit), whole);
    was_ahead = true;
  };
  for (size_t i = 0; i < limits.size(); ++i) look(limits[i], counter.whole(i));
  counter.change_left_out(look);
  if (!was_ahead) return std::nullopt;
  return counter.close(next);
}

}  // namespace sluice::limit
