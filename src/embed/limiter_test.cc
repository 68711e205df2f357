// sluice::limiter (include/sluice/limiter.h): decisions against a model, reloads, overrides,
// bounds, threads, forks, and the C functions.
#include <gtest/gtest.h>
#include <sluice/limiter.h>
#include <sluice/sluice.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "limit/decide.h"

namespace sluice::limiter_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};

limiter made(options how = {}) {
  how.memory_bytes = size_t{16} << 20;
  auto made = limiter::create(std::move(how));
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

limiter with_policy(const std::string& text) {
  options how;
  how.memory_bytes = size_t{16} << 20;
  auto made = limiter::from_policy_text(text, std::move(how));
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.why().message);
  return std::move(*made);
}

handle two_a_minute(limiter& limiter) {
  return *limiter.limits("test", {{2, 60s, algorithm::fixed_window}});
}

TEST(Limiter, TakesUntilTheLimit) {
  limiter limiter = made();
  const handle by = two_a_minute(limiter);
  EXPECT_EQ(limiter.take(by, "a", 1, start).remaining, 1);
  EXPECT_TRUE(limiter.take(by, "a", 1, start).allowed);
  const decision refused = limiter.take(by, "a", 1, start + 1s);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.error, errc::ok);
  EXPECT_EQ(refused.retry_after, 59s);
  EXPECT_TRUE(limiter.take(by, "b", 2, start).allowed);
  EXPECT_TRUE(limiter.take(by, "a", 1, start + 60s).allowed);
}

TEST(Limiter, BadArgumentsReturnErrors) {
  limiter limiter = made(), other = made();
  const handle by = two_a_minute(limiter);
  const std::string long_key(key_bytes_max + 1, 'k');
  EXPECT_EQ(limiter.take(handle(), "a", 1, start).error, errc::invalid_argument);
  EXPECT_EQ(other.take(by, "a", 1, start).error, errc::invalid_argument);
  EXPECT_EQ(limiter.take(by, "a", -1, start).error, errc::invalid_argument);
  EXPECT_EQ(limiter.take(by, long_key, 1, start).error, errc::invalid_argument);
  EXPECT_EQ(limiter.take(by, "a", 1, time_point(duration(-1))).error, errc::invalid_argument);
  EXPECT_EQ(limiter.take(by, "a", 1, latest_time + 1us).error, errc::invalid_argument);
  EXPECT_FALSE(limiter.limits("x", {}).has_value());
  EXPECT_FALSE(limiter.limits("x", {{0, 1s}}).has_value());
  EXPECT_FALSE(limiter.limits("x", {{1, 0s}}).has_value());
  EXPECT_FALSE(limiter.limits("x", {{1, 1s, static_cast<algorithm>(77)}}).has_value());
  EXPECT_EQ(limiter.find("none").why().code, errc::unknown_rule);
  options small;
  small.memory_bytes = 1;
  EXPECT_EQ(limiter::create(small).why().code, errc::invalid_argument);
  class limiter moved = std::move(other);
  EXPECT_EQ(other.take(by, "a", 1, start).error, errc::invalid_argument);  // NOLINT
}

// For arguments at both ends of every range each call returns a decision: nothing overflows, and
// the process does not end.
TEST(Limiter, ExtremesAreAnswered) {
  limiter limiter = made();
  const std::array costs = {int64_t{0}, int64_t{1}, quota_max, INT64_MAX};
  const std::array times = {time_point(), start, latest_time};
  size_t answers = 0;
  for (int which = 0; which <= 5; ++which) {
    const auto how = static_cast<algorithm>(which);
    for (const int64_t quota : {int64_t{1}, int64_t{100}, quota_max}) {
      for (const duration window : {duration(1), duration(1s), window_max}) {
        const auto by =
            limiter.limits("x" + std::to_string(++answers),
                           {{quota, how == algorithm::fixed_bucket ? 0us : window, how}});
        ASSERT_TRUE(by.has_value()) << by.why().message;
        for (const time_point now : times)
          for (const int64_t cost : costs) {
            for (const auto& d :
                 {limiter.would_take(*by, "k", cost, now), limiter.take(*by, "k", cost, now),
                  limiter.peek(*by, "k", now), limiter.put(*by, "k", cost, now)})
              ASSERT_EQ(d.error, errc::ok);
          }
        ASSERT_EQ(limiter.reset(*by, "k", start).error, errc::ok);
      }
    }
  }
}

// The model: counters in a map, decided by the pure functions of limit/.
class Model {
 public:
  using Key = std::pair<size_t, std::string>;
  struct Asked {
    Key key;
    int64_t cost;
  };
  explicit Model(std::vector<std::vector<limit::Limit>> limits) : limits_(std::move(limits)) {}

  bool take(const std::map<Key, int64_t>& costs, base::Time now) {
    std::map<Key, std::vector<limit::State>> next;
    bool allowed = true;
    for (const auto& [key, cost] : costs) {
      std::vector<limit::State> state = at(key);
      size_t first = 0;
      for (const limit::Limit& limit : limits_[key.first]) {
        allowed &= limit::decide(&state[first], limit, cost, now, &state[first]).allowed;
        first += limit::cells(limit);
      }
      next[key] = std::move(state);
    }
    if (allowed)
      for (auto& [key, state] : next) states_[key] = std::move(state);
    return allowed;
  }
  void put(const Key& key, int64_t units, bool all, base::Time now) {
    std::vector<limit::State>& state = at(key);
    size_t first = 0;
    for (const limit::Limit& limit : limits_[key.first]) {
      limit::put(&state[first], limit, units, all, now, &state[first]);
      first += limit::cells(limit);
    }
  }
  int64_t remaining(const Key& key, base::Time now) {
    const std::vector<limit::State>& state = at(key);
    int64_t least = INT64_MAX;
    size_t first = 0;
    for (const limit::Limit& limit : limits_[key.first]) {
      least = std::min(least, limit::peek(&state[first], limit, now).remaining);
      first += limit::cells(limit);
    }
    return least;
  }

 private:
  std::vector<limit::State>& at(const Key& key) {
    const auto [at, is_new] = states_.try_emplace(key);
    if (is_new) at->second.resize(limit::cells(limits_[key.first]));
    return at->second;
  }
  std::vector<std::vector<limit::Limit>> limits_;
  std::map<Key, std::vector<limit::State>> states_;
};

struct Kind {
  std::vector<limit_spec> spec;
  std::vector<limit::Limit> limits;
};

std::vector<Kind> kinds() {
  using limit::Algorithm;
  return {
      {{{5, 1s}}, {{Algorithm::token_bucket, 5, {1'000'000}, 5}}},
      {{{7, 2s, algorithm::fixed_window}}, {{Algorithm::fixed_window, 7, {2'000'000}, 0}}},
      {{{6, 1s, algorithm::aligned_window}}, {{Algorithm::aligned_window, 6, {1'000'000}, 0}}},
      {{{9, 1s, algorithm::sliding_window}}, {{Algorithm::sliding_window, 9, {1'000'000}, 0}}},
      {{{4, 1s, algorithm::sliding_log}}, {{Algorithm::sliding_log, 4, {1'000'000}, 0}}},
      {{{5, 0s, algorithm::fixed_bucket}}, {{Algorithm::fixed_bucket, 5, {0}, 5}}},
      {{{5, 30s, algorithm::concurrency}}, {{Algorithm::concurrency, 5, {30'000'000}, 30'000'000}}},
      {{{3, 1s, algorithm::token_bucket, 6}, {8, 5s, algorithm::fixed_window}},
       {{Algorithm::token_bucket, 3, {1'000'000}, 6},
        {Algorithm::fixed_window, 8, {5'000'000}, 0}}},
  };
}

// A random sequence of all calls, on the limiter and the model.
class Sequence {
 public:
  explicit Sequence(uint64_t seed) : dice_(seed), limiter_(made()), model_(limits()) {
    const auto all = kinds();
    for (size_t i = 0; i < all.size(); ++i)
      handles_.push_back(*limiter_.limits("kind" + std::to_string(i), all[i].spec));
  }

  void run(size_t steps) {
    for (size_t i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      now_ += duration(dice_() % 400'000);
      if (dice_() % 50 == 0) limiter_.sweep(2048, now_);
      step();
    }
  }

 private:
  static std::vector<std::vector<limit::Limit>> limits() {
    std::vector<std::vector<limit::Limit>> all;
    for (const Kind& kind : kinds()) all.push_back(kind.limits);
    return all;
  }
  base::Time at() const { return {now_.time_since_epoch().count()}; }
  Model::Asked asked() {
    return {{dice_() % handles_.size(), std::string(1, static_cast<char>('a' + dice_() % 3))},
            static_cast<int64_t>(dice_() % 4)};
  }

  void step() {
    const Model::Asked one = asked();
    const handle& by = handles_[one.key.first];
    switch (dice_() % 8) {
      case 0:
        limiter_.put(by, one.key.second, one.cost, now_);
        return model_.put(one.key, one.cost, false, at());
      case 1:
        if (dice_() % 4 != 0) return;
        limiter_.reset(by, one.key.second, now_);
        return model_.put(one.key, 0, true, at());
      case 2:
        return expect_peek(one);
      case 3:
      case 4:
        return take_all();
      case 5:
        return take_many();
      default: {
        const bool would = limiter_.would_take(by, one.key.second, one.cost, now_).allowed;
        const bool did = limiter_.take(by, one.key.second, one.cost, now_).allowed;
        EXPECT_EQ(would, did);
        EXPECT_EQ(did, model_.take({{one.key, one.cost}}, at()));
      }
    }
  }
  void expect_peek(const Model::Asked& one) {
    EXPECT_EQ(limiter_.peek(handles_[one.key.first], one.key.second, now_).remaining,
              model_.remaining(one.key, at()));
  }
  // Some charges have the same counter.
  void take_all() {
    std::vector<Model::Asked> all(1 + dice_() % 5);
    std::map<Model::Key, int64_t> costs;
    std::vector<charge> charges;
    for (Model::Asked& one : all) {
      one = asked();
      costs[one.key] += one.cost;
      charges.push_back({&handles_[one.key.first], one.key.second, one.cost});
    }
    std::vector<decision> each(all.size());
    EXPECT_EQ(limiter_.take_all(charges, now_, each.data()).allowed, model_.take(costs, at()));
    for (const Model::Asked& one : all) expect_peek(one);
  }
  void take_many() {
    std::vector<Model::Asked> all(1 + dice_() % 40);
    std::vector<charge> charges;
    for (Model::Asked& one : all) {
      one = asked();
      charges.push_back({&handles_[one.key.first], one.key.second, one.cost});
    }
    std::vector<decision> each(all.size());
    limiter_.take_many(charges, each.data(), now_);
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(each[i].allowed, model_.take({{all[i].key, all[i].cost}}, at())) << i;
  }

  std::mt19937_64 dice_;
  limiter limiter_;
  std::vector<handle> handles_;
  Model model_;
  time_point now_ = start;
};

TEST(Limiter, DecidesLikeTheModel) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Sequence(seed).run(3000);
    if (HasFailure()) return;
  }
}

TEST(Limiter, ConflictingLimitsOfOneCounterAreAnError) {
  limiter limiter = made();
  const handle one = *limiter.limits("x", {{2, 60s, algorithm::fixed_window}});
  const handle other = *limiter.limits("x", {{3, 60s, algorithm::fixed_window}});
  const decision both = limiter.take_all({{&one, "k", 1}, {&other, "k", 1}}, start);
  EXPECT_EQ(both.error, errc::conflicting_limits);
  EXPECT_EQ(limiter.peek(one, "k", start).remaining, 2);
  // The same counter under another quota: used units stay used.
  EXPECT_TRUE(limiter.take(one, "k", 2, start).allowed);
  EXPECT_EQ(limiter.peek(other, "k", start).remaining, 1);
}

constexpr auto rules = R"(rules:
- { name: per-ip, match: { ip: "*" }, actor: ip, limit: { quota: 3, window: 1m, algorithm: fixed_window }, then: continue }
- { name: shadow, match: { ip: "*" }, mode: shadow, limit: { quota: 1, window: 1m, algorithm: fixed_window } }
- { name: all, match: { path: "/a*" }, limit: { quota: 5, window: 1m, algorithm: fixed_window } }
)";

TEST(LimiterPolicy, RulesDecideTogether) {
  limiter limiter = with_policy(rules);
  const auto take = [&](const char* ip) {
    return limiter.take({{"ip", ip}, {"path", "/abc"}}, 1, start);
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(take("1").allowed);
  EXPECT_FALSE(take("1").allowed);
  EXPECT_TRUE(take("2").allowed);
  EXPECT_TRUE(take("2").allowed);
  EXPECT_FALSE(take("2").allowed);  // `all` refuses, and per-ip is not charged
  EXPECT_EQ(limiter.peek(*limiter.find("per-ip"), "2", start).remaining, 1);
  EXPECT_FALSE(limiter.take({{"other", "x"}}, 1, start).matched);
  EXPECT_TRUE(limiter.take({{"other", "x"}}, 1, start).allowed);
}

TEST(LimiterPolicy, ErrorsNameTheirPlaceAndChangeNothing) {
  limiter limiter = with_policy(rules);
  const auto wrong = limiter.reload_text("rules:\n- { name: x }\n", start, "new.yaml");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.why().code, errc::policy);
  EXPECT_EQ(wrong.why().message.rfind("new.yaml:2:", 0), 0u) << wrong.why().message;
  EXPECT_TRUE(limiter.find("per-ip").has_value());
  EXPECT_EQ(limiter.reload_file("/does/not/exist.yaml", start).why().code, errc::policy);
}

TEST(LimiterPolicy, ATextWithoutRulesIsRefusedAndTheOldRulesStay) {
  limiter limiter = with_policy(rules);
  const auto expect_refused = [&](const std::string& text, const std::string& what) {
    const auto refused = limiter.reload_text(text, start, "new.yaml");
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.why().code, errc::policy);
    EXPECT_NE(refused.why().message.find(what), std::string::npos) << refused.why().message;
    EXPECT_TRUE(limiter.find("per-ip").has_value());
  };
  for (const char* text :
       {"", "# nothing", "null", "~", "---\n", "{}", "workers: 4", "policy: [{ file: rules.ini }]"})
    expect_refused(text, "new.yaml: error: rules: is missing: no request would meet a rule; add");
  expect_refused("rulse: [{ deny: true }]",
                 "error: rulse: is not a known key; did you mean `rules`?");
  expect_refused("rules: []", "new.yaml:1:8: error: rules: must be a list with at least one rule");
  expect_refused("rules:", "rules: must be a list with at least one rule");
  EXPECT_FALSE(limiter.take({{"ip", "1"}, {"path", "/abc"}}, 4, start).allowed);
  EXPECT_FALSE(limiter::from_policy_text("").has_value());
  sluice_error problem{};
  sluice_limiter* const in_c = sluice_create(nullptr, &problem);
  EXPECT_EQ(sluice_reload_text(in_c, "# x", 3, "b.yaml", 0, &problem), SLUICE_POLICY);
  EXPECT_NE(std::string(problem.message).find("no request would meet a rule"), std::string::npos);
  sluice_destroy(in_c);
}

TEST(LimiterPolicy, SaysWhatIsDoubtfulInRules) {
  limiter limiter = with_policy(rules);
  const auto report = limiter.reload_text(
      "rules:\n- { name: all, match: { ip: \"*\" }, limit: { quota: 3, window: 1m } }\n"
      "- { name: never, match: { ip: \"10.*\" }, mode: shadow, limit: { quota: 1, window: 1m } }\n",
      start, "new.yaml");
  ASSERT_TRUE(report);
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_EQ(report->warnings[0].rfind("new.yaml:3: warning: rule never: is unreachable: ", 0), 0u)
      << report->warnings[0];
}

TEST(LimiterPolicy, HandlesFollowReloads) {
  limiter limiter = with_policy(rules);
  const handle by = *limiter.find("per-ip");
  EXPECT_TRUE(limiter.take(by, "1", 2, start).allowed);
  ASSERT_TRUE(
      limiter.reload_text("rules: [{ name: per-ip, match: { ip: \"*\" }, actor: ip, limit: "
                          "{ quota: 10, window: 1m, algorithm: fixed_window } }]",
                          start));
  EXPECT_EQ(limiter.peek(by, "1", start).remaining, 8);
  ASSERT_TRUE(limiter.reload_text("rules: [{ name: x, match: { ip: \"*\" }, deny: true }]", start));
  EXPECT_EQ(limiter.take(by, "1", 1, start).error, errc::unknown_rule);
  EXPECT_FALSE(limiter.take({{"ip", "1"}}, 1, start).allowed);
  ASSERT_TRUE(limiter.reload_text(rules, start));
  EXPECT_EQ(limiter.peek(by, "1", start).remaining, 1);
}

TEST(LimiterPolicy, OverridesHoldUntilTheyEnd) {
  limiter limiter = with_policy(rules);
  const handle by = *limiter.find("per-ip");
  const override_spec one{"per-ip", {"10.*"}, {{100, 1min, algorithm::fixed_window}}, start + 1h};
  ASSERT_TRUE(limiter.set_override(one, start));
  EXPECT_EQ(limiter.peek(by, "10.1", start).limit, 100);
  EXPECT_EQ(limiter.peek(by, "11.1", start).limit, 3);
  EXPECT_EQ(limiter.take({{"ip", "10.1"}}, 1, start).limit, 100);
  EXPECT_EQ(limiter.peek(by, "10.1", start + 1h).limit, 3);
  ASSERT_EQ(limiter.overrides(start)->size(), 1u);
  limiter.sweep(1, start + 1h);
  EXPECT_TRUE(limiter.overrides(start)->empty());
  ASSERT_TRUE(limiter.set_override(one, start));
  ASSERT_TRUE(limiter.remove_override("per-ip", {"10.*"}, start));
  EXPECT_EQ(limiter.peek(by, "10.1", start).limit, 3);
  EXPECT_EQ(limiter.remove_override("per-ip", {"10.*"}, start).why().code, errc::not_found);
  EXPECT_EQ(limiter.set_override({"per-ip", {}, {{1, 1s}}}, start).why().code,
            errc::invalid_argument);
}

TEST(LimiterPolicy, OverridesHoldForNetworksAndLists) {
  limiter limiter = with_policy(rules);
  const handle by = *limiter.find("per-ip");
  const std::vector<limit_spec> more{{100, 1min, algorithm::fixed_window}};
  ASSERT_TRUE(limiter.set_override({"per-ip", {"cidr(203.0.113.0/24)"}, more}, start));
  ASSERT_TRUE(limiter.set_override({"per-ip", {"[bob,alice]"}, more}, start));
  for (const char* who : {"203.0.113.7", "alice", "bob"})
    EXPECT_EQ(limiter.peek(by, who, start).limit, 100) << who;
  EXPECT_EQ(limiter.peek(by, "203.0.114.7", start).limit, 3);
  for (const char* wrong : {"203.0.113.0/24", "regex(/^a/)", "[alice", "cidr(alice)"}) {
    const auto refused = limiter.set_override({"per-ip", {wrong}, more}, start);
    EXPECT_EQ(refused.why().code, errc::invalid_argument) << wrong;
    EXPECT_NE(refused.why().message.find("write"), std::string::npos) << refused.why().message;
  }
  const auto all = limiter.overrides(start);
  ASSERT_EQ(all->size(), 2u);
  for (const override_spec& one : *all)
    EXPECT_TRUE(limiter.remove_override(one.rule, one.actor, start));
  EXPECT_EQ(limiter.peek(by, "alice", start).limit, 3);
}

// Lists of limits that nothing names are forgotten; else the bound would be reached here.
TEST(Limiter, BoundsTheNumberOfInternedLimits) {
  options how;
  how.limits_max = 64;
  limiter limiter = made(std::move(how));
  for (int i = 1; i <= 1000; ++i)
    ASSERT_TRUE(limiter.limits("n" + std::to_string(i), {{i, 1s}}).has_value()) << i;
  std::vector<handle> held;
  for (int i = 1; i <= 1000; ++i) {
    auto one = limiter.limits("m" + std::to_string(i), {{i, 1s}});
    if (!one) {
      EXPECT_EQ(one.why().code, errc::too_many_limits);
      EXPECT_LE(held.size(), 64u);
      break;
    }
    held.push_back(*one);
  }
  EXPECT_LT(held.size(), 1000u);
  held.clear();
  EXPECT_TRUE(limiter.limits("again", {{77, 1s}}).has_value());
}

TEST(Limiter, AHandleMayOutliveItsLimiter) {
  handle by;
  {
    limiter limiter = made();
    by = two_a_minute(limiter);
    EXPECT_TRUE(limiter.take(by, "a", 1, start).allowed);
  }
  limiter other = made();
  EXPECT_EQ(other.take(by, "a", 1, start).error, errc::invalid_argument);
}

// The child has a copy of the counters, and can destroy the limiter although it has no sweep
// thread.
TEST(Limiter, AForkedChildHasACopy) {
  options how;
  how.sweep_thread = true;
  auto limiter = std::make_unique<class limiter>(made(std::move(how)));
  const handle by = two_a_minute(*limiter);
  ASSERT_TRUE(limiter->take(by, "a", 1, start).allowed);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool right =
        limiter->take(by, "a", 1, start).allowed && !limiter->take(by, "a", 1, start).allowed;
    limiter.reset();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(limiter->peek(by, "a", start).remaining, 1);
}

// Threads together grant the quota and no more, during reloads and changes of overrides.
TEST(LimiterThreads, NeverGrantMoreThanTheQuota) {
  const std::string text =
      "rules: [{ name: r, match: { k: \"*\" }, actor: k, limit: { quota: 1000, window: 1h, "
      "algorithm: fixed_window } }]";
  limiter limiter = with_policy(text);
  const handle by = *limiter.find("r");
  std::atomic<int64_t> granted{0};
  const auto work = [&](int which) {
    for (int i = 0; i < 1500; ++i) {
      decision d;
      if (which % 2 == 0)
        d = limiter.take(by, "k", 1, start);
      else
        d = limiter.take({{"k", "k"}}, 1, start);
      granted += d.allowed;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(limiter.reload_text(text, start));
    EXPECT_TRUE(limiter.set_override({"r", {"other"}, {{1 + i, 1s}}}, start));
    limiter.sweep(64, start);
    EXPECT_TRUE(limiter.limits("x" + std::to_string(i), {{1 + i, 2s}}).has_value());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 1000);
}

}  // namespace sluice::limiter_test
