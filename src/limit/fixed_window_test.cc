// The fixed window: every short sequence and random ones against a model that stores all grants,
// each statement of limit/fixed_window.h by itself, and numbers at the ends of their ranges.
#include "limit/fixed_window.h"

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace sluice::limit::fixed_window_test {
namespace {

__extension__ using Wide = __int128;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;

Limit window_of(int64_t quota, int64_t window_us) {
  return {Algorithm::fixed_window, quota, {window_us}};
}

// The model: every grant of the open window, and the time at which that opened, in 128 bits.
struct Naive {
  Wide quota, window;
  std::optional<Wide> opened = {};
  std::vector<Wide> grants = {};

  Wide taken() const {
    Wide sum = 0;
    for (const Wide g : grants) sum += g;
    return sum;
  }
  Wide end() const { return std::min<Wide>(*opened + window, max64); }

  Decision ask(Wide cost, Wide now) {
    if (opened && now >= end()) {
      opened.reset();
      grants.clear();
    }
    if (opened && *opened > now) opened = now;
    const bool fits = taken() + cost <= quota;
    if (fits && cost > 0) {
      if (!opened) opened = now;
      grants.push_back(cost);
    }
    const Wide to_end = opened ? end() - now : 0;
    Decision d;
    d.allowed = fits;
    d.limit = static_cast<int64_t>(quota);
    d.remaining = static_cast<int64_t>(quota - taken());
    d.reset_after.us = static_cast<int64_t>(to_end);
    d.retry_after = fits           ? Duration{}
                    : cost > quota ? base::never
                                   : Duration{static_cast<int64_t>(to_end)};
    return d;
  }
};

std::string text(const Decision& d) {
  return std::string(d.allowed ? "yes" : "no") + " limit " + std::to_string(d.limit) +
         " remaining " + std::to_string(d.remaining) + " reset " +
         std::to_string(d.reset_after.us) + " retry " + std::to_string(d.retry_after.us);
}

bool same(const Decision& a, const Decision& b) {
  return a.allowed == b.allowed && a.limit == b.limit && a.remaining == b.remaining &&
         a.reset_after == b.reset_after && a.retry_after == b.retry_after;
}

bool allows(const State& state, const Limit& limit, int64_t cost, Wide now) {
  return fixed_window::decide(state, limit, cost, {static_cast<int64_t>(now)}).decision.allowed;
}

// Checks what the header says of one outcome. Empty: all of it holds.
std::string broken_promise(const State& before, const Limit& limit, int64_t cost, Time now) {
  const Outcome out = fixed_window::decide(before, limit, cost, now);
  const Decision& d = out.decision;
  const bool was_fresh = fixed_window::fresh(before, limit, now);
  const bool is_fresh = fixed_window::fresh(out.next, limit, now);

  if (!allows(out.next, limit, d.remaining, now.us)) return "remaining cannot be taken";
  if (d.remaining < limit.quota && allows(out.next, limit, d.remaining + 1, now.us))
    return "more than remaining can be taken";

  const Wide reset = Wide{now.us} + d.reset_after.us;
  if (is_fresh != (d.reset_after.us == 0)) return "reset_after 0 is not the same as fresh";
  if (!fixed_window::fresh(out.next, limit, {static_cast<int64_t>(reset)}))
    return "not fresh at reset_after";
  if (!is_fresh && fixed_window::fresh(out.next, limit, {static_cast<int64_t>(reset - 1)}))
    return "fresh before reset_after";
  if (is_fresh && out.next.units == 0 && out.next != State{}) return "fresh, but not as a new one";
  if (d.reset_after > limit.window) return "a wait longer than the window";

  if (d.allowed) {
    if (d.retry_after.us != 0) return "granted, yet a wait";
    return "";
  }
  if (d.retry_after == base::never) {
    if (cost <= limit.quota) return "never, yet it could be";
  } else {
    const Wide then = Wide{now.us} + d.retry_after.us;
    if (!allows(out.next, limit, cost, then)) return "retry_after is not enough";
    if (allows(out.next, limit, cost, then - 1)) return "less than retry_after is enough";
  }
  if (was_fresh && out.next != State{}) return "a refusal opened a window";
  if (!was_fresh) {
    const bool opened_later = Wide{before.fresh_at_us} - limit.window.us > now.us;
    const State corrected{opened_later ? now.us + limit.window.us : before.fresh_at_us,
                          before.units};
    if (out.next != corrected) return "a refusal changed the counter";
  }
  return "";
}

// ---- Exhaustive ----

struct Alphabet {
  std::vector<int64_t> costs, steps;
};

struct Step {
  int64_t cost, now;
  bool allowed;
};

// Every sequence of (time step, cost) up to a length. Stops at the first difference from the model.
class Sequences {
 public:
  Sequences(Limit limit, Alphabet alphabet) : limit_(limit), alphabet_(std::move(alphabet)) {}

  size_t decisions = 0;
  std::string wrong;

  void run(size_t length, const State& state, const Naive& model, int64_t now) {
    if (length == 0 || !wrong.empty()) return;
    for (const int64_t step : alphabet_.steps) {
      for (const int64_t cost : alphabet_.costs) {
        Naive next = model;
        const Decision expected = next.ask(cost, now + step);
        const Outcome out = fixed_window::decide(state, limit_, cost, {now + step});
        ++decisions;
        path_.push_back({cost, now + step, out.decision.allowed});
        if (!same(out.decision, expected))
          fail(text(out.decision) + ", expected " + text(expected));
        const std::string broken = broken_promise(state, limit_, cost, {now + step});
        if (!broken.empty()) fail(broken);
        if (!clock_steps_back()) check_bound();
        run(length - 1, out.next, next, now + step);
        path_.pop_back();
      }
    }
  }

 private:
  bool clock_steps_back() const { return alphabet_.steps.front() < 0; }

  // For each grant of the path: the units granted from there to the latest grant are at most the
  // header's bound for that time.
  void check_bound() {
    int64_t sum = 0;
    for (size_t i = path_.size(); i-- > 0;) {
      if (path_[i].allowed) sum += path_[i].cost;
      const int64_t t = path_.back().now - path_[i].now + 1;
      if (sum > bound(limit_, t)) fail("the bound is broken");
    }
  }

  void fail(const std::string& what) {
    if (!wrong.empty()) return;
    wrong = "quota " + std::to_string(limit_.quota) + " window " +
            std::to_string(limit_.window.us) + ": ";
    for (const Step& s : path_) wrong += std::to_string(s.cost) + "@" + std::to_string(s.now) + " ";
    wrong += what;
  }

 public:
  // The header's formula.
  static int64_t bound(const Limit& limit, int64_t t) {
    const int64_t q = limit.quota, w = limit.window.us;
    return (t - 1) % w == 0 ? q * ((t - 1) / w + 1) : q * ((t - 1) / w + 2) - 1;
  }

 private:
  Limit limit_;
  Alphabet alphabet_;
  std::vector<Step> path_;
};

void exhaust(const Alphabet& alphabet, size_t length) {
  size_t decisions = 0;
  for (const int64_t quota : {1, 2, 3}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      Sequences all(window_of(quota, window), alphabet);
      // Starts below time 0, so that windows end below, at and above 0.
      all.run(length, {}, {quota, window}, -2);
      ASSERT_EQ(all.wrong, "");
      decisions += all.decisions;
    }
  }
  EXPECT_GT(decisions, 500'000u);
}

TEST(FixedWindow, EverySequenceOfFour) {
  exhaust({{0, 1, 2, 3, 4}, {-3, -1, 0, 1, 2}}, 4);
}

TEST(FixedWindow, EveryForwardSequenceOfSix) {
  exhaust({{1, 2, 4}, {0, 1, 2}}, 6);
}

TEST(FixedWindow, EverySequenceOfSevenWithAClockThatSteps) {
  exhaust({{0, 1}, {-2, 0, 1}}, 7);
}

TEST(FixedWindow, TheBoundIsReached) {
  for (const int64_t quota : {1, 2, 5}) {
    for (const int64_t window : {1, 2, 3, 7}) {
      const Limit limit = window_of(quota, window);
      for (int64_t t = 1; t < 5 * window; ++t) {
        // Takes all units at once in each window; then one unit first, and the rest in its last
        // microsecond.
        int64_t most = 0;
        for (const bool late : {false, true}) {
          State state;
          int64_t admitted = 0;
          const int64_t a = late ? window - 1 : 0;
          if (late) state = fixed_window::decide(state, limit, 1, {0}).next;
          for (int64_t now = a; now < a + t; ++now) {
            int64_t cost = quota;
            while (cost > 0 && !allows(state, limit, cost, now)) --cost;
            state = fixed_window::decide(state, limit, cost, {now}).next;
            admitted += cost;
          }
          most = std::max(most, admitted);
        }
        EXPECT_EQ(most, Sequences::bound(limit, t)) << quota << " " << window << " " << t;
      }
    }
  }
}

// ---- Random ----

TEST(FixedWindow, RandomSequencesMatchTheModel) {
  std::mt19937_64 random(20261120);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[random() % values.size()];
  };
  constexpr int64_t century = int64_t{100} * 366 * 86'400 * 1'000'000;
  size_t granted = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int64_t quota = one_of({1, 2, 3, 10, 1000, (int64_t{1} << 53) - 1, int64_t{1} << 53});
    const int64_t window = one_of({1, 2, 1000, 1'000'000, 3'600'000'000, century - 1, century});
    const Limit limit = window_of(quota, window);
    int64_t now = one_of({0, -1, -window, 1'795'000'000'000'000, min64, min64 + window,
                          max64 - 3 * window, max64 - window, max64});
    State state;
    Naive model{quota, window};
    for (int i = 0; i < 40; ++i) {
      const int64_t cost =
          one_of({0, 1, 1, 1, 2, quota / 3, quota / 2, quota - 1, quota, quota + 1, max64});
      const Outcome out = fixed_window::decide(state, limit, cost, {now});
      const Decision expected = model.ask(cost, now);
      ASSERT_TRUE(same(out.decision, expected)) << text(out.decision) << "\n" << text(expected);
      // At max64 every window is over, so no wait is left and the statements do not apply.
      if (now < max64 - window) {
        ASSERT_EQ(broken_promise(state, limit, cost, {now}), "")
            << text(out.decision) << " cost " << cost;
      }
      (out.decision.allowed ? granted : refused) += 1;
      state = out.next;
      const Wide step =
          one_of({0, 0, 0, 1, -1, window - 1, window, window + 1, -window, window / 2, -window / 3,
                  static_cast<int64_t>(random() % static_cast<uint64_t>(window))});
      now = static_cast<int64_t>(std::clamp<Wide>(Wide{now} + step, min64, max64));
    }
  }
  EXPECT_GT(granted, 100'000u);
  EXPECT_GT(refused, 100'000u);
}

// ---- Extremes ----

auto fixed_window_extremes() {
  constexpr int64_t big = int64_t{1} << 53;
  const struct {
    const char* what;
    State state;
    int64_t quota, window, cost, now;
    Decision decision;
    State next;
  } table[] = {
      {"the first unit opens", {}, 3, 100, 1, 1000, {true, 3, 2, {100}, {}}, {1100, 1}},
      {"cost 0 opens nothing", {}, 3, 100, 0, 1000, {true, 3, 3, {}, {}}, {}},
      {"more than the quota, fresh", {}, 3, 100, 4, 1000, {false, 3, 3, {}, base::never}, {}},
      {"more than the quota, open",
       {1100, 1},
       3,
       100,
       4,
       1001,
       {false, 3, 2, {99}, base::never},
       {1100, 1}},
      {"the last unit", {1100, 2}, 3, 100, 1, 1099, {true, 3, 0, {1}, {}}, {1100, 3}},
      {"used up", {1100, 3}, 3, 100, 1, 1099, {false, 3, 0, {1}, {1}}, {1100, 3}},
      {"cost 0 when used up", {1100, 3}, 3, 100, 0, 1099, {true, 3, 0, {1}, {}}, {1100, 3}},
      {"over at its end", {1100, 3}, 3, 100, 1, 1100, {true, 3, 2, {100}, {}}, {1200, 1}},
      {"over, cost 0", {1100, 3}, 3, 100, 0, 1100, {true, 3, 3, {}, {}}, {}},
      {"all of the largest quota", {}, big, 1, big, 0, {true, big, 0, {1}, {}}, {1, big}},
      {"the largest cost", {}, big, 1, max64, 0, {false, big, big, {}, base::never}, {}},
      {"a window that ends at 0", {0, 2}, 3, 100, 1, -1, {true, 3, 0, {1}, {}}, {0, 3}},
      {"opened in the future", {1200, 2}, 3, 100, 1, 1000, {true, 3, 0, {100}, {}}, {1100, 3}},
      {"opened in the future, refused",
       {1200, 2},
       3,
       100,
       2,
       1000,
       {false, 3, 1, {100}, {100}},
       {1100, 2}},
      {"far in the future",
       {max64, 2},
       3,
       100,
       1,
       min64,
       {true, 3, 0, {100}, {}},
       {min64 + 100, 3}},
      {"the earliest time", {}, 3, 100, 1, min64, {true, 3, 2, {100}, {}}, {min64 + 100, 1}},
      {"an end beyond time", {}, 3, 100, 1, max64 - 9, {true, 3, 2, {9}, {}}, {max64, 1}},
      {"the end of time", {max64, 3}, 3, 100, 1, max64, {true, 3, 2, {}, {}}, {max64, 1}},
      {"in debt, after the quota fell",
       {1100, 9},
       3,
       100,
       1,
       1000,
       {false, 3, -6, {100}, {100}},
       {1100, 9}},
  };
  return std::vector(table, std::end(table));
}

TEST(FixedWindow, Extremes) {
  for (const auto& row : fixed_window_extremes()) {
    const Outcome out =
        fixed_window::decide(row.state, window_of(row.quota, row.window), row.cost, {row.now});
    EXPECT_EQ(text(out.decision), text(row.decision)) << row.what;
    EXPECT_EQ(out.next, row.next) << row.what;
  }
  static_assert(sizeof(State) == 16);
}

TEST(FixedWindowDeathTest, PreconditionsAreChecked) {
  EXPECT_DEATH(fixed_window::decide({}, window_of(1, 1), -1, {}), "cost");
  EXPECT_DEATH(fixed_window::decide({}, window_of(0, 1), 1, {}), "quota");
  EXPECT_DEATH(fixed_window::decide({}, window_of(1, 0), 1, {}), "window");
}

}  // namespace
}  // namespace sluice::limit::fixed_window_test
