// What a pattern of a limited right fits.
#include "access/reach.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::access {
namespace {

TEST(Reach, APatternIsARuleACounterOrABeginningOfIt) {
  struct Case {
    const char *pattern, *rule, *actor;
    bool fits;
  };
  for (const Case& one : std::vector<Case>{{"api", "api", "", true},
                                           {"api", "api", "alice", true},
                                           {"api", "api2", "", false},
                                           {"api", "ap", "i", false},
                                           {"api:", "api", "", true},
                                           {"api:", "api", "alice", false},
                                           {"api:alice", "api", "alice", true},
                                           {"api:alice", "api", "alice2", false},
                                           {"api:alice", "api", "alic", false},
                                           {"api:al*", "api", "alice", true},
                                           {"api:al*", "api", "al", true},
                                           {"api:al*", "api", "bob", false},
                                           {"api:*", "api", "", true},
                                           {"api:*", "api", "alice", true},
                                           {"api:*", "api2", "alice", false},
                                           {"api*", "api", "alice", true},
                                           {"api*", "api2", "alice", true},
                                           {"api*", "ap", "i", false},
                                           {"*", "", "", true},
                                           {"*", "any", "one", true},
                                           {"api:a:b*", "api", "a:bc", true},
                                           {"api:0|k", "api", "0|k", true}})
    EXPECT_EQ(fits(one.pattern, one.rule, one.actor), one.fits)
        << one.pattern << " and " << one.rule << ":" << one.actor;
}

TEST(Reach, WithoutPatternsIsEverything) {
  EXPECT_TRUE(Reach().allows("any", "one"));
  EXPECT_FALSE(Reach().is_limited());
  const Reach reach({"a", "b:x*"});
  EXPECT_TRUE(reach.is_limited());
  EXPECT_TRUE(reach.allows("a", "one"));
  EXPECT_TRUE(reach.allows("b", "x1"));
  EXPECT_FALSE(reach.allows("b", "y1"));
}

TEST(Reach, APatternHasNoStarButAtItsEnd) {
  for (const char* sound : {"a", "*", "a:*", "a:b", "a b"}) EXPECT_TRUE(is_reach_pattern(sound));
  for (const char* wrong : {"", "*a", "a:*b", "**", "a:*:*"})
    EXPECT_FALSE(is_reach_pattern(wrong)) << wrong;
}

TEST(Reach, APatternCanFitOnlyARuleOfItsName) {
  EXPECT_TRUE(can_fit("api:al*", "api", true));
  EXPECT_TRUE(can_fit("api:alice", "api", true));
  EXPECT_FALSE(can_fit("api:al*", "api", false)) << "all requests share one counter";
  EXPECT_TRUE(can_fit("api:*", "api", false));
  EXPECT_TRUE(can_fit("api", "api", false));
  EXPECT_TRUE(can_fit("ap*", "api", true));
  EXPECT_FALSE(can_fit("api2:al*", "api", true));
  EXPECT_FALSE(can_fit("ap", "api", true));
  EXPECT_FALSE(can_fit("ap:x", "api", true));
}

}  // namespace
}  // namespace sluice::access
