// Reserves and acquires of a program that wait (sluice/limiter.h): granted in order with other
// waits, held from then on, and ended once in whatever way.
#include <gtest/gtest.h>
#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::reserve_waits_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};

const std::string policy =
    "rules:\n"
    "- { name: pool, match: { pool: '*' }, actor: pool,"
    " limit: { quota: 2, algorithm: concurrency, lease: 30s } }\n"
    "- { name: tokens, match: { tenant: '*' }, actor: tenant,"
    " limit: { quota: 100, window: 1h, algorithm: fixed_window } }\n";

limiter made_with(const std::string& text = policy, size_t holds_max = 100) {
  options how;
  how.memory_bytes = size_t{16} << 20;
  how.holds_max = holds_max;
  auto made = limiter::from_policy_text(text, std::move(how));
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

// The answers, by the number of their wait.
struct Answers {
  std::map<wait_id, reservation> by_id;
  reserve_callback note() {
    return [this](wait_id id, const reservation& its) {
      EXPECT_TRUE(by_id.emplace(id, its).second) << "answered twice";
    };
  }
};

TEST(ReserveWait, GetsPlacesInOrderWhenTheyAreReleasedOrEnd) {
  limiter its = made_with();
  const handle pool = *its.find("pool");
  Answers answers;
  const reservation first = its.acquire({{&pool, "a", 1}}, 0s, start);
  const reservation second = its.acquire({{&pool, "a", 1}}, 10s, start);
  ASSERT_TRUE(first.now.allowed && second.now.allowed);
  const auto both =
      its.wait_acquire({{&pool, "a", 2}}, 5s, start + 60s, answers.note(), start + 1s);
  const auto one = its.wait_acquire({{&pool, "a", 1}}, 0s, start + 60s, answers.note(), start + 2s);
  ASSERT_NE(both.id, 0u);
  ASSERT_NE(one.id, 0u);
  EXPECT_FALSE(both.now.now.allowed);
  EXPECT_FALSE(both.now.id);
  EXPECT_EQ(its.stats().waiting, 2u);
  EXPECT_EQ(its.release(first.id, start + 3s).returned, 1);
  EXPECT_EQ(its.run_due(start + 3s).next, start + 10s) << "the larger one is not overtaken";
  EXPECT_TRUE(answers.by_id.empty());
  // The lease of the second ends.
  EXPECT_EQ(its.run_due(start + 10s).called, 1u);
  const reservation held = answers.by_id.at(both.id);
  EXPECT_TRUE(held.now.allowed);
  EXPECT_EQ(held.reserved, 2);
  EXPECT_EQ(held.until, start + 15s) << "from the moment of its grant";
  EXPECT_EQ(its.run_due(start + 15s).called, 1u);
  const reservation last = answers.by_id.at(one.id);
  EXPECT_EQ(last.until, start + 45s);
  EXPECT_EQ(its.renew(held.id, 0s, start + 16s).now.error, errc::hold_ended);
  EXPECT_EQ(its.renew(last.id, 0s, start + 16s).until, start + 46s);
  EXPECT_EQ(its.release(last.id, start + 17s).returned, 1);
  EXPECT_EQ(its.peek(pool, "a", start + 17s).remaining, 2);
  EXPECT_EQ(its.stats().waiting, 0u);
  EXPECT_EQ(its.stats().holds, 0u);
}

TEST(ReserveWait, GetsUnitsByThePolicyAndIsCommitted) {
  limiter its = made_with();
  Answers answers;
  const reservation first = its.reserve({{"tenant", "acme"}}, 80, 0s, start);
  const auto waits =
      its.wait_reserve({{"tenant", "acme"}}, 60, 20s, start + 1h, answers.note(), start + 1s);
  ASSERT_NE(waits.id, 0u);
  EXPECT_EQ(its.commit(first.id, {10}, start + 2s).returned, 70);
  EXPECT_EQ(its.run_due(start + 2s).called, 1u);
  const reservation held = answers.by_id.at(waits.id);
  EXPECT_TRUE(held.now.allowed);
  EXPECT_EQ(held.now.remaining, 30);
  EXPECT_EQ(held.until, start + 22s);
  EXPECT_EQ(its.commit(held.id, {5}, start + 3s).returned, 55);
  EXPECT_EQ(its.peek({{"tenant", "acme"}}, start + 3s).remaining, 85);
}

TEST(ReserveWait, IsAnsweredAtOnceWhereNobodyHasToWait) {
  limiter its = made_with();
  const handle pool = *its.find("pool"), tokens = *its.find("tokens");
  Answers answers;
  const auto ask = [&](const handle& by, int64_t n, time_point deadline) {
    return its.wait_acquire({{&by, "a", n}}, 0s, deadline, answers.note(), start);
  };
  const auto held = ask(pool, 1, start + 1h);
  EXPECT_EQ(held.id, 0u);
  EXPECT_TRUE(held.now.now.allowed);
  EXPECT_TRUE(held.now.id);
  EXPECT_EQ(its.run_due(start).next, start + 30s) << "its end";
  EXPECT_EQ(ask(pool, 1, start).now.reserved, 1) << "without time to wait as an acquire";
  const auto late = ask(pool, 1, start);
  EXPECT_EQ(late.id, 0u);
  EXPECT_EQ(late.now.now.error, errc::timed_out);
  const auto never_fits = ask(pool, 3, start + 1h);
  EXPECT_EQ(never_fits.id, 0u);
  EXPECT_FALSE(never_fits.now.now.allowed);
  EXPECT_EQ(never_fits.now.now.error, errc::ok);
  EXPECT_EQ(ask(tokens, 1, start + 1h).now.now.error, errc::no_places);
  EXPECT_EQ(ask(pool, -1, start + 1h).now.now.error, errc::invalid_argument);
  EXPECT_EQ(its.stats().holds, 2u);
  EXPECT_EQ(its.stats().waiting, 0u);
  limiter none = made_with(policy, 0);
  const handle its_pool = *none.find("pool");
  EXPECT_EQ(none.wait_acquire({{&its_pool, "a", 1}}, 0s, start + 1h, {}, start).now.now.error,
            errc::too_many_holds);
  EXPECT_TRUE(answers.by_id.empty());
}

TEST(ReserveWait, LeavesNothingWhenItTimesOutOrIsCancelled) {
  limiter its = made_with(policy, 3);
  const handle pool = *its.find("pool");
  Answers answers;
  const reservation first = its.acquire({{&pool, "a", 2}}, 0s, start);
  ASSERT_TRUE(first.now.allowed);
  for (int i = 0; i < 10; ++i) {  // more than may be held at a time
    const auto late = its.wait_acquire({{&pool, "a", 1}}, 0s, start + 1s, answers.note(), start);
    ASSERT_NE(late.id, 0u) << static_cast<int>(late.now.now.error);
    EXPECT_EQ(its.run_due(start + 1s).called, 1u);
    EXPECT_EQ(answers.by_id.at(late.id).now.error, errc::timed_out);
    EXPECT_FALSE(answers.by_id.at(late.id).id);
    const auto gone = its.wait_acquire({{&pool, "a", 1}}, 0s, start + 9s, answers.note(), start);
    ASSERT_NE(gone.id, 0u);
    EXPECT_TRUE(its.cancel(gone.id, start + 1s));
    EXPECT_FALSE(its.cancel(gone.id, start + 1s));
  }
  EXPECT_EQ(its.release(first.id, start + 2s).returned, 2);
  EXPECT_EQ(its.peek(pool, "a", start + 2s).remaining, 2);
  EXPECT_EQ(its.stats().holds, 0u);
  // One that waits when the limiter ends is not called back.
  const reservation last = its.acquire({{&pool, "a", 2}}, 0s, start + 3s);
  ASSERT_TRUE(last.now.allowed);
  EXPECT_NE(its.wait_acquire({{&pool, "a", 1}}, 0s, start + 1h, answers.note(), start + 3s).id, 0u);
  EXPECT_EQ(answers.by_id.size(), 10u);
}

TEST(ReserveWait, IsMatchedAgainByAReload) {
  limiter its = made_with();
  const handle pool = *its.find("pool");
  Answers answers;
  ASSERT_TRUE(its.acquire({{&pool, "a", 2}}, 0s, start).now.allowed);
  const auto by_handle = its.wait_acquire({{&pool, "a", 2}}, 0s, start + 1h, answers.note(), start);
  const auto by_policy =
      its.wait_acquire({{"pool", "a"}}, 1, 0s, start + 1h, answers.note(), start);
  ASSERT_TRUE(by_handle.id != 0 && by_policy.id != 0);
  std::string more = policy;
  more.replace(more.find("quota: 2"), 8, "quota: 4");
  ASSERT_TRUE(its.reload_text(more, start + 1s).has_value());
  EXPECT_EQ(its.run_due(start + 1s).called, 1u);
  EXPECT_EQ(answers.by_id.at(by_handle.id).reserved, 2);
  ASSERT_TRUE(its.reload_text("rules: [{ name: other, match: { x: y }, deny: true }]", start + 2s)
                  .has_value());
  EXPECT_EQ(its.run_due(start + 2s).called, 1u);
  EXPECT_EQ(answers.by_id.at(by_policy.id).now.error, errc::unknown_rule);
  EXPECT_FALSE(answers.by_id.at(by_policy.id).id);
  EXPECT_EQ(its.stats().waiting, 0u);
  EXPECT_EQ(its.stats().holds, 2u);
}

struct InC {
  std::string told;
  sluice_hold hold{};
};

TEST(ReserveWaitInC, IsCalledBackWithWhatIsHeld) {
  sluice_options how{};
  how.size = sizeof how;
  how.holds_max = 10;
  sluice_limiter* const its =
      sluice_create_from_text(policy.data(), policy.size(), nullptr, &how, nullptr);
  ASSERT_NE(its, nullptr);
  const int64_t now = start.time_since_epoch().count();
  const auto note = [](void* data, uint64_t, const sluice_decision* decision,
                       const sluice_hold* hold, int64_t reserved, int64_t until) {
    auto& in_c = *static_cast<InC*>(data);
    in_c.hold = *hold;
    in_c.told += std::to_string(decision->error) + " " + std::to_string(reserved) + " " +
                 std::to_string(until == 0 ? 0 : until - start.time_since_epoch().count()) + "\n";
  };
  const sluice_entry tenant{"tenant", 6, "acme", 4}, pool{"pool", 4, "a", 1};
  InC tokens, places;
  sluice_decision decision;
  sluice_hold hold, other;
  int64_t reserved = 0, until = 0;
  uint64_t id = 0;
  ASSERT_EQ(sluice_wait_reserve_matching(its, &tenant, 1, 90, 0, now + 9, note, &tokens, now,
                                         &reserved, &until, &decision, &hold, &id),
            0);
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(reserved, 90);
  EXPECT_EQ(until, now + 60'000'000);
  ASSERT_EQ(sluice_wait_reserve_matching(its, &tenant, 1, 30, 5'000'000, now + 9, note, &tokens,
                                         now, &reserved, &until, &decision, &other, &id),
            0);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(reserved + until, 0);
  EXPECT_EQ(decision.allowed, 0);
  EXPECT_EQ(sluice_release(its, &hold, now + 1, nullptr, nullptr), 0);
  sluice_handle* const by = sluice_find(its, "pool", nullptr);
  const sluice_charge both{by, "a", 1, 2};
  ASSERT_EQ(sluice_wait_acquire(its, &both, 1, 0, now + 9, note, &places, now, nullptr, &until,
                                &decision, &hold, &id),
            0);
  EXPECT_EQ(id, 0u);
  ASSERT_EQ(sluice_wait_acquire_matching(its, &pool, 1, 1, 0, now + 9, note, &places, now, nullptr,
                                         nullptr, nullptr, &other, &id),
            0);
  EXPECT_NE(id, 0u);
  const sluice_charge tokens_of{by, "b", 1, 1};
  ASSERT_EQ(sluice_wait_reserve(its, &tokens_of, 1, 0, now + 9, note, &places, now, &reserved,
                                nullptr, nullptr, &other, &id),
            0);
  EXPECT_EQ(reserved, 1);
  EXPECT_EQ(sluice_run_due(its, now + 9, nullptr), 2u);
  EXPECT_EQ(tokens.told, "0 30 5000009\n");
  EXPECT_EQ(sluice_release(its, &tokens.hold, now + 9, nullptr, nullptr), 0);
  EXPECT_EQ(places.told, std::to_string(SLUICE_TIMED_OUT) + " 0 0\n");
  EXPECT_EQ(sluice_wait_acquire(its, &both, 1, 0, now + 9, nullptr, nullptr, now, nullptr, nullptr,
                                nullptr, &hold, &id),
            SLUICE_INVALID_ARGUMENT);
  sluice_handle_destroy(by);
  sluice_destroy(its);
}

// Against a count of who holds what until when: never more than the quota, and each wait ends once.
TEST(ReserveWait, AtRandomNeverHoldsMoreThanThereAre) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto dice = [&](uint32_t sides) { return random() % sides; };
    limiter its = made_with(policy, 20);
    const handle pool = *its.find("pool");
    std::map<wait_id, bool> waiting;  // by number
    std::vector<reservation> held;
    time_point now = start;
    const auto note = [&](wait_id id, const reservation& one) {
      ASSERT_EQ(waiting.erase(id), 1u) << "ended twice, or cancelled";
      if (one.now.allowed) held.push_back(one);
    };
    for (int step = 0; step < 300; ++step) {
      now += std::chrono::milliseconds(dice(3'000));
      const auto forget_ended = [&] {
        std::erase_if(held, [&](const reservation& one) { return one.until <= now; });
      };
      forget_ended();
      switch (dice(5)) {
        case 0:
        case 1: {
          const auto asked =
              its.wait_acquire({{&pool, "a", static_cast<int64_t>(1 + dice(2))}},
                               std::chrono::milliseconds(1 + dice(9'000)),
                               now + std::chrono::milliseconds(dice(9'000)), note, now);
          if (asked.id != 0)
            waiting.emplace(asked.id, true);
          else if (asked.now.now.allowed)
            held.push_back(asked.now);
          break;
        }
        case 2:
          if (!held.empty()) {
            const size_t at = dice(static_cast<uint32_t>(held.size()));
            const settlement back = its.release(held[at].id, now);
            EXPECT_EQ(back.now.error, errc::ok);
            held.erase(held.begin() + static_cast<ptrdiff_t>(at));
          }
          break;
        case 3:
          if (!waiting.empty() && its.cancel(waiting.begin()->first, now))
            waiting.erase(waiting.begin());
          break;
        default:
          its.run_due(now);
      }
      its.run_due(now);
      forget_ended();
      int64_t out = 0;
      for (const reservation& one : held) out += one.reserved;
      ASSERT_LE(out, 2) << "seed " << seed << ", step " << step;
      // Units that others wait for are not told as left.
      if (waiting.empty()) {
        ASSERT_EQ(its.peek(pool, "a", now).remaining, 2 - out) << "seed " << seed;
      }
      ASSERT_EQ(its.stats().waiting, waiting.size());
    }
    // What frees itself now may be granted still.
    for (int round = 0; round < 2; ++round) its.run_due(now += 1h);
    EXPECT_TRUE(waiting.empty()) << "seed " << seed;
    EXPECT_EQ(its.stats().holds, 0u);
  }
}

}  // namespace sluice::reserve_waits_test
