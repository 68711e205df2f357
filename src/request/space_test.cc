#include "request/space.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::request {
namespace {

TEST(Spaces, OneForEachIdentity) {
  Spaces spaces;
  const Space* a = spaces.intern("divvy:ip=*:", ":3:60");
  EXPECT_EQ(a->prefix, "divvy:ip=*:");
  EXPECT_EQ(a->suffix, ":3:60");
  EXPECT_EQ(spaces.intern("divvy:ip=*:", ":3:60"), a);
  EXPECT_NE(spaces.intern("divvy:ip=*:", ":3:61"), a);
  EXPECT_NE(spaces.intern("divvy:ip=*", ":3:60"), a);
  // Where prefix ends and suffix begins is part of the identity.
  EXPECT_NE(spaces.intern("divvy:ip=*::3:60", ""), a);
  EXPECT_EQ(spaces.intern("", ""), spaces.intern("", ""));
}

TEST(Spaces, StayWhereTheyAre) {
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

// Readers see whole what they were told of, while others intern.
TEST(Spaces, are_read_without_a_lock) {
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
        ASSERT_EQ(spaces.linger(i).us, i);
        ++read;
      }
    });
  }
  for (uint32_t i = 0; i < count; ++i) {
    Space like;
    like.linger.us = i;
    ASSERT_EQ(spaces.intern("p", std::to_string(i), like)->id, i);
    ASSERT_EQ(spaces.intern_limits(limits_of(i)), 1 + i);
    told.store(i + 1);
    // A busy machine may not have run them yet.
    while (i == count / 2 && read.load() == 0) std::this_thread::yield();
  }
  for (auto& reader : readers) reader.join();
  EXPECT_GT(read.load(), 0u);
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(spaces.intern_limits(limits_of(i)), 1 + i);
    ASSERT_EQ(spaces.limits(1 + i).size(), 1 + i % 3);
  }
}

}  // namespace
}  // namespace sluice::request
