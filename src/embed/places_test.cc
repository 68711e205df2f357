// Places in a program (sluice/limiter.h): acquired by name, free again at a release or at the end
// of their lease; beside rates, under reloads and overrides, while others wait, and at random
// against a list of who holds what.
#include <gtest/gtest.h>
#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::places_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};

const std::string pool =
    "rules:\n"
    "- { name: pool, match: { pool: '*' }, actor: pool,"
    " limit: { quota: 2, algorithm: concurrency, lease: 30s, max_lease: 5m } }\n"
    "- { name: rate, match: { rate: '*' }, actor: rate, limits: ["
    " { quota: 2, algorithm: concurrency, lease: 30s },"
    " { quota: 3, window: 1h, algorithm: fixed_window }] }\n"
    "- { name: watched, match: { watched: '*' }, actor: watched, mode: shadow,"
    " limit: { quota: 1, algorithm: concurrency, lease: 30s } }\n"
    "- { name: plain, match: { plain: '*' }, actor: plain, limit: { quota: 9, window: 1h } }\n";

limiter made_with(const std::string& text = {}, size_t holds_max = 1'000) {
  options how;
  how.memory_bytes = size_t{16} << 20;
  how.holds_max = holds_max;
  auto made = limiter::create(std::move(how));
  EXPECT_TRUE(made.has_value());
  if (!text.empty()) {
    const auto read = made->reload_text(text, start);
    EXPECT_TRUE(read.has_value()) << (read ? "" : read.why().message);
  }
  return std::move(*made);
}

handle places(limiter& its, int64_t quota, duration lease = 30s) {
  return *its.limits("pool", {{quota, lease, algorithm::concurrency}});
}

TEST(Places, AreHeldForTheirLeaseAndReleased) {
  limiter limiter = made_with();
  const handle by = places(limiter, 2);
  const reservation first = limiter.acquire({{&by, "a", 1}}, 0s, start);
  ASSERT_TRUE(first.now.allowed);
  EXPECT_EQ(first.now.remaining, 1);
  EXPECT_EQ(first.reserved, 1);
  EXPECT_EQ(first.until, start + 30s);
  const reservation second = limiter.acquire({{&by, "a", 1}}, 10s, start);
  EXPECT_EQ(second.until, start + 10s);
  const reservation third = limiter.acquire({{&by, "a", 1}}, 0s, start + 1s);
  EXPECT_FALSE(third.now.allowed || third.id);
  EXPECT_EQ(third.now.error, errc::ok);
  EXPECT_EQ(third.now.retry_after, 9s) << "the earliest lease that ends";
  EXPECT_EQ(limiter.acquire({{&by, "a", 3}}, 0s, start).now.retry_after, never);
  EXPECT_EQ(limiter.stats().holds, 2u);
  EXPECT_EQ(limiter.release(first.id, start + 1s).returned, 1);
  EXPECT_EQ(limiter.release(first.id, start + 1s).returned, 0);
  EXPECT_TRUE(limiter.acquire({{&by, "a", 1}}, 0s, start + 1s).id);
  EXPECT_TRUE(limiter.acquire({{&by, "b", 2}}, 0s, start + 1s).id) << "another key's";
}

TEST(Places, EndAtTheirMicrosecondAndAreNeverRevived) {
  limiter limiter = made_with();
  const handle by = places(limiter, 1);
  const hold its = limiter.acquire({{&by, "a", 1}}, 0s, start).id;
  EXPECT_FALSE(limiter.acquire({{&by, "a", 1}}, 0s, start + 30s - 1us).id);
  EXPECT_EQ(limiter.renew(its, 0s, start + 30s).now.error, errc::hold_ended) << "nobody took it";
  EXPECT_EQ(limiter.extend(its, {1}, 0s, start + 30s).now.error, errc::hold_ended);
  EXPECT_EQ(limiter.commit(its, {1}, start + 30s).now.error, errc::hold_ended);
  EXPECT_EQ(limiter.release(its, start + 30s).returned, 0);
  EXPECT_TRUE(limiter.acquire({{&by, "a", 1}}, 0s, start + 30s).id);
}

TEST(Places, AreRenewedUpToTheLongestLease) {
  limiter limiter = made_with(pool);
  const reservation held = limiter.acquire({{"pool", "a"}}, 2, 0s, start);
  EXPECT_EQ(held.until, start + 30s);
  EXPECT_EQ(held.reserved, 2);
  EXPECT_EQ(limiter.renew(held.id, 0s, start + 10s).until, start + 40s);
  EXPECT_EQ(limiter.renew(held.id, 1h, start + 20s).until, start + 320s) << "max_lease";
  EXPECT_FALSE(limiter.acquire({{"pool", "a"}}, 1, 0s, start + 319s).id);
  EXPECT_EQ(limiter.renew(held.id, 1s, start + 319s).until, start + 320s);
  EXPECT_EQ(limiter.acquire({{"pool", "a"}}, 1, 1h, start + 320s).until, start + 620s);
  const handle by = places(limiter, 1);
  EXPECT_EQ(limiter.acquire({{&by, "a", 1}}, 1h, start).until, start + 30s)
      << "the lease of a limit in code is its longest";
}

TEST(Places, AndARateAreTakenTogether) {
  limiter limiter = made_with(pool);
  const auto acquire = [&](time_point now) { return limiter.acquire({{"rate", "a"}}, 1, 0s, now); };
  for (int i = 0; i < 3; ++i) {
    const reservation held = acquire(start);
    ASSERT_TRUE(held.id) << i;
    EXPECT_EQ(limiter.release(held.id, start).returned, 1);
  }
  EXPECT_EQ(acquire(start).now.retry_after, duration(1h)) << "three an hour are used for good";
  EXPECT_TRUE(acquire(start + 1h).id);
}

TEST(Places, OfSeveralPoolsAreAllOrNone) {
  limiter limiter = made_with();
  const handle one = places(limiter, 3),
               other = *limiter.limits("o", {{1, 10s, algorithm::concurrency}});
  std::array<int64_t, 2> each{};
  const reservation both =
      limiter.acquire({{&one, "a", 2}, {&other, "a", 1}}, 0s, start, each.data());
  ASSERT_TRUE(both.id);
  EXPECT_EQ(each, (std::array<int64_t, 2>{2, 1}));
  EXPECT_EQ(both.until, start + 10s) << "the shortest lease";
  EXPECT_FALSE(limiter.acquire({{&one, "a", 1}, {&other, "a", 1}}, 0s, start).id);
  EXPECT_EQ(limiter.peek(one, "a", start).remaining, 1) << "nothing was taken";
  EXPECT_EQ(limiter.release(both.id, start).returned, 3);
  EXPECT_EQ(limiter.peek(one, "a", start).remaining, 3);
  EXPECT_EQ(limiter.peek(other, "a", start).remaining, 1);
}

TEST(Places, NeedALimitThatHasThem) {
  limiter limiter = made_with(pool);
  const handle by = *limiter.limits("x", {{9, 1h}});
  EXPECT_EQ(limiter.acquire({{&by, "a", 1}}, 0s, start).now.error, errc::no_places);
  EXPECT_EQ(limiter.acquire({{"plain", "a"}}, 1, 0s, start).now.error, errc::no_places);
  EXPECT_EQ(limiter.acquire({{"watched", "a"}}, 1, 0s, start).now.error, errc::no_places);
  EXPECT_EQ(limiter.acquire({{"x", "y"}}, 1, 0s, start).now.error, errc::no_places);
  EXPECT_EQ(limiter.acquire({}, 0s, start).now.error, errc::no_places);
  EXPECT_EQ(limiter.peek(by, "a", start).remaining, 9);
  EXPECT_EQ(limiter.stats().holds, 0u);
  EXPECT_EQ(limiter.acquire({{"pool", "a"}}, 1, -1s, start).now.error, errc::invalid_argument);
  EXPECT_EQ(limiter.acquire({{"pool", "a"}}, -1, 0s, start).now.error, errc::invalid_argument);
  auto none = limiter::create();
  EXPECT_EQ(none->acquire({{"pool", "a"}}, 1, 0s, start).now.error, errc::too_many_holds);
  sluice::limiter small = made_with(pool, 1);
  EXPECT_TRUE(small.acquire({{"pool", "a"}}, 1, 0s, start).id);
  EXPECT_EQ(small.acquire({{"pool", "b"}}, 1, 0s, start).now.error, errc::too_many_holds);
}

TEST(Places, GoToWhoWaitsWhenTheyAreReleasedOrEnd) {
  limiter limiter = made_with();
  const handle by = places(limiter, 1, 20s);
  const hold its = limiter.acquire({{&by, "a", 1}}, 0s, start).id;
  int granted = 0;
  const auto wait = [&](time_point now) {
    return limiter
        .wait(
            by, "a", 1, now + 1h, [&granted](wait_id, const decision& d) { granted += d ? 1 : 0; },
            now)
        .id;
  };
  ASSERT_NE(wait(start), 0u);
  ASSERT_NE(wait(start), 0u);
  limiter.release(its, start + 1s);
  EXPECT_EQ(limiter.run_due(start + 1s).called, 1u);
  EXPECT_FALSE(limiter.acquire({{&by, "a", 1}}, 0s, start + 1s).id);
  EXPECT_EQ(limiter.run_due(start + 21s - 1us).called, 0u);
  EXPECT_EQ(limiter.run_due(start + 21s).called, 1u);
  EXPECT_EQ(granted, 2);
}

TEST(Places, AreReleasedAfterAReloadAndAnOverride) {
  limiter limiter = made_with(pool);
  const reservation held = limiter.acquire({{"pool", "a"}}, 2, 0s, start);
  std::string one = pool;
  one.replace(one.find("quota: 2"), 8, "quota: 1");
  ASSERT_TRUE(limiter.reload_text(one, start).has_value());
  EXPECT_FALSE(limiter.acquire({{"pool", "a"}}, 1, 0s, start).id);
  EXPECT_EQ(limiter.renew(held.id, 0s, start + 1s).until, start + 31s);
  EXPECT_EQ(limiter.release(held.id, start + 1s).returned, 2);
  EXPECT_EQ(limiter.peek({{"pool", "a"}}, start + 1s).remaining, 1);
  ASSERT_TRUE(limiter
                  .set_override({"pool", {"a"}, {{3, 10s, algorithm::concurrency}}, latest_time},
                                start + 1s)
                  .has_value());
  const reservation more = limiter.acquire({{"pool", "a"}}, 3, 0s, start + 1s);
  EXPECT_EQ(more.until, start + 11s) << "the lease of the override";
  ASSERT_TRUE(limiter.remove_override("pool", {"a"}, start + 2s).has_value());
  EXPECT_EQ(limiter.release(more.id, start + 2s).returned, 3);
  EXPECT_EQ(limiter.peek({{"pool", "a"}}, start + 2s).remaining, 1);
}

// Each answer is what a list of who holds what says: who fits, when the next one could, and what is
// left; never more than the quota are out.
TEST(Places, AtRandomAreAsANaiveListSays) {
  struct Held {
    hold id;
    int64_t n;
    duration lease;
    time_point end;
  };
  for (uint32_t seed = 0; seed < 60 && !testing::Test::HasFailure(); ++seed) {
    std::mt19937 dice(seed);
    const auto any = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(dice);
    };
    const int64_t quota = any(1, 6);
    limiter limiter = made_with();
    const handle by = places(limiter, quota, 60s);
    time_point now = start;
    std::vector<Held> held, gone;
    for (int step = 0; step < 150 && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      now += duration(any(0, 3) == 0 ? any(0, 30'000'000) : any(0, 100'000));
      for (size_t i = 0; i < held.size();) {
        if (held[i].end > now) {
          ++i;
          continue;
        }
        gone.push_back(held[i]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      }
      int64_t out = 0;
      for (const Held& one : held) out += one.n;
      ASSERT_LE(out, quota);
      // Until so many places are free, if nobody renews.
      const auto free_in = [&](int64_t n) {
        std::vector<Held> by_end = held;
        std::sort(by_end.begin(), by_end.end(),
                  [](const Held& a, const Held& b) { return a.end < b.end; });
        int64_t left = quota - out;
        if (left >= n) return duration(0);
        for (const Held& one : by_end)
          if ((left += one.n) >= n) return one.end - now;
        return never;
      };
      const size_t which =
          held.empty() ? 0 : static_cast<size_t>(any(0, static_cast<int64_t>(held.size()) - 1));
      switch (any(0, 5)) {
        case 0:
        case 1:
        case 2: {
          const int64_t n = any(0, 3);
          const duration lease(any(1, 60'000'000));
          const reservation its = limiter.acquire({{&by, "a", n}}, lease, now);
          EXPECT_EQ(its.now.allowed, out + n <= quota);
          EXPECT_EQ(its.now.retry_after, free_in(n));
          if (its.id) held.push_back({its.id, n, lease, now + lease});
          break;
        }
        case 3:
          if (held.empty()) break;
          EXPECT_EQ(limiter.release(held[which].id, now).returned, held[which].n);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
          break;
        case 4: {
          if (held.empty()) break;
          Held& its = held[which];
          if (any(0, 1) == 0) its.lease = duration(any(1, 60'000'000));
          its.end = now + its.lease;
          EXPECT_EQ(limiter.renew(its.id, its.lease, now).until, its.end);
          break;
        }
        default: {
          if (held.empty()) break;
          Held& its = held[which];
          const int64_t n = any(0, 2);
          const reservation more = limiter.extend(its.id, {n}, 0s, now);
          EXPECT_EQ(more.now.allowed, out + n <= quota);
          if (!more.now.allowed) break;
          its.n += n;
          its.end = now + its.lease;
          EXPECT_EQ(more.until, its.end);
        }
      }
      for (const Held& one : gone)
        EXPECT_EQ(limiter.renew(one.id, 0s, now).now.error, errc::hold_ended);
      if (gone.size() > 4) gone.erase(gone.begin());
      int64_t then = 0;
      for (const Held& one : held) then += one.n;
      EXPECT_EQ(limiter.peek(by, "a", now).remaining, quota - then);
    }
  }
}

// Threads that take and give back one pool's places: never more are out than there are.
TEST(PlaceThreads, NeverHoldMoreThanThereAre) {
  limiter limiter = made_with();
  const handle by = places(limiter, 3);
  std::atomic<int> out = 0, most = 0, held = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 2'000; ++n) {
        const reservation its = limiter.acquire({{&by, "a", 1}}, 0s, start);
        if (!its.id) continue;
        ++held;
        const int now_out = ++out;
        for (int seen = most; now_out > seen && !most.compare_exchange_weak(seen, now_out);)
          continue;
        --out;
        EXPECT_EQ(limiter.release(its.id, start).returned, 1);
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_LE(most, 3);
  EXPECT_GT(held, 0);
  EXPECT_EQ(limiter.peek(by, "a", start).remaining, 3);
}

TEST(PlacesInC, AreAcquiredAndReleased) {
  sluice_options how{};
  how.size = sizeof how;
  how.holds_max = 9;
  sluice_limiter* const its =
      sluice_create_from_text(pool.data(), pool.size(), nullptr, &how, nullptr);
  ASSERT_NE(its, nullptr);
  const int64_t now = start.time_since_epoch().count();
  const sluice_entry entry{"pool", 4, "a", 1};
  sluice_hold hold{}, none{1, 1};
  sluice_decision decision{};
  int64_t reserved = 0, until = 0;
  ASSERT_EQ(sluice_acquire_matching(its, &entry, 1, 2, 0, now, &reserved, &until, &decision, &hold),
            SLUICE_OK);
  EXPECT_EQ(reserved, 2);
  EXPECT_EQ(until, now + 30'000'000);
  sluice_handle* const by = sluice_find(its, "pool", nullptr);
  const sluice_charge charge{by, "a", 1, 1};
  EXPECT_EQ(sluice_acquire(its, &charge, 1, 0, now, &reserved, &until, &decision, &none),
            SLUICE_OK);
  EXPECT_EQ(decision.allowed, 0);
  EXPECT_EQ(reserved, 0);
  EXPECT_TRUE(none.high == 0 && none.low == 0);
  EXPECT_EQ(sluice_renew(its, &hold, 0, now + 30'000'000, nullptr), SLUICE_HOLD_ENDED);
  EXPECT_EQ(sluice_acquire(its, &charge, 1, 1'000'000, now + 30'000'000, &reserved, &until,
                           &decision, &hold),
            SLUICE_OK);
  EXPECT_EQ(until, now + 31'000'000);
  sluice_settlement settlement{};
  EXPECT_EQ(sluice_release(its, &hold, now + 30'000'000, &settlement, nullptr), SLUICE_OK);
  EXPECT_EQ(settlement.returned, 1);
  const sluice_entry plain{"plain", 5, "a", 1};
  EXPECT_EQ(sluice_acquire_matching(its, &plain, 1, 1, 0, now, nullptr, nullptr, &decision, &none),
            SLUICE_NO_PLACES);
  EXPECT_STREQ(sluice_error_name(SLUICE_NO_PLACES), "no_places");
  EXPECT_EQ(sluice_acquire(its, nullptr, 1, 0, now, nullptr, nullptr, nullptr, &none),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_acquire_matching(its, &entry, 1, 1, 0, now, nullptr, nullptr, nullptr, nullptr),
            SLUICE_INVALID_ARGUMENT);
  sluice_handle_destroy(by);
  sluice_destroy(its);
}

}  // namespace sluice::places_test
