#include "limit/space.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace sluice::limit {
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

}  // namespace
}  // namespace sluice::limit
