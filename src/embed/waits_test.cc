// Waits of sluice::limiter (include/sluice/limiter.h): answers, timeouts, reloads, overrides,
// callbacks and threads.
#include <gtest/gtest.h>
#include <sluice/limiter.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::waits_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};

limiter made(const std::string& policy = {}, size_t waiting_max = 1000) {
  options how;
  how.memory_bytes = size_t{16} << 20;
  how.waiting_max = waiting_max;
  auto made = policy.empty() ? limiter::create(how) : limiter::from_policy_text(policy, how);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.why().message);
  return std::move(*made);
}

// The answers by their waits, and the order in which they arrived.
struct Answers {
  std::map<wait_id, decision> all;
  std::vector<wait_id> order;
  wait_callback callback() {
    return [this](wait_id id, const decision& d) {
      EXPECT_TRUE(all.emplace(id, d).second) << "called twice";
      order.push_back(id);
    };
  }
};

TEST(LimiterWait, IsGrantedWhenUnitsComeBack) {
  limiter limiter = made();
  const handle by = *limiter.limits("b", {{2, 0s, algorithm::fixed_bucket}});
  Answers answers;
  EXPECT_TRUE(limiter.wait(by, "k", 2, start + 1h, answers.callback(), start).now.allowed);
  const waiting first = limiter.wait(by, "k", 1, start + 1h, answers.callback(), start);
  const waiting second = limiter.wait(by, "k", 1, start + 1h, answers.callback(), start);
  ASSERT_NE(first.id, 0u);
  ASSERT_NE(second.id, 0u);
  EXPECT_EQ(limiter.run_due(start).called, 0u);
  limiter.put(by, "k", 1, start);
  EXPECT_EQ(limiter.run_due(start).called, 1u);
  EXPECT_TRUE(answers.all.at(first.id).allowed);
  EXPECT_FALSE(limiter.take(by, "k", 1, start).allowed);
  EXPECT_TRUE(limiter.cancel(second.id, start));
  EXPECT_FALSE(limiter.cancel(second.id, start));
  EXPECT_FALSE(limiter.cancel(first.id, start));
  limiter.put(by, "k", 1, start);
  EXPECT_EQ(limiter.run_due(start).called, 0u);
  EXPECT_TRUE(limiter.take(by, "k", 1, start).allowed);
}

TEST(LimiterWait, IsGrantedByItsDeadlineOrTimesOut) {
  limiter limiter = made();
  const handle by = *limiter.limits("w", {{1, 10s, algorithm::fixed_window}});
  Answers answers;
  EXPECT_TRUE(limiter.take(by, "k", 1, start).allowed);
  const auto in_time = limiter.wait(by, "k", 1, start + 10s, answers.callback(), start);
  const auto too_late = limiter.wait(by, "k", 1, start + 15s, answers.callback(), start);
  EXPECT_EQ(limiter.run_due(start + 5s).next, start + 10s);
  EXPECT_EQ(limiter.run_due(start + 10s).called, 1u);
  EXPECT_TRUE(answers.all.at(in_time.id).allowed);
  EXPECT_EQ(limiter.run_due(start + 15s).called, 1u);
  EXPECT_EQ(answers.all.at(too_late.id).error, errc::timed_out);
  EXPECT_FALSE(answers.all.at(too_late.id).allowed);
  EXPECT_EQ(limiter.stats().waiting, 0u);
  EXPECT_TRUE(limiter.take(by, "k", 1, start + 20s).allowed);
}

TEST(LimiterWait, AnswersAtOnceARequestThatCannotWait) {
  limiter limiter = made({}, 1);
  const handle by = *limiter.limits("w", {{2, 10s, algorithm::fixed_window}});
  Answers answers;
  const auto never_fits = limiter.wait(by, "k", 3, start + 1h, answers.callback(), start);
  EXPECT_EQ(never_fits.id, 0u);
  EXPECT_FALSE(never_fits.now.allowed);
  EXPECT_EQ(limiter.wait(by, "k", -1, start + 1h, answers.callback(), start).now.error,
            errc::invalid_argument);
  EXPECT_TRUE(limiter.take(by, "k", 2, start).allowed);
  EXPECT_EQ(limiter.wait(by, "k", 1, start, answers.callback(), start).now.error, errc::timed_out);
  EXPECT_NE(limiter.wait(by, "k", 1, start + 1h, answers.callback(), start).id, 0u);
  EXPECT_EQ(limiter.wait(by, "k", 1, start + 1h, answers.callback(), start).now.error,
            errc::too_many_waiting);
  EXPECT_EQ(limiter.stats().waiting, 1u);
}

const std::string two =
    "rules: [{ name: r, match: { k: \"*\" }, actor: k, limit: { quota: 2, "
    "window: 1m, algorithm: fixed_window } }]";
const std::string five =
    "rules: [{ name: r, match: { k: \"*\" }, actor: k, limit: { quota: 5, "
    "window: 1m, algorithm: fixed_window } }]";
const std::string none = "rules: [{ name: x, match: { y: \"*\" }, deny: true }]";

TEST(LimiterWait, AReloadMatchesWaitersAgain) {
  limiter limiter = made(two);
  const handle by = *limiter.find("r");
  Answers answers;
  EXPECT_TRUE(limiter.take(by, "a", 2, start).allowed);
  const auto one = limiter.wait(by, "a", 2, start + 1h, answers.callback(), start);
  const auto other = limiter.wait({{"k", "a"}}, 2, start + 1h, answers.callback(), start);
  ASSERT_TRUE(limiter.reload_text(two, start));  // the same rules
  EXPECT_EQ(limiter.run_due(start).called, 0u);
  ASSERT_TRUE(limiter.reload_text(five, start));
  EXPECT_EQ(limiter.run_due(start).called, 1u);
  EXPECT_TRUE(answers.all.at(one.id).allowed);
  ASSERT_TRUE(limiter.reload_text(none, start));
  EXPECT_EQ(limiter.run_due(start).called, 1u);
  EXPECT_TRUE(answers.all.at(other.id).allowed);
  EXPECT_FALSE(answers.all.at(other.id).matched);
  ASSERT_TRUE(limiter.reload_text(two, start));
  const auto gone = limiter.wait(by, "a", 1, start + 1h, answers.callback(), start);
  ASSERT_NE(gone.id, 0u);
  ASSERT_TRUE(limiter.reload_text(none, start));
  EXPECT_EQ(limiter.run_due(start).called, 1u);
  EXPECT_EQ(answers.all.at(gone.id).error, errc::unknown_rule);
  EXPECT_EQ(limiter.stats().waiting, 0u);
}

TEST(LimiterWait, AnOverrideAndItsEndMatchWaitersAgain) {
  limiter limiter = made(two);
  const handle by = *limiter.find("r");
  Answers answers;
  EXPECT_TRUE(limiter.take(by, "a", 2, start).allowed);
  const auto one = limiter.wait(by, "a", 1, start + 1h, answers.callback(), start);
  ASSERT_TRUE(limiter.set_override({"r", {"a"}, {{3, 1min, algorithm::fixed_window}}}, start));
  EXPECT_EQ(limiter.run_due(start).called, 1u);
  EXPECT_TRUE(answers.all.at(one.id).allowed);
  // An override with a small quota expires: then there are units enough.
  ASSERT_TRUE(
      limiter.set_override({"r", {"b"}, {{1, 1min, algorithm::fixed_window}}, start + 5s}, start));
  EXPECT_TRUE(limiter.take(by, "b", 1, start).allowed);
  const auto other = limiter.wait(by, "b", 1, start + 1h, answers.callback(), start);
  EXPECT_EQ(limiter.run_due(start + 1s).next, start + 5s);
  EXPECT_EQ(limiter.run_due(start + 5s).called, 1u);
  EXPECT_TRUE(answers.all.at(other.id).allowed);
}

TEST(LimiterWait, ACallbackMayDoAnything) {
  auto limiter = std::make_unique<class limiter>(made(two));
  const handle by = *limiter->find("r");
  EXPECT_TRUE(limiter->take(by, "a", 2, start).allowed);
  int called = 0;
  limiter->wait(
      by, "a", 1, start + 2h,
      [&](wait_id, const decision& d) {
        EXPECT_TRUE(d.allowed);
        ++called;
        limiter->put(by, "a", 1, start + 1min);
        limiter->run_due(start + 1min);
        EXPECT_TRUE(limiter->reload_text(five, start + 1min));
        throw 1;
      },
      start);
  limiter->wait(
      by, "a", 1, start + 2h,
      [&](wait_id, const decision&) {
        ++called;
        limiter.reset();
      },
      start);
  limiter->run_due(start + 1min);
  EXPECT_EQ(called, 2);
  EXPECT_EQ(limiter, nullptr);
}

// The model of the windows of rule r: who is granted how much until when, and which limits were in
// force.
struct Windows {
  static constexpr duration length = 1min;
  static constexpr int64_t override_quota = 4;
  struct Window {
    time_point end;
    int64_t used = 0;
  };

  // The units that a window may grant at `now`: the override's until it ends, else the policy's.
  int64_t in_force(const std::string& key, time_point now) const {
    const auto at = overridden_until.find(key);
    return at != overridden_until.end() && now < at->second ? override_quota : quota;
  }
  // An answer that is handed out may have been decided under any limit since the last run_due.
  void note(time_point now) {
    for (const std::string key : {"a", "b"})
      largest[key] = std::max(largest[key], in_force(key, now));
  }
  void forget() { largest.clear(); }
  // The window opens with its first unit, and ends a minute later; if the clock steps back, a
  // minute from there at most.
  Window& at(const std::string& key, time_point now) {
    Window& window = open[key];
    if (window.used == 0 || now >= window.end) window = {now + length};
    window.end = std::min(window.end, now + length);
    return window;
  }
  void grant(const std::string& key, int64_t cost, time_point now, int64_t limit) {
    Window& window = at(key, now);
    window.used += cost;
    EXPECT_LE(window.used, limit) << "the window of " << key << " grants more than its limit";
    ++granted;
  }

  int64_t quota = 2;  // of the policy
  std::map<std::string, time_point> overridden_until;
  std::map<std::string, int64_t> largest;
  std::map<std::string, Window> open;
  size_t granted = 0;
};

// Waits crossed with puts, takes, reloads, overrides, cancels, sweeps and steps of the clock. Where
// the model of the windows is to hold, all answers are handed out before the clock moves on: else
// it would not be known when they were decided.
struct RandomWaits {
  RandomWaits(uint64_t seed, bool with_windows) : dice(seed), has_windows(with_windows) {}

  void step() {
    const std::string key(1, static_cast<char>('a' + dice() % 2));
    const auto cost = static_cast<int64_t>(1 + dice() % 2);
    const uint64_t what = dice() % 10;
    if (what == moves_clock && has_windows) run();
    if (what < 4)
      wait(what, key, cost);
    else
      disturb(what, key);
    windows.note(now);
    if (dice() % 2) run();
  }
  void run() {
    limiter.run_due(now);
    settle();
    windows.forget();
    windows.note(now);
  }
  // Calls run_due until every wait has ended, 100 times at most.
  void finish() {
    run();
    now += 10min;
    windows.note(now);
    for (int i = 0; i < 100 && !open.empty(); ++i) run();
  }

  // Units that a wait takes.
  struct Units {
    std::string key;
    int64_t of_window = 0, of_bucket = 0;
  };

  void wait(uint64_t what, const std::string& key, int64_t cost) {
    waiting w;
    Units units{key, cost};
    switch (what) {
      case 0:
        w = limiter.wait(by, key, cost, now + duration(dice() % 90'000'000), answers.callback(),
                         now);
        break;
      case 1:
        w = limiter.wait({{"k", key}}, cost, now + 100s, answers.callback(), now);
        break;
      case 2:
        units = {key, 0, cost};
        w = limiter.wait(bucket, "k", cost, now + 50s, answers.callback(), now);
        break;
      default:
        units = {key, 1, 1};
        w = limiter.wait_all({{&by, key, 1}, {&bucket, "k", 1}}, now + 70s, answers.callback(),
                             now);
        break;
    }
    if (w.id != 0) {
      asked[w.id] = units;
      open.insert(w.id);
    } else if (w.now.allowed) {
      grant(units, windows.in_force(key, now));
      if (has_windows && what < 2) is_as_the_model(key, w.now);
    }
  }
  void grant(const Units& units, int64_t limit) {
    out += units.of_bucket;
    if (has_windows && units.of_window > 0) windows.grant(units.key, units.of_window, now, limit);
  }
  // A window ends earlier from the first look at it after the clock has stepped back, so that there
  // is one at once.
  void look() {
    for (const std::string key : {"a", "b"}) {
      limiter.put(by, key, 0, now);
      windows.at(key, now);
    }
  }
  // What was granted at once says how its window is; an answer that is not handed out yet may have
  // taken some of it.
  void is_as_the_model(const std::string& key, const decision& d) {
    const Windows::Window& window = windows.at(key, now);
    const bool all_known = std::none_of(open.begin(), open.end(), [&](wait_id id) {
      return asked.at(id).key == key && asked.at(id).of_window > 0;
    });
    EXPECT_EQ(d.limit, windows.in_force(key, now));
    EXPECT_EQ(d.reset_after, window.end - now);
    if (all_known) {
      EXPECT_EQ(d.remaining, d.limit - window.used);
    } else {
      EXPECT_LE(d.remaining, d.limit - window.used);
    }
    compared += all_known;
  }
  void disturb(uint64_t what, const std::string& key) {
    switch (what) {
      case 4:
        if (out > 0) {
          limiter.put(bucket, "k", 1, now);
          --out;
        }
        break;
      case 5:
        windows.quota = dice() % 2 ? 2 : 5;
        EXPECT_TRUE(limiter.reload_text(windows.quota == 2 ? two : five, now));
        break;
      case 6:
        if (dice() % 2) {
          windows.overridden_until[key] = now + 20s;
          EXPECT_TRUE(limiter.set_override(
              {"r", {key}, {{Windows::override_quota, 1min, algorithm::fixed_window}}, now + 20s},
              now));
        } else {
          windows.overridden_until.erase(key);
          limiter.remove_override("r", {key}, now);
        }
        break;
      case 7:
        if (!open.empty()) {
          const wait_id id =
              *std::next(open.begin(), static_cast<std::ptrdiff_t>(dice() % open.size()));
          if (limiter.cancel(id, now)) open.erase(id);
        }
        break;
      case moves_clock:
        now += dice() % 10 == 0 ? duration(-5'000'000) : duration(dice() % 10'000'000);
        if (has_windows) look();
        break;
      default:
        limiter.sweep(100, now);
        // It forgets overrides that have ended, so they do not come back if the clock steps back.
        for (auto at = windows.overridden_until.begin(); at != windows.overridden_until.end();)
          at = at->second <= now ? windows.overridden_until.erase(at) : std::next(at);
        break;
    }
  }
  // A wait that ended was open before, and at most 3 units of the bucket are out.
  void settle() {
    for (const wait_id id : std::exchange(answers.order, {})) {
      EXPECT_EQ(open.count(id), 1u);
      const Units& units = asked.at(id);
      if (answers.all.at(id).allowed) grant(units, windows.largest[units.key]);
      granted_late += answers.all.at(id).allowed && units.of_window > 0;
      open.erase(id);
    }
    EXPECT_LE(out, 3);
  }

  static constexpr uint64_t moves_clock = 8;
  std::mt19937_64 dice;
  const bool has_windows;
  sluice::limiter limiter = made(two);
  const handle by = *limiter.find("r");
  const handle bucket = *limiter.limits("b", {{3, 0s, algorithm::fixed_bucket}});
  Answers answers;
  Windows windows;
  std::set<wait_id> open;
  std::map<wait_id, Units> asked;
  time_point now = start;
  int64_t out = 0;          // units of the bucket that are out
  size_t granted_late = 0;  // of rule r, by run_due
  size_t compared = 0;      // windows of which all was known
};

// Also the bucket never grants more than its 3 units.
TEST(LimiterWait, EveryWaitEndsOnceInRandomSequences) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(seed);
    RandomWaits waits(seed, false);
    for (int i = 0; i < 400; ++i) waits.step();
    waits.finish();
    EXPECT_TRUE(waits.open.empty()) << waits.open.size() << " waits have no answer";
    EXPECT_EQ(waits.limiter.stats().waiting, 0u);
    if (HasFailure()) return;
  }
}

// The largest limit counts that was in force when an answer can have been decided.
TEST(LimiterWait, NoWindowGrantsMoreThanItsLimitWhateverHappens) {
  size_t granted = 0, late = 0, compared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomWaits waits(seed, true);
    for (int i = 0; i < 400; ++i) waits.step();
    waits.finish();
    EXPECT_TRUE(waits.open.empty()) << waits.open.size() << " waits have no answer";
    granted += waits.windows.granted;
    late += waits.granted_late;
    compared += waits.compared;
    if (HasFailure()) return;
  }
  EXPECT_GT(granted, 1'000u);
  EXPECT_GT(late, 800u);
  EXPECT_GT(compared, 100u);
}

TEST(LimiterWait, ThreadsWaitAndRun) {
  limiter limiter = made();
  const handle by = *limiter.limits("b", {{2, 0s, algorithm::fixed_bucket}});
  constexpr int threads = 3, each = 200;
  std::atomic<int> answered{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < each; ++i) {
        const auto w = limiter.wait(
            by, "k", 1, start + 1h,
            [&](wait_id, const decision& d) {
              EXPECT_TRUE(d.allowed);
              ++answered;
              limiter.put(by, "k", 1, start);
            },
            start);
        if (w.id == 0) {
          EXPECT_TRUE(w.now.allowed);
          ++answered;
          limiter.put(by, "k", 1, start);
        }
        limiter.run_due(start);
      }
    });
  for (std::thread& thread : all) thread.join();
  for (int i = 0; i < threads * each && answered < threads * each; ++i) limiter.run_due(start);
  EXPECT_EQ(answered, threads * each);
  EXPECT_EQ(limiter.peek(by, "k", start).remaining, 2);
}

}  // namespace sluice::waits_test
