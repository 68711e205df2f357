// Charges after the fact, and limits that count what they refuse, in a program (sluice/limiter.h).
#include <gtest/gtest.h>
#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::limiter_charge_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};

limiter made(const std::string& text = {}) {
  options how;
  how.memory_bytes = size_t{16} << 20;
  auto made = limiter::create(std::move(how));
  EXPECT_TRUE(made.has_value());
  if (!text.empty()) {
    const auto read = made->reload_text(text, start);
    EXPECT_TRUE(read.has_value()) << (read ? "" : read.why().message);
  }
  return std::move(*made);
}

TEST(LimiterCharge, CountsPastTheLimitAndIsNeverRefused) {
  limiter limiter = made();
  const handle by = *limiter.limits("tokens", {{100, 1min, algorithm::fixed_window}});
  ASSERT_TRUE(limiter.take(by, "acme", 90, start).allowed);
  const decision within = limiter.charge(by, "acme", 10, start);
  EXPECT_TRUE(within.allowed);
  EXPECT_FALSE(within.over);
  EXPECT_EQ(within.remaining, 0);
  EXPECT_EQ(within.retry_after, 1min);
  EXPECT_TRUE(limiter.would_take(by, "acme", 0, start).allowed);
  const decision past = limiter.charge(by, "acme", 25, start);
  EXPECT_TRUE(past.allowed);
  EXPECT_TRUE(past.over);
  EXPECT_EQ(past.remaining, -25);
  EXPECT_EQ(past.retry_after, 1min);
  EXPECT_FALSE(limiter.would_take(by, "acme", 0, start).allowed);
  EXPECT_FALSE(limiter.take(by, "acme", 1, start).allowed);
  EXPECT_EQ(limiter.put(by, "acme", 30, start).remaining, 5);
  EXPECT_EQ(limiter.charge(by, "acme", -1, start).error, errc::invalid_argument);
  EXPECT_EQ(limiter.charge(by, "acme", 0, start).remaining, 5);
}

// "Look, work, charge": the loop ends after the first charge that passes the limit.
TEST(LimiterCharge, ALookBeforeWorkRefusesAfterTheFirstChargePastTheLimit) {
  for (const algorithm how :
       {algorithm::token_bucket, algorithm::fixed_window, algorithm::aligned_window,
        algorithm::sliding_window, algorithm::sliding_log, algorithm::fixed_bucket,
        algorithm::concurrency}) {
    limiter limiter = made();
    const duration window = how == algorithm::fixed_bucket ? duration(0) : duration(1h);
    const handle by = *limiter.limits("tokens", {{100, window, how}});
    int calls = 0;
    for (; calls < 10 && limiter.would_take(by, "acme", 0, start).allowed; ++calls)
      EXPECT_TRUE(limiter.charge(by, "acme", 30, start).allowed);
    EXPECT_EQ(calls, 4) << static_cast<int>(how);
    EXPECT_EQ(limiter.peek(by, "acme", start).remaining, -20) << static_cast<int>(how);
  }
}

TEST(LimiterCharge, ShowsTheLimitThatTakesLongestUntilItGrantsAUnit) {
  limiter limiter = made();
  const handle by = *limiter.limits(
      "tokens", {{10, 1s, algorithm::fixed_window}, {20, 1h, algorithm::fixed_window}});
  const decision shorter = limiter.charge(by, "acme", 15, start);
  EXPECT_TRUE(shorter.over);
  EXPECT_EQ(shorter.limit, 10);
  EXPECT_EQ(shorter.remaining, -5);
  // The longer limit has nothing left and no debt; the shorter one is in debt.
  const decision longer = limiter.charge(by, "acme", 5, start);
  EXPECT_TRUE(longer.over);
  EXPECT_EQ(longer.limit, 20);
  EXPECT_EQ(longer.remaining, 0);
}

TEST(LimiterCharge, ChargesAllKeysTogetherWithADecisionEach) {
  limiter limiter = made();
  const handle input = *limiter.limits("input", {{10, 1min, algorithm::fixed_window}});
  const handle output = *limiter.limits("output", {{5, 1min, algorithm::fixed_window}});
  decision each[3];
  const decision all =
      limiter.charge_all({{&input, "a", 3}, {&output, "a", 7}, {&input, "a", 4}}, start, each);
  EXPECT_TRUE(all.allowed);
  EXPECT_TRUE(all.over);
  EXPECT_EQ(all.remaining, -2);
  EXPECT_EQ(each[0].remaining, 3);
  EXPECT_FALSE(each[0].over);
  EXPECT_EQ(each[1].remaining, -2);
  EXPECT_TRUE(each[1].over);
  EXPECT_EQ(limiter.charge_all({}, start).matched, false);
}

TEST(LimiterCharge, GoesByTheRulesOfAPolicyAndByOverrides) {
  limiter limiter = made(
      "rules:\n"
      "- { name: free, match: { plan: free }, unlimited: true }\n"
      "- { name: tokens, match: { tenant: '*' }, actor: tenant,"
      " limit: { quota: 10, window: 1m, algorithm: fixed_window } }\n");
  const decision free = limiter.charge({{"plan", "free"}}, 5, start);
  EXPECT_TRUE(free.allowed);
  EXPECT_FALSE(free.over);
  EXPECT_FALSE(limiter.charge({{"none", "x"}}, 5, start).matched);
  const decision past = limiter.charge({{"tenant", "acme"}}, 12, start);
  EXPECT_TRUE(past.over);
  EXPECT_EQ(past.remaining, -2);
  // The debt is units used: a larger limit by an override has room again.
  ASSERT_TRUE(
      limiter.set_override({"tokens", {"acme"}, {{20, 1min, algorithm::fixed_window}}}, start));
  EXPECT_EQ(limiter.charge(*limiter.find("tokens"), "acme", 1, start).remaining, 7);
}

TEST(LimiterCharge, ALimitThatCountsChargesWhatItRefuses) {
  limiter limiter = made(
      "rules:\n"
      "- { name: tokens, match: { tenant: '*' }, actor: tenant, limits: [\n"
      "    { quota: 10, window: 1m, algorithm: fixed_window, over: count },\n"
      "    { quota: 100, window: 1h, algorithm: fixed_window }] }\n");
  const handle by = *limiter.find("tokens");
  const auto expect_counts = [&](std::string_view tenant, auto&& take) {
    ASSERT_TRUE(take(8).allowed);
    const decision refused = take(5);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.limit, 10);
    const auto left = limiter.peek(by, tenant, start);
    EXPECT_EQ(left.remaining, -3) << tenant;
    EXPECT_FALSE(take(0).allowed);
    // The other limit has counted the first take alone.
    EXPECT_EQ(limiter.peek(by, tenant, start + 1min).remaining, 10) << tenant;
  };
  expect_counts("a", [&](int64_t n) { return limiter.take(by, "a", n, start); });
  expect_counts("b", [&](int64_t n) { return limiter.take({{"tenant", "b"}}, n, start); });
  expect_counts("c", [&](int64_t n) { return limiter.take_all({{&by, "c", n}}, start); });
  expect_counts("d", [&](int64_t n) {
    const struct charge one { &by, "d", n };
    decision its;
    limiter.take_many({&one, 1}, &its, start);
    return its;
  });
  // An override's limit in place of one that counts does so too; a wait charges nothing before
  // it is granted.
  ASSERT_TRUE(limiter.set_override({"tokens", {"e"}, {{4, 1min, algorithm::fixed_window}}}, start));
  EXPECT_FALSE(limiter.take(by, "e", 6, start).allowed);
  EXPECT_EQ(limiter.peek(by, "e", start).remaining, -2);
  EXPECT_FALSE(limiter.wait(by, "f", 11, start, {}, start).now.allowed);
  EXPECT_EQ(limiter.peek(by, "f", start).remaining, 10);
}

TEST(LimiterCharge, OwesNoMoreThanTheOverdraft) {
  for (const algorithm how :
       {algorithm::token_bucket, algorithm::fixed_window, algorithm::aligned_window,
        algorithm::sliding_window, algorithm::sliding_log, algorithm::fixed_bucket,
        algorithm::concurrency}) {
    limiter limiter = made();
    limit_spec limit{10, how == algorithm::fixed_bucket ? duration(0) : duration(1h), how};
    limit.overdraft = 5;
    const handle by = *limiter.limits("tokens", {limit});
    const decision past = limiter.charge(by, "acme", 40, start);
    EXPECT_EQ(past.charged, 15) << static_cast<int>(how);
    EXPECT_EQ(past.remaining, -5) << static_cast<int>(how);
    EXPECT_EQ(limiter.charge(by, "acme", 3, start).charged, 0);
    // The same limits with another overdraft: the same counter, which keeps its debt.
    limit.overdraft = 0;
    const handle drains = *limiter.limits("tokens", {limit});
    EXPECT_EQ(limiter.charge(drains, "acme", 3, start).remaining, -5);
    EXPECT_EQ(limiter.put(drains, "acme", 8, start).remaining, 3);
    EXPECT_EQ(limiter.charge(drains, "acme", 7, start).charged, 3);
    EXPECT_EQ(limiter.charge_all({{&by, "acme", 1}, {&drains, "acme", 1}}, start).error,
              errc::conflicting_limits);
    limit.overdraft = -1;
    EXPECT_EQ(limiter.limits("tokens", {limit}).why().code, errc::invalid_argument);
  }
}

TEST(LimiterCharge, TellsWhatWasCountedOfEachCharge) {
  limiter limiter = made(
      "rules:\n"
      "- { name: tokens, match: { tenant: '*' }, actor: tenant, limits: [\n"
      "    { quota: 10, window: 1m, algorithm: fixed_window, overdraft: 2 },\n"
      "    { quota: 100, window: 1h, algorithm: fixed_window }] }\n"
      "- { name: free, match: { free: '*' }, unlimited: true }\n");
  EXPECT_EQ(limiter.charge({{"tenant", "a"}}, 7, start).charged, 7);
  EXPECT_EQ(limiter.charge({{"tenant", "a"}}, 7, start).charged, 5);
  EXPECT_EQ(limiter.charge({{"free", "a"}}, 7, start).charged, 0);
  EXPECT_EQ(limiter.take({{"tenant", "b"}}, 7, start).charged, 0);
  const handle by = *limiter.find("tokens");
  decision each[2];
  const decision all = limiter.charge_all({{&by, "c", 20}, {&by, "d", 4}}, start, each);
  EXPECT_EQ(each[0].charged, 12);
  EXPECT_EQ(each[1].charged, 4);
  EXPECT_EQ(all.charged, 16);
  // An override keeps the overdraft of the rule, and cannot have one.
  limit_spec more{20, 1min, algorithm::fixed_window};
  ASSERT_TRUE(limiter.set_override({"tokens", {"e"}, {more}}, start));
  EXPECT_EQ(limiter.charge(by, "e", 50, start).charged, 22);
  more.overdraft = 1;
  EXPECT_EQ(limiter.set_override({"tokens", {"e"}, {more}}, start).why().code,
            errc::invalid_argument);
  // A reload changes it, and the debt stays.
  ASSERT_TRUE(
      limiter.reload_text("rules:\n"
                          "- { name: tokens, match: { tenant: '*' }, actor: tenant, limits: [\n"
                          "    { quota: 10, window: 1m, algorithm: fixed_window, overdraft: 3 },\n"
                          "    { quota: 100, window: 1h, algorithm: fixed_window }] }\n",
                          start));
  EXPECT_EQ(limiter.charge(by, "c", 20, start).charged, 1);
  EXPECT_EQ(limiter.peek(by, "c", start).remaining, -3);
}

TEST(LimiterCharge, TellsInCWhatWasCounted) {
  sluice_limiter* const in_c = sluice_create(nullptr, nullptr);
  const sluice_limit limit{10, 60'000'000, 0, SLUICE_FIXED_WINDOW, 0};
  const int64_t overdraft = 5, wrong = -1;
  sluice_error error;
  EXPECT_EQ(sluice_limits_with_overdraft(in_c, "tokens", &limit, &wrong, 1, &error), nullptr);
  EXPECT_EQ(error.code, SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_limits_with_overdraft(in_c, "tokens", &limit, nullptr, 1, &error), nullptr);
  EXPECT_EQ(error.code, SLUICE_INVALID_ARGUMENT);
  sluice_handle* const by =
      sluice_limits_with_overdraft(in_c, "tokens", &limit, &overdraft, 1, nullptr);
  const std::array<sluice_charge, 2> charges{{{by, "k", 1, 40}, {by, "l", 1, 3}}};
  std::array<int64_t, 2> charged{-1, -1};
  std::array<sluice_decision, 2> each{};
  sluice_decision d{};
  EXPECT_EQ(sluice_charge_all_counted(in_c, charges.data(), 2, 0, charged.data(), each.data(), &d),
            SLUICE_OK);
  EXPECT_EQ(charged, (std::array<int64_t, 2>{15, 3}));
  EXPECT_EQ(each[0].remaining, -5);
  EXPECT_EQ(each[1].remaining, 7);
  EXPECT_EQ(sluice_charge_all_counted(in_c, charges.data(), 2, 0, charged.data(), nullptr, &d),
            SLUICE_OK);
  EXPECT_EQ(charged, (std::array<int64_t, 2>{0, 3}));
  EXPECT_EQ(sluice_charge_all_counted(in_c, charges.data(), 2, 0, nullptr, nullptr, &d),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_charge_all_counted(nullptr, charges.data(), 2, 0, charged.data(), nullptr, &d),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(charged, (std::array<int64_t, 2>{0, 0}));
  EXPECT_EQ(sluice_charge_matching_counted(in_c, nullptr, 0, 1, 0, charged.data(), &d), SLUICE_OK);
  EXPECT_EQ(charged[0], 0);
  EXPECT_EQ(sluice_charge_matching_counted(in_c, nullptr, 0, 1, 0, nullptr, &d),
            SLUICE_INVALID_ARGUMENT);
  sluice_handle_destroy(by);
  sluice_destroy(in_c);
}

TEST(LimiterCharge, IsTheSameInC) {
  sluice_limiter* const in_c = sluice_create(nullptr, nullptr);
  const sluice_limit limit{10, 60'000'000, 0, SLUICE_FIXED_WINDOW, 0};
  sluice_handle* const by = sluice_limits(in_c, "tokens", &limit, 1, nullptr);
  sluice_decision d{};
  EXPECT_EQ(sluice_charge_key(in_c, by, "k", 1, 12, 0, &d), SLUICE_OK);
  EXPECT_EQ(d.allowed, 1);
  EXPECT_EQ(d.over, 1);
  EXPECT_EQ(d.remaining, -2);
  const sluice_charge more{by, "k", 1, 1};
  EXPECT_EQ(sluice_charge_all(in_c, &more, 1, 0, nullptr, &d), SLUICE_OK);
  EXPECT_EQ(d.remaining, -3);
  EXPECT_EQ(sluice_charge_matching(in_c, nullptr, 0, 1, 0, &d), SLUICE_OK);
  EXPECT_EQ(d.matched, 0);
  EXPECT_EQ(sluice_charge_key(nullptr, by, "k", 1, 1, 0, &d), SLUICE_INVALID_ARGUMENT);
  sluice_handle_destroy(by);
  sluice_destroy(in_c);
}

}  // namespace sluice::limiter_charge_test
