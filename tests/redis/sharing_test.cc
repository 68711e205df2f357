// Several real servers, and a stand-in for Divvy, use the counters of one Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/redis/world.h"
#include "tests/support/comes.h"
#include "tests/support/limitd_listing.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

// Long enough for a busy machine: an answer that is late is an error, whose units are taken.
const std::string patient_redis = ", deadline_ms: 20000";

// Does to a counter what Divvy's documentation says that Divvy does.
class StandIn {
 public:
  explicit StandIn(uint16_t port) : client_(port) {}
  bool hit(const std::string& key, int64_t limit, int64_t seconds) {
    static const std::string script =
        "local v = redis.call('GET', KEYS[1]) "
        "if not v then redis.call('SETEX', KEYS[1], ARGV[2], ARGV[1] - 1) return 1 end "
        "if tonumber(v) > 0 then redis.call('DECR', KEYS[1]) return 1 end "
        "return 0";
    return client_({"EVAL", script, "1", key, std::to_string(limit), std::to_string(seconds)})
               .number == 1;
  }

 private:
  RedisClient client_;
};

TEST(RedisSharing, DivvyAndSluiceTakeFromOneCounter) {
  RedisServer redis;
  RedisWorld one(redis.port(), "", patient_redis), two(redis.port(), "", patient_redis);
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  const auto run = [&](auto&& hit) {
    threads.emplace_back([&granted, hit] {
      for (int i = 0; i < 500; ++i) granted += hit() ? 1 : 0;
    });
  };
  const auto stand_in = std::make_shared<StandIn>(redis.port());
  run([stand_in] { return stand_in->hit("divvy:::1000:600", 1000, 600); });
  for (RedisWorld* world : {&one, &two, &one}) {
    const auto client = std::make_shared<TcpClient>(connected(world->divvy_port()));
    run([client] { return client->ask("HIT").starts_with("OK true"); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(granted, 1000);
  auto client = redis.client();
  EXPECT_EQ(client({"GET", "divvy:::1000:600"}).text, "0");
  EXPECT_EQ(client({"DBSIZE"}).number, 1);
}

TEST(RedisSharing, LimitdsStatusListsWhatTheOriginalStores) {
  RedisServer redis;
  RedisWorld world(redis.port(), "", patient_redis);
  expect_listed_as_limitd_does(LimitdListing(world.limitd()), 3, 600);
}

TEST(RedisSharing, EveryProtocolSharesItsCounters) {
  RedisServer redis;
  const std::string rules =
      "rules:\n  - name: two\n    match: { r: \"*\" }\n    actor: r\n    limits:\n"
      "      - { quota: 3, window: 1h }\n      - { quota: 4, window: 1h, algorithm: "
      "sliding_log }\n";
  RedisWorld one(redis.port(), rules, patient_redis), two(redis.port(), rules, patient_redis);
  EXPECT_EQ(one.hit("r=x").substr(0, 9), "OK true 2");
  EXPECT_EQ(two.hit("r=x").substr(0, 9), "OK true 1");
  EXPECT_EQ(one.hit("r=x").substr(0, 9), "OK true 0");
  EXPECT_EQ(two.hit("r=x").substr(0, 10), "OK false 0");
  EXPECT_EQ(one.limitd().take("fixed", "k", 2).remaining, 1);
  EXPECT_EQ(two.limitd().take("fixed", "k", 1).remaining, 0);
  EXPECT_FALSE(one.limitd().take("fixed", "k").conformant);
  auto client = redis.client();
  for (const auto& key : client({"KEYS", "*"}).list) {
    EXPECT_TRUE(key.text.starts_with("sluice:")) << key.text;
    EXPECT_GT(client({"PTTL", key.text}).number, 0) << key.text;
  }
}

TEST(RedisSharing, AnOverrideAppliesAtAnotherServerWithin100Milliseconds) {
  RedisServer redis;
  const std::string rules =
      "rules:\n  - name: api\n    match: { r: \"*\" }\n    actor: r\n    limits:\n"
      "      - { quota: 3, window: 1h }\n";
  auto one = std::make_unique<RedisWorld>(redis.port(), rules, patient_redis);
  RedisWorld two(redis.port(), rules, patient_redis);
  const auto set = [](const RedisWorld& world, const std::string& actor, int quota) {
    const auto said = http(world.admin_port(), "POST", "/v1/overrides",
                           R"({"rule":"api","actor":")" + actor + R"(","limit":{"quota":)" +
                               std::to_string(quota) + R"(,"window":"1h"}})");
    EXPECT_EQ(said.status / 100, 2) << said.body;
  };
  std::vector<std::chrono::steady_clock::duration> times;
  for (int i = 0; i < 10; ++i) {
    const std::string actor = "a" + std::to_string(i);
    RedisWorld& from = i % 2 == 0 ? *one : two;
    RedisWorld& to = i % 2 == 0 ? two : *one;
    set(from, actor, 100 + i);
    const auto began = std::chrono::steady_clock::now();
    // Until the override is in force, at most the rule's 3 units are taken.
    const auto quota = [&] {
      const std::string reply = to.hit("r=" + actor);
      return std::atoi(reply.substr(8).c_str());
    };
    while (quota() < 50 && std::chrono::steady_clock::now() < began + std::chrono::seconds(10)) {
    }
    EXPECT_GT(quota(), 50) << actor;
    times.push_back(std::chrono::steady_clock::now() - began);
  }
  std::sort(times.begin(), times.end());
  EXPECT_LT(times[times.size() * 8 / 10], promised(Milliseconds(100)));

  // A server that starts later has them.
  one = std::make_unique<RedisWorld>(redis.port(), rules, patient_redis);
  EXPECT_GT(std::atoi(one->hit("r=a3").substr(8).c_str()), 50);
  EXPECT_EQ(Json::parse(http_get(one->admin_port(), "/v1/overrides").body).at("total"), 10);
  set(*one, "a3", 4);
  for (RedisWorld* world : {one.get(), &two}) EXPECT_EQ(world->await_hit("r=a3", "OK false 0"), "");
}

// One server starts while Redis is away and has none; the other has lost its connection.
TEST(RedisSharing, ServersWhoseRedisWasAwayFetchTheOverrides) {
  RedisServer redis({"--appendonly", "yes"});
  const std::string rules =
      "rules:\n  - { name: api, match: { r: \"*\" }, actor: r, limit: { quota: 3, window: 1h } }\n";
  RedisWorld stays(redis.port(), rules, patient_redis);
  const auto set = [](const RedisWorld& world, const std::string& actor) {
    const auto said =
        http(world.admin_port(), "POST", "/v1/overrides",
             R"({"rule":"api","actor":")" + actor + R"(","limit":{"quota":100,"window":"1h"}})");
    return said.status;
  };
  const auto total = [](const RedisWorld& world) {
    return Json::parse(http_get(world.admin_port(), "/v1/overrides").body).at("total").get<int>();
  };
  const auto takes = [](RedisWorld& world, const std::string& actor) {
    const std::string reply = world.hit("r=" + actor);
    return reply.starts_with("OK true ") && std::atoi(reply.substr(8).c_str()) > 50;
  };
  EXPECT_EQ(set(stays, "before"), 201);
  redis.stop();
  RedisWorld starts({redis.address()}, {.rules = rules, .redis = patient_redis, .connects = false});
  EXPECT_EQ(total(starts), 0);
  EXPECT_EQ(total(stays), 1);
  EXPECT_EQ(set(starts, "away") / 100, 5);
  redis.start();
  ASSERT_TRUE(comes([&] { return total(starts) == 1; }));
  ASSERT_TRUE(comes([&] { return takes(starts, "before"); }));
  ASSERT_TRUE(comes([&] { return set(starts, "back") == 201; }));
  ASSERT_TRUE(comes([&] { return total(stays) == 2; }));
  ASSERT_TRUE(comes([&] { return takes(stays, "back"); }));
}

// An override that replaces a single limit is stored as the whole list of limits, so that a server
// of the version before reads it correctly. An override that such a server stored replaces all
// limits here, as it does there.
TEST(RedisSharing, ServersOfBothVersionsAgreeOnWhatAnOverrideReplaces) {
  RedisServer redis;
  const std::string rules =
      "rules:\n  - name: api\n    match: { r: \"*\" }\n    actor: r\n    limits:\n"
      "      - { quota: 3, window: 1h, algorithm: fixed_window }\n"
      "      - { quota: 30, window: 1d, algorithm: fixed_window }\n";
  RedisWorld one(redis.port(), rules, patient_redis), two(redis.port(), rules, patient_redis);
  const auto set = [&](const std::string& actor, const std::string& more) {
    const auto said = http(one.admin_port(), "POST", "/v1/overrides",
                           R"({"rule":"api","actor":")" + actor +
                               R"(","limit":{"quota":50,"window":"1h"})" + more + "}");
    EXPECT_EQ(said.status, 201) << said.body;
    return Json::parse(said.body).at("id").get<std::string>();
  };
  auto client = redis.client();
  const auto kept = [&](const std::string& id) {
    return Json::parse(client({"HGET", "sluice:kept", id}).text);
  };
  const std::string some = set("some", ""), all = set("all", R"(,"all_limits":true)");
  EXPECT_EQ(two.await_hit("r=some", "OK true 2"), "");  // of the day's 30
  EXPECT_EQ(two.await_hit("r=all", "OK true 4"), "");   // of 50
  const Json hour = {"fixed_window", 50, 3'600'000'000, 0},
             day = {"fixed_window", 30, 86'400'000'000, 0};
  EXPECT_EQ(kept(some).at("limits"), Json::array({hour, day}));
  EXPECT_EQ(kept(some).at("v"), 1);
  EXPECT_EQ(kept(all).at("limits"), Json::array({hour}));
  EXPECT_FALSE(kept(all).contains("replaces"));
  // Recorded from the version before: `override set --quota 50 --window 1h`.
  client({"HSET", "sluice:kept", some,
          R"({"v":1,"dialect":"native","rule":"api","entries":["r"],"actor":"some",)"
          R"("limits":[["fixed_window",50,3600000000,0]],"created_us":1800000000000000})"});
  RedisWorld three(redis.port(), rules, patient_redis);
  const Json listed = Json::parse(http_get(three.admin_port(), "/v1/overrides/" + some).body);
  EXPECT_TRUE(listed.at("all_limits").get<bool>()) << listed;
  EXPECT_EQ(listed.at("limits").size(), 1u);
  for (int i = 0; i < 35; ++i) EXPECT_EQ(three.hit("r=some").substr(0, 7), "OK true") << i;
}

TEST(RedisSharing, AWaiterGetsUnitsThatAreReturnedAtAnotherServer) {
  RedisServer redis;
  RedisWorld one(redis.port(), "", patient_redis), two(redis.port(), "", patient_redis);
  LimitdClient waits = one.limitd(), other = two.limitd();
  EXPECT_EQ(waits.take("fixed", "k", 3).remaining, 0);
  const std::string id = waits.send({LimitdMethod::wait, "fixed", "k", 2});
  std::this_thread::sleep_for(Milliseconds(250));
  other.ask({LimitdMethod::put, "fixed", "k", 2});
  const auto began = std::chrono::steady_clock::now();
  const auto reply = waits.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant);
  EXPECT_TRUE(reply->delayed);
  EXPECT_LT(std::chrono::steady_clock::now() - began, promised(Milliseconds(400)));
  // Units that are put back at its own server are granted at once, in the order of arrival.
  const std::string first = waits.send({LimitdMethod::wait, "fixed", "k", 3});
  LimitdClient late = one.limitd();
  std::this_thread::sleep_for(Milliseconds(50));
  const std::string second = late.send({LimitdMethod::wait, "fixed", "k", 1});
  one.limitd().ask({LimitdMethod::put, "fixed", "k", 1});
  std::this_thread::sleep_for(Milliseconds(300));
  EXPECT_FALSE(one.limitd().take("fixed", "k").conformant);  // it is kept for the first request
  one.limitd().ask({LimitdMethod::put, "fixed", "k", 2});
  EXPECT_TRUE(waits.await(first)->conformant);
  one.limitd().ask({LimitdMethod::put, "fixed", "k", 1});
  EXPECT_TRUE(late.await(second)->conformant);
}

TEST(RedisSharing, AWaiterGetsUnitsThatComeBackWithTime) {
  RedisServer redis;
  RedisWorld one(redis.port(), "", patient_redis);
  LimitdClient client = one.limitd();
  EXPECT_TRUE(client.take("fast", "k", 2).conformant);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(client.ask({LimitdMethod::wait, "fast", "k", 2}).conformant);
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GT(took, Milliseconds(150));
  EXPECT_LT(took, promised(Milliseconds(600)));
}

// A request whose client disconnects takes nothing.
TEST(RedisSharing, AWaiterThatDisconnectsTakesNothing) {
  RedisServer redis;
  RedisWorld one(redis.port(), "", patient_redis);
  EXPECT_EQ(one.limitd().take("fixed", "k", 3).remaining, 0);
  {
    LimitdClient gone = one.limitd();
    gone.send({LimitdMethod::wait, "fixed", "k", 1});
    std::this_thread::sleep_for(Milliseconds(100));
  }
  std::this_thread::sleep_for(Milliseconds(100));
  one.limitd().ask({LimitdMethod::put, "fixed", "k", 1});
  std::this_thread::sleep_for(Milliseconds(250));
  EXPECT_EQ(one.limitd().ask({LimitdMethod::status, "fixed", "k"}).items.size(), 1u);
  EXPECT_TRUE(one.limitd().take("fixed", "k").conformant);
}

}  // namespace
}  // namespace sluice::tests
