// The map of a cluster's slots (redis/cluster_map.h), read from the bytes that nodes send; no
// sockets.
#include "redis/cluster_map.h"

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <memory>
#include <string>

namespace sluice::redis::cluster_map_test {
namespace {

struct FreeReplyObject {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Parsed = std::unique_ptr<redisReply, FreeReplyObject>;

Parsed parsed(const std::string& bytes) {
  redisReader* const reader = redisReaderCreate();
  redisReaderFeed(reader, bytes.data(), bytes.size());
  void* reply = nullptr;
  EXPECT_EQ(redisReaderGetReply(reader, &reply), REDIS_OK);
  redisReaderFree(reader);
  EXPECT_NE(reply, nullptr) << bytes;
  return Parsed(static_cast<redisReply*>(reply));
}

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}
std::string number(int n) {
  return ":" + std::to_string(n) + "\r\n";
}
std::string array(std::initializer_list<std::string> parts) {
  std::string out = "*" + std::to_string(parts.size()) + "\r\n";
  for (const std::string& part : parts) out += part;
  return out;
}
std::string shard_node(const std::string& endpoint, int port, const std::string& role,
                       const std::string& health = "online") {
  return array({bulk("id"), bulk("x"), bulk("port"), number(port), bulk("tls-port"),
                number(port + 1), bulk("ip"), bulk("10.0.0.9"), bulk("endpoint"), endpoint,
                bulk("role"), bulk(role), bulk("replication-offset"), number(7), bulk("health"),
                bulk(health)});
}
std::string shard(const std::string& slots, const std::string& nodes) {
  return array({bulk("slots"), slots, bulk("nodes"), nodes});
}
std::string range(int first, int last, const std::string& host, int port) {
  return array({number(first), number(last), array({host, number(port), bulk("id")}),
                array({bulk("10.9.9.9"), number(1), bulk("replica")})});
}

std::string owner(const ClusterMap& map, uint16_t slot) {
  const Node* const node = map.owner_of(slot);
  return node == nullptr ? "no owner" : name_of(*node);
}

TEST(ClusterMap, IsReadFromShards) {
  const auto reply =
      parsed(array({shard(array({number(100), number(16383)}),
                          array({shard_node(bulk("10.0.0.3"), 3, "replica"),
                                 shard_node(bulk("10.0.0.2"), 2, "master")})),
                    shard(array({number(0), number(9), number(20), number(29)}),
                          array({shard_node(bulk(""), 1, "master")})),
                    shard("*0\r\n", array({shard_node(bulk("10.0.0.8"), 8, "master", "fail")}))}));
  const auto map = read_shards(*reply, "asked", false);
  ASSERT_TRUE(map);
  ASSERT_EQ(map->primaries.size(), 2u);  // one for each shard, by its first slot
  EXPECT_EQ(owner(*map, 0), "asked:1");
  EXPECT_EQ(owner(*map, 10), "no owner");
  EXPECT_EQ(owner(*map, 29), "asked:1");
  EXPECT_EQ(owner(*map, 16383), "10.0.0.2:2");
  EXPECT_EQ(map->covered(), 20u + 16284u);
  EXPECT_EQ(owner(*read_shards(*reply, "asked", true), 0), "asked:2");  // the port for TLS
}

TEST(ClusterMap, UsesTheOnlinePrimaryOfTwoInAShard) {
  for (const bool first : {false, true}) {
    const std::string dead = shard_node(bulk("10.0.0.1"), 1, "master", "fail"),
                      live = shard_node(bulk("10.0.0.2"), 2, "master");
    const auto map =
        read_shards(*parsed(array({shard(array({number(0), number(16383)}),
                                         first ? array({live, dead}) : array({dead, live}))})),
                    "asked", false);
    ASSERT_TRUE(map);
    EXPECT_EQ(owner(*map, 5), "10.0.0.2:2");
    EXPECT_TRUE(map->failed.empty());
  }
}

// It keeps its slots, as no replica has taken over. A node that is loading has not failed.
TEST(ClusterMap, APrimaryThatFailedIsNoted) {
  const auto map = read_shards(
      *parsed(array({shard(array({number(0), number(9), number(20), number(29)}),
                           array({shard_node(bulk("10.0.0.1"), 1, "master", "fail")})),
                     shard(array({number(10), number(19)}),
                           array({shard_node(bulk("10.0.0.2"), 2, "master", "loading")}))})),
      "asked", false);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->primaries.size(), 2u);
  ASSERT_EQ(map->failed.size(), 1u);
  EXPECT_EQ(name_of(map->failed[0]), "10.0.0.1:1");
}

TEST(ClusterMap, IsReadFromSlots) {
  const auto map =
      read_slots(*parsed(array({range(5461, 16383, bulk("10.0.0.2"), 2),
                                range(0, 5460, "$-1\r\n", 1), range(7, 8, bulk("?"), 3)})),
                 "asked");
  ASSERT_TRUE(map);
  EXPECT_EQ(owner(*map, 5460), "asked:1");
  EXPECT_EQ(owner(*map, 5461), "10.0.0.2:2");
  EXPECT_EQ(map->primaries.size(), 2u);
}

TEST(ClusterMap, RejectsInvalidAnswers) {
  EXPECT_FALSE(read_slots(*parsed("-ERR unknown\r\n"), "a"));
  EXPECT_FALSE(read_shards(*parsed("-ERR unknown\r\n"), "a", false));
  EXPECT_FALSE(read_slots(*parsed(array({number(1)})), "a"));
  EXPECT_FALSE(read_shards(*parsed(array({number(1)})), "a", false));
  EXPECT_FALSE(read_slots(*parsed(array({range(0, 16384, bulk("b"), 1)})), "a"));
  EXPECT_FALSE(read_slots(*parsed(array({range(9, 8, bulk("b"), 1)})), "a"));
  std::string many = "*1001\r\n";
  for (int i = 0; i < 1001; ++i) many += range(i, i, bulk("h"), i + 1);
  EXPECT_FALSE(read_slots(*parsed(many), "a"));
  EXPECT_TRUE(read_slots(*parsed("*0\r\n"), "a"));  // a node without slots yet
}

TEST(ClusterMap, ReadsTheStateAndEpochOfANode) {
  const ClusterState state = read_state("cluster_state:ok\r\ncluster_current_epoch:17\r\nx:1\r\n");
  EXPECT_TRUE(state.ok);
  EXPECT_EQ(state.epoch, 17u);
  EXPECT_FALSE(read_state("cluster_state:fail\r\n").ok);
  EXPECT_FALSE(read_state("").ok);
}

TEST(ClusterMap, ARedirectIsRead) {
  const auto moved_to = redirect_of("MOVED 3999 127.0.0.1:6381", "a");
  ASSERT_TRUE(moved_to);
  EXPECT_FALSE(moved_to->ask);
  EXPECT_EQ(moved_to->slot, 3999);
  EXPECT_EQ(name_of(moved_to->node), "127.0.0.1:6381");
  const auto ask = redirect_of("ASK 1 ::1:6381", "a");
  ASSERT_TRUE(ask);
  EXPECT_TRUE(ask->ask);
  EXPECT_EQ(name_of(ask->node), "[::1]:6381");
  EXPECT_EQ(name_of(redirect_of("MOVED 0 :7", "asked")->node), "asked:7");
  EXPECT_EQ(redirect_of("MOVED 0 ?:7", "asked")->node.host, "");
  for (const char* text :
       {"TRYAGAIN Multiple keys", "MOVED", "MOVED 1", "MOVED 16384 a:1", "MOVED x a:1",
        "MOVED 1 a:0", "MOVED 1 a:65536", "ASK 1 a", "moved 1 a:1"})
    EXPECT_FALSE(redirect_of(text, "a")) << text;
}

TEST(ClusterMap, AMovedRedirectChangesOneSlot) {
  const auto map = read_slots(*parsed(array({range(0, 16383, bulk("10.0.0.1"), 1)})), "asked");
  ASSERT_TRUE(map);
  const auto next = moved(*map, {false, 5, {"10.0.0.2", 2}});
  ASSERT_TRUE(next);
  EXPECT_EQ(owner(*next, 5), "10.0.0.2:2");
  EXPECT_EQ(owner(*next, 6), "10.0.0.1:1");
  EXPECT_FALSE(moved(*next, {false, 5, {"10.0.0.2", 2}}));
  EXPECT_FALSE(moved(*next, {false, 5, {"", 2}}));
  EXPECT_EQ(owner(*moved(ClusterMap(), {false, 5, {"b", 2}}), 5), "b:2");
}

}  // namespace
}  // namespace sluice::redis::cluster_map_test
