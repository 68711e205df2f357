#include "redis/slots.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sluice::redis::slots_test {
namespace {

// The examples of Redis Cluster's specification, and what CLUSTER KEYSLOT of Redis 7.0 answered.
TEST(Slots, AreThoseOfTheSpecification) {
  EXPECT_EQ(slot_of("123456789"), 0x31C3);
  EXPECT_EQ(slot_of(""), 0);
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("{user1000}.followers"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));  // an empty tag is none
  EXPECT_NE(slot_of("foo{bar"), slot_of("bar"));     // nor is one that has no end
}

TEST(Slots, NoByteOfAnActorBreaksItsTag) {
  std::set<std::string> tags;
  for (int c = 0; c < 256; ++c) {
    const std::string actor = std::string("a") + static_cast<char>(c) + "{b}";
    std::string tag;
    append_tag(tag, actor);
    ASSERT_EQ(tag.size(), tag_size);
    EXPECT_EQ(tag.find('}'), tag_size - 1);
    EXPECT_EQ(slot_of("sluice:" + tag + "native:x:" + actor), slot_of(tag.substr(1, 8)));
    EXPECT_EQ(without_tag(tag + actor), actor);
    tags.insert(tag);
  }
  EXPECT_EQ(tags.size(), 256u);
}

TEST(Slots, ATagIsTheSameInEveryProcess) {
  std::string tag;
  append_tag(tag, "alice");
  append_tag(tag, "");
  EXPECT_EQ(tag, "{1a0116b0}{38d394c2}");
}

TEST(Slots, WhatIsNoTagStays) {
  for (const char* text : {"", "{", "{0123456}x", "{0123456g}x", "{01234567x", "x{01234567}"})
    EXPECT_EQ(without_tag(text), text);
}

}  // namespace
}  // namespace sluice::redis::slots_test
