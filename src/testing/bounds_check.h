// What every algorithm must hold, for tests: each decision against a model, each statement of the
// algorithm's header by itself, and the most units that an interval admits, found by trying
// everything.
//
// A subject has   using Cells = std::vector<State> or alike, zero() -> Cells, a fresh counter,
//                 ask(Cells, cost, now, Cells& next) -> Decision, pure, and cost_max, above which a
//                 cost is never granted.
// A model has     see(now), which forgets what is over and corrects for a clock that stepped back,
//                 room(t) -> Wide, what could be taken at t >= now, never less later,
//                 full(t) -> bool, take(units, now), cost_max, and patience, after which it is
//                 full.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "limit/wide.h"

namespace sluice::limit {

using Cells = std::vector<State>;

inline bool operator<(const State& a, const State& b) {
  return std::pair(a.fresh_at_us, a.units) < std::pair(b.fresh_at_us, b.units);
}

namespace bounds_check {

// The algorithms that have a counter.
inline constexpr Algorithm counted[] = {Algorithm::fixed_window, Algorithm::aligned_window,
                                        Algorithm::token_bucket, Algorithm::sliding_window,
                                        Algorithm::sliding_log,  Algorithm::fixed_bucket,
                                        Algorithm::concurrency};

// A limit of any algorithm with a counter whose most units are `quota`.
inline Limit limit_of(Algorithm algorithm, int64_t quota, int64_t window_us) {
  Limit limit{algorithm, quota, {window_us}};
  if (is_bucket(limit)) limit.burst = quota;
  if (algorithm == Algorithm::concurrency) limit.burst = window_us;
  if (algorithm == Algorithm::fixed_bucket) limit.window = {};
  return limit;
}

inline std::string text(const Decision& d) {
  return std::string(d.allowed ? "yes" : "no") + " limit " + std::to_string(d.limit) +
         " remaining " + std::to_string(d.remaining) + " reset " +
         std::to_string(d.reset_after.us) + " retry " + std::to_string(d.retry_after.us);
}

inline std::string text(const Cells& cells) {
  std::string out;
  for (const State& s : cells) {
    if (s != State{})
      out += "{" + std::to_string(s.fresh_at_us) + ", " + std::to_string(s.units) + "} ";
  }
  return out;
}

inline bool same(const Decision& a, const Decision& b) {
  return a.allowed == b.allowed && a.limit == b.limit && a.remaining == b.remaining &&
         a.reset_after == b.reset_after && a.retry_after == b.retry_after;
}

// A store forgets a counter by its first cell alone.
inline bool forgotten(const Cells& cells, int64_t now) {
  return cells[0].units <= 0 || cells[0].fresh_at_us <= now;
}

// The least t in 0..most for which holds(t), if that stays true from there on; most + 1: there is
// none.
template <class Holds>
Wide least(Wide most, const Holds& holds) {
  Wide low = 0, high = most + 1;
  while (low < high) {
    const Wide middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The model's decision, which is found by searching, not by a formula.
template <class Model>
Decision ask(Model& model, int64_t quota, Wide cost, Wide now) {
  model.see(now);
  Decision d;
  d.limit = quota;
  d.allowed = cost <= model.room(now);
  if (d.allowed && cost > 0) model.take(cost, now);
  d.remaining = static_cast<int64_t>(model.room(now));
  d.reset_after.us =
      static_cast<int64_t>(least(model.patience, [&](Wide t) { return model.full(now + t); }));
  if (!d.allowed) {
    d.retry_after.us = cost > model.cost_max
                           ? base::never.us
                           : static_cast<int64_t>(least(model.patience, [&](Wide t) {
                               return cost <= model.room(now + t);
                             }));
  }
  return d;
}

template <class Subject>
bool allows(const Subject& subject, const Cells& cells, int64_t cost, Wide now) {
  Cells next = subject.zero();
  return subject.ask(cells, cost, static_cast<int64_t>(now), next).allowed;
}

template <class Subject>
int64_t remaining(const Subject& subject, const Cells& cells, Wide now) {
  Cells next = subject.zero();
  return subject.ask(cells, 0, static_cast<int64_t>(now), next).remaining;
}

// What the header says of one decision. Empty: all of it holds. For times before the last window of
// time.
template <class Subject>
std::string broken(const Subject& subject, const Cells& before, int64_t cost, int64_t now) {
  Cells next = subject.zero(), peeked = subject.zero();
  const Decision d = subject.ask(before, cost, now, next);

  if (d.remaining < 0) {
    if (allows(subject, next, 0, now)) return "debt, but something can be taken";
  } else {
    if (!allows(subject, next, d.remaining, now)) return "remaining cannot be taken";
    if (allows(subject, next, d.remaining + 1, now)) return "more than remaining can be taken";
  }

  if (forgotten(next, now)) {
    if (d.reset_after.us != 0) return "fresh, but there is something to wait for";
    if (next != subject.zero()) return "fresh, but not all zero";
  } else {
    if (d.reset_after.us != next[0].fresh_at_us - now) return "reset_after is not up to the mark";
    const Wide reset = Wide{now} + d.reset_after.us;
    const Cells zero = subject.zero();
    if (remaining(subject, next, reset) != remaining(subject, zero, reset))
      return "not fresh at reset_after";
    if (remaining(subject, next, reset - 1) >= remaining(subject, zero, reset - 1))
      return "fresh before reset_after";
  }

  if (d.allowed) return d.retry_after.us == 0 ? "" : "granted, yet a wait";
  if (d.retry_after == base::never) {
    if (cost <= subject.cost_max) return "never, yet it could be";
  } else {
    const Wide then = Wide{now} + d.retry_after.us;
    if (!allows(subject, next, cost, then)) return "retry_after is not enough";
    if (allows(subject, next, cost, then - 1)) return "less than retry_after is enough";
  }
  if (forgotten(before, now) && next != subject.zero()) return "a refusal opened a counter";
  subject.ask(before, 0, now, peeked);
  if (next != peeked) return "a refusal took something";
  return "";
}

// Every sequence of (time step, cost) of one length, against the model and the statements. Stops at
// the first difference and reports it.
template <class Subject, class Model>
class Sequences {
 public:
  Sequences(const Subject& subject, int64_t quota, std::vector<int64_t> steps,
            std::vector<int64_t> costs)
      : subject_(subject), quota_(quota), steps_(std::move(steps)), costs_(std::move(costs)) {}

  size_t decisions = 0;
  std::string wrong;

  void run(size_t length, const Cells& cells, const Model& model, int64_t now) {
    if (length == 0) return;
    for (const int64_t step : steps_) {
      for (const int64_t cost : costs_) {
        if (!wrong.empty()) return;
        const int64_t then = now + step;
        Model next_model = model;
        const Decision expected = ask(next_model, quota_, cost, then);
        Cells next = subject_.zero();
        const Decision d = subject_.ask(cells, cost, then, next);
        ++decisions;
        path_ += std::to_string(cost) + "@" + std::to_string(then) + " ";
        if (!same(d, expected)) wrong = path_ + text(d) + ", expected " + text(expected);
        const std::string what = broken(subject_, cells, cost, then);
        if (!what.empty()) wrong = path_ + what;
        const std::string path = path_;
        run(length - 1, next, next_model, then);
        path_ = path;
        path_.resize(path_.rfind(' ', path_.size() - 2) + 1);
      }
    }
  }

 private:
  Subject subject_;
  int64_t quota_;
  std::vector<int64_t> steps_, costs_;
  std::string path_ = " ";
};

// The most units that any interval [a, a + T) with 0 <= a < start_end admits, for each T up to a
// length: tries every history of a counter that is fresh at 0, and every continuation. For tiny
// limits.
template <class Subject>
class MostAdmitted {
 public:
  MostAdmitted(const Subject& subject, int64_t start_end) : subject_(subject) {
    std::set<Cells> now{subject_.zero()};
    for (int64_t a = 0; a < start_end; ++a) {
      starts_.push_back(now);
      std::set<Cells> then;
      for (const Cells& cells : now) {
        each_cost(cells, a, [&](int64_t, const Cells& next) { then.insert(next); });
      }
      now = std::move(then);
    }
  }

  int64_t in(int64_t t) {
    int64_t most = 0;
    for (size_t a = 0; a < starts_.size(); ++a) {
      for (const Cells& cells : starts_[a])
        most = std::max(most, from(cells, static_cast<int64_t>(a), t));
    }
    return most;
  }

 private:
  template <class Do>
  void each_cost(const Cells& cells, int64_t now, const Do& act) const {
    for (int64_t cost = 0;; ++cost) {
      Cells next = subject_.zero();
      if (!subject_.ask(cells, cost, now, next).allowed) return;
      act(cost, next);
    }
  }

  int64_t from(const Cells& cells, int64_t now, int64_t t) {
    if (t == 0) return 0;
    const auto key = std::tuple(now, t, cells);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    int64_t most = 0;
    each_cost(cells, now, [&](int64_t cost, const Cells& next) {
      most = std::max(most, cost + from(next, now + 1, t - 1));
    });
    return known_[key] = most;
  }

  Subject subject_;
  std::vector<std::set<Cells>> starts_;
  std::map<std::tuple<int64_t, int64_t, Cells>, int64_t> known_;
};

}  // namespace bounds_check
}  // namespace sluice::limit
