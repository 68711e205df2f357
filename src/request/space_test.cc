// Spaces and lists of limits and their numbers (request/space.h): threads, and the rounds that
// forget them.
#include "request/space.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::request {
namespace {

TEST(Spaces, HaveOneObjectForEachIdentity) {
  Spaces spaces;
  const Space* a = spaces.intern("divvy:ip=*:", ":3:60");
  EXPECT_EQ(a->prefix, "divvy:ip=*:");
  EXPECT_EQ(a->suffix, ":3:60");
  EXPECT_EQ(spaces.intern("divvy:ip=*:", ":3:60"), a);
  EXPECT_NE(spaces.intern("divvy:ip=*:", ":3:61"), a);
  EXPECT_NE(spaces.intern("divvy:ip=*", ":3:60"), a);
  // The same text with another border between prefix and suffix is another space.
  EXPECT_NE(spaces.intern("divvy:ip=*::3:60", ""), a);
  EXPECT_EQ(spaces.intern("", ""), spaces.intern("", ""));
}

TEST(Spaces, KeepTheirAddresses) {
  Spaces spaces;
  std::vector<const Space*> all;
  for (int i = 0; i < 1000; ++i) all.push_back(spaces.intern("p" + std::to_string(i), "s"));
  std::set<uint32_t> ids;
  for (int i = 0; i < 1000; ++i) {
    const auto n = static_cast<size_t>(i);
    EXPECT_EQ(spaces.intern("p" + std::to_string(i), "s"), all[n]);
    EXPECT_EQ(all[n]->prefix, "p" + std::to_string(i));
    ids.insert(all[n]->id);
  }
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(Spaces, ThreadsAgree) {
  constexpr size_t threads = 8, names = 500;
  Spaces spaces;
  std::vector<std::vector<const Space*>> seen(threads, std::vector<const Space*>(names));
  std::vector<std::thread> running;
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (size_t i = 0; i < names; ++i) {
        const size_t n = (i * 7 + t * 61) % names;
        seen[t][n] = spaces.intern("p" + std::to_string(n), "s");
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  std::set<const Space*> distinct(seen[0].begin(), seen[0].end());
  EXPECT_EQ(distinct.size(), names);
  for (const auto& one : seen) EXPECT_EQ(one, seen[0]);
}

// While other threads intern, readers see complete entries.
TEST(Spaces, AreReadWithoutALock) {
  Spaces spaces;
  constexpr uint32_t count = 5'000;
  std::atomic<uint32_t> told{0};
  const auto limits_of = [](uint32_t i) {
    return std::vector<limit::Limit>(1 + i % 3,
                                     {limit::Algorithm::token_bucket, 1 + i, {1'000}, 7});
  };
  std::vector<std::thread> readers;
  std::atomic<size_t> read{0};
  for (uint32_t t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      for (uint32_t i = t; told < count; i += 7) {
        const uint32_t known = told.load();
        if (known == 0) continue;
        i %= known;
        const auto limits = spaces.limits(1 + i);
        ASSERT_EQ(limits.size(), 1 + i % 3);
        for (const limit::Limit& l : limits) ASSERT_EQ(l.quota, 1 + i);
        ASSERT_EQ(spaces.keep_fresh_for(i).us, i);
        ++read;
      }
    });
  }
  for (uint32_t i = 0; i < count; ++i) {
    Space like;
    like.keep_fresh_for.us = i;
    ASSERT_EQ(spaces.intern("p", std::to_string(i), like)->id, i);
    ASSERT_EQ(spaces.intern_limits(limits_of(i)), 1 + i);
    told.store(i + 1);
    // On a busy machine the readers may not have run yet.
    while (i == count / 2 && read.load() == 0) std::this_thread::yield();
  }
  for (auto& reader : readers) reader.join();
  EXPECT_GT(read.load(), 0u);
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(spaces.intern_limits(limits_of(i)), 1 + i);
    ASSERT_EQ(spaces.limits(1 + i).size(), 1 + i % 3);
  }
}

limit::Limit window(int64_t quota) {
  return {limit::Algorithm::fixed_window, quota, base::seconds(1), 0};
}
LimitsRef hold(Spaces& spaces, int64_t quota) {
  const limit::Limit limit = window(quota);
  return spaces.hold_limits({&limit, 1});
}
// A round in which counters name these lists and spaces. Returns how many were forgotten.
size_t round_of(Spaces& spaces, const std::vector<uint32_t>& lists = {},
                const std::vector<uint32_t>& ids = {}) {
  Marks marks = spaces.begin_round();
  for (const uint32_t id : lists) marks.limits(id);
  for (const uint32_t id : ids) marks.space(id);
  return spaces.end_round(marks);
}

TEST(SpacesRound, ForgetsLimitsWithoutAReferenceOrACounter) {
  Spaces spaces;
  spaces.intern_limits(std::array{window(1)});
  LimitsRef held = hold(spaces, 2), named = hold(spaces, 3), gone = hold(spaces, 4);
  SpaceRef space = spaces.hold("a", ""), other = spaces.hold("b", "");
  const uint32_t named_id = named.id(), gone_id = gone.id(), space_id = space.get()->id;
  const LimitsRef copy = held;
  held = {};
  named = {};
  gone = {};
  space = {};
  EXPECT_EQ(round_of(spaces, {named_id}, {space_id}), 1u);
  EXPECT_EQ(spaces.known_lists(), 3u);
  EXPECT_EQ(spaces.limits(copy.id()).front().quota, 2);
  EXPECT_EQ(spaces.limits(named_id).front().quota, 3);
  EXPECT_EQ(spaces.at(space_id).prefix, "a");
  // Its number is used again; the serial tells the two apart.
  const uint32_t serial = spaces.serial_of_limits(gone_id);
  const LimitsRef next = hold(spaces, 5);
  EXPECT_EQ(next.id(), gone_id);
  EXPECT_EQ(spaces.limits(next.id()).front().quota, 5);
  EXPECT_EQ(spaces.serial_of_limits(gone_id), serial);
  EXPECT_NE(serial, 0u);
  // Now no counter names these, either.
  EXPECT_EQ(round_of(spaces), 2u);
  EXPECT_EQ(spaces.known_spaces(), 1u);
  const SpaceRef again = spaces.hold("c", "");
  EXPECT_EQ(again.get()->id, space_id);
  EXPECT_FALSE(spaces.visit(space_id, 0, [](const Space&) { FAIL(); }));
  std::string prefix;
  EXPECT_TRUE(
      spaces.visit(space_id, again.get()->serial, [&](const Space& its) { prefix = its.prefix; }));
  EXPECT_EQ(prefix, "c");
}

TEST(SpacesRound, KeepsLimitsThatAreNamedAgainDuringTheRound) {
  Spaces spaces;
  const uint32_t held = hold(spaces, 1).id(), used = hold(spaces, 2).id();
  const Marks marks = spaces.begin_round();
  const LimitsRef again = hold(spaces, 1);
  EXPECT_EQ(again.id(), held);
  // It also stays if it is no longer named at the end: a counter may have been written meanwhile.
  EXPECT_EQ(hold(spaces, 2).id(), used);
  const uint32_t fresh = hold(spaces, 3).id();
  EXPECT_EQ(spaces.end_round(marks), 0u);
  EXPECT_EQ(spaces.limits(fresh).front().quota, 3);
  EXPECT_EQ(round_of(spaces), 2u);
  EXPECT_EQ(spaces.limits(held).front().quota, 1);
}

TEST(SpacesRound, SharesLiveAsLongAsTheirList) {
  Spaces spaces;
  LimitsRef early = hold(spaces, 10);
  spaces.divide_by(2);
  LimitsRef late = hold(spaces, 20), least = hold(spaces, 1);
  EXPECT_EQ(spaces.limits(spaces.divided(early.id())).front().quota, 5);
  // The share of this list equals a list that is in use.
  EXPECT_EQ(spaces.divided(late.id()), early.id());
  EXPECT_EQ(spaces.divided(least.id()), least.id());
  early = {};
  EXPECT_EQ(round_of(spaces), 0u);
  EXPECT_EQ(spaces.limits(spaces.divided(late.id())).front().quota, 10);
  late = {};
  least = {};
  // The list's share is unnamed only once the list is forgotten.
  for (int i = 0; i < 5; ++i) round_of(spaces);
  EXPECT_EQ(spaces.known(), 0u);
}

TEST(SpacesRound, IsDueWhenManyLimitsAreUnusedOrThereIsNoRoom) {
  Spaces spaces;
  std::vector<LimitsRef> held;
  for (int64_t i = 1; i <= 10'000; ++i) held.push_back(hold(spaces, i));
  EXPECT_FALSE(spaces.wants_round());
  held.resize(9'000);
  EXPECT_FALSE(spaces.wants_round());
  const limit::Limit more = window(20'000);
  EXPECT_FALSE(spaces.hold_limits({&more, 1}, 10'000));
  EXPECT_TRUE(spaces.wants_round());
  EXPECT_EQ(round_of(spaces), 1'000u);
  EXPECT_FALSE(spaces.wants_round());
  EXPECT_TRUE(spaces.hold_limits({&more, 1}, 10'000));
  held.resize(6'000);
  EXPECT_TRUE(spaces.wants_round());
}

// Numbers are used again all the time, and a number that is held keeps its meaning.
TEST(SpacesRound, RefsOfManyThreadsKeepTheirLimits) {
  constexpr int rounds = 300;
  Spaces spaces;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; !over; ++i) {
        const int64_t quota = 1 + (i * 7 + t) % 50;
        const LimitsRef limits = hold(spaces, quota), copy = limits;
        const SpaceRef space = spaces.hold("p" + std::to_string(quota), "");
        ASSERT_EQ(spaces.limits(copy.id()).front().quota, quota);
        ASSERT_EQ(spaces.at(space.get()->id).prefix, "p" + std::to_string(quota));
      }
    });
  }
  for (int i = 0; i < rounds; ++i) round_of(spaces);
  over = true;
  for (auto& thread : threads) thread.join();
  round_of(spaces);
  EXPECT_EQ(spaces.known(), 0u);
}

}  // namespace
}  // namespace sluice::request
