// Slots of keys in a cluster and their tags (redis/cluster_map.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "redis/cluster_map.h"

namespace sluice::redis::slots_test {
namespace {

// The examples of Redis Cluster's specification, and recorded answers of Redis 7.0 to CLUSTER
// KEYSLOT.
TEST(Slots, MatchTheSpecification) {
  EXPECT_EQ(slot_of("123456789"), 0x31C3);
  EXPECT_EQ(slot_of(""), 0);
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("{user1000}.followers"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));  // an empty tag does not count
  EXPECT_NE(slot_of("foo{bar"), slot_of("bar"));     // nor does a tag without an end
}

uint16_t slot_bit_by_bit(std::string_view key) {
  unsigned crc = 0;
  for (const char c : key) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000u) != 0 ? crc << 1 ^ 0x1021u : crc << 1;
    crc &= 0xFFFFu;
  }
  return static_cast<uint16_t>(crc & (slot_count - 1));
}

TEST(Slots, AKeyOfAnyLengthHasTheSlotOfItsBits) {
  std::minstd_rand random(17);
  for (size_t size = 0; size < 200; ++size) {
    for (int i = 0; i < 20; ++i) {
      std::string key;
      while (key.size() < size) {
        const auto c = static_cast<char>(random() >> 8);
        if (c != '{') key += c;
      }
      ASSERT_EQ(slot_of(key), slot_bit_by_bit(key)) << size;
    }
  }
}

TEST(Slots, NoByteOfAnActorEndsItsTagEarly) {
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

TEST(Slots, KeepsATextThatIsNotATag) {
  for (const char* text : {"", "{", "{0123456}x", "{0123456g}x", "{01234567x", "x{01234567}"})
    EXPECT_EQ(without_tag(text), text);
}

}  // namespace
}  // namespace sluice::redis::slots_test
