// Counters whose numbers come with each request (limit/gcra.h), in a real Redis and by its own
// time: stores and real servers share them, they settle together with other rules, and their keys
// expire.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "limit/gcra.h"
#include "tests/redis/store_world.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::redis::gcra_sharing_test {
namespace {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;
using request::Charge;
using request::Group;
using request::Ticket;
using request::Verb;

constexpr Algorithm kinds[] = {Algorithm::gcra_cell, Algorithm::gcra_crab, Algorithm::gcra_redis};

// `quota` units, one of which comes back in each `emission`.
Limit limit_of(Algorithm algorithm, int64_t quota, base::Duration emission) {
  const int64_t units = algorithm == Algorithm::gcra_crab ? quota - 1 : quota;
  const int64_t e = emission.us * limit::gcra::per_microsecond(algorithm);
  return {algorithm, quota, {e}, e * units};
}

// One server's store, and one worker of it.
class Server : public StoreWorld {
 public:
  explicit Server(const tests::RedisServer& redis, unsigned servers = 1)
      : StoreWorld([&] {
          Options options = options_for(redis);
          options.servers = servers;
          return options;
        }()) {}
  using StoreWorld::ask;

  Charge charge(const Limit& limit, int64_t cost, std::string_view key = "k") {
    const bool gcra = limit::gcra::is_gcra(limit.algorithm);
    const Limit named = gcra ? limit::gcra::without_numbers(limit.algorithm) : limit;
    Charge charge;
    charge.space = spaces.intern(gcra ? "gcra:" : "native:", "");
    charge.key = key;
    charge.cost = cost;
    charge.limits = {&limit, 1};
    charge.limits_id = spaces.intern_limits({&named, 1});
    return charge;
  }

  // Settles one charge.
  Decision ask(const Limit& limit, int64_t cost, Verb verb = Verb::take, bool all = false,
               bool reset_first = false) {
    std::vector<Decision> decisions;
    std::vector<Charge> charges = {charge(limit, cost)};
    charges[0].verb = verb;
    charges[0].all = all;
    charges[0].reset_first = reset_first;
    const Group group = ask(charges, decisions);
    EXPECT_EQ(group.allowed, decisions[0].allowed);
    return decisions[0];
  }
  int64_t left(const Limit& limit) { return ask(limit, 0, Verb::peek).remaining; }
};

TEST(RedisGcra, TwoStoresShareACounterForAnyInlineNumbers) {
  for (const Algorithm kind : kinds) {
    tests::RedisServer redis;
    Server one(redis), two(redis);
    const Limit five = limit_of(kind, 5, base::seconds(1'000)),
                seven = limit_of(kind, 7, base::seconds(1'000)),
                none = limit_of(kind, 1, base::seconds(500));
    EXPECT_EQ(one.ask(five, 2).remaining, 3);
    EXPECT_EQ(two.ask(five, 2).remaining, 1);
    EXPECT_EQ(one.ask(five, 1).remaining, 0);
    for (Server* server : {&one, &two}) {
      const Decision refused = server->ask(five, 1);
      EXPECT_FALSE(refused.allowed);
      EXPECT_EQ(refused.limit, 5);
      EXPECT_GT(refused.retry_after, base::seconds(900));
      EXPECT_EQ(server->ask(seven, 1, Verb::would_take).remaining, 1);
      EXPECT_FALSE(server->ask(none, 1).allowed);
    }
    EXPECT_TRUE(two.ask(five, -2).allowed);
    EXPECT_EQ(one.left(five), 2);
    EXPECT_EQ(one.ask(five, 1, Verb::put).remaining, 3);
    EXPECT_EQ(two.left(five), 3);
    EXPECT_EQ(two.ask(five, 4, Verb::take, false, true).remaining, 1);
    EXPECT_EQ(one.left(five), 1);
    auto client = redis.client();
    const auto keys = client({"KEYS", "*"});
    ASSERT_EQ(keys.list.size(), 1u);
    EXPECT_EQ(keys.list[0].text, "sluice:gcra:k");
    EXPECT_TRUE(client({"GET", "sluice:gcra:k"}).text.starts_with("s1;")) << name_of(kind);
    EXPECT_EQ(one.ask(five, 0, Verb::put, true).remaining, 5);
    EXPECT_EQ(client({"DBSIZE"}).number, 0);
    EXPECT_EQ(two.left(five), 5);
  }
}

// A shadow rule's refusal touches no other group, and a rule that refuses takes from none.
TEST(RedisGcra, SettlesTogetherWithOtherRules) {
  for (const Algorithm kind : kinds) {
    tests::RedisServer redis;
    Server server(redis);
    const Limit three = limit_of(kind, 3, base::seconds(1'000)),
                bucket{Algorithm::token_bucket, 5, base::seconds(5'000), 5},
                deny{Algorithm::deny, 0, {}, 0};
    ASSERT_EQ(server.left(three), 3);
    std::vector<Decision> decisions;
    // Shadow rules have a group each; here one that is refused, of a counter of its own.
    std::vector<Group> groups = {
        {.charge_first = 0, .charge_count = 1, .may_fail = true},
        {.charge_first = 1, .charge_count = 2},
    };
    std::vector<Charge> charges = {server.charge(three, 4, "shadow"), server.charge(three, 2),
                                   server.charge(bucket, 2)};
    ASSERT_TRUE(server.ask(groups, charges, decisions, server.clock.now()));
    EXPECT_FALSE(groups[0].allowed);
    EXPECT_TRUE(groups[1].allowed);
    EXPECT_EQ(decisions[0].remaining, 3);
    EXPECT_EQ(decisions[1].remaining, 1);
    EXPECT_EQ(decisions[2].remaining, 3);
    // Each of the two refuses once: nothing is taken from the other.
    EXPECT_FALSE(
        server.ask({server.charge(three, 2), server.charge(bucket, 2)}, decisions).allowed);
    EXPECT_EQ(decisions[0].remaining, 1);
    EXPECT_EQ(decisions[1].remaining, 3);
    EXPECT_FALSE(
        server.ask({server.charge(three, 1), server.charge(bucket, 4)}, decisions).allowed);
    // A group gives units back as a single charge does, but not if another rule refuses.
    EXPECT_FALSE(
        server.ask({server.charge(three, -1), server.charge(bucket, 4)}, decisions).allowed);
    EXPECT_FALSE(server.ask({server.charge(three, 1), server.charge(deny, 1)}, decisions).allowed);
    EXPECT_EQ(server.left(three), 1);
    EXPECT_TRUE(
        server.ask({server.charge(three, -1), server.charge(bucket, 0)}, decisions).allowed);
    EXPECT_EQ(server.left(three), 2);
    EXPECT_EQ(redis.client()({"DBSIZE"}).number, 2);
  }
}

TEST(RedisGcra, AKeyEndsWithItsCounter) {
  for (const Algorithm kind : kinds) {
    tests::RedisServer redis;
    Server server(redis);
    auto client = redis.client();
    const Limit quick = limit_of(kind, 3, base::milliseconds(20));
    ASSERT_EQ(server.left(quick), 3);
    EXPECT_EQ(client({"DBSIZE"}).number, 0);  // a look makes no key
    EXPECT_EQ(server.ask(quick, 1).remaining, 2);
    // The key lives until its counter equals a fresh one, and a second longer; with `gcra_redis`
    // another ms.
    const int64_t ttl_ms = client({"PTTL", "sluice:gcra:k"}).number;
    EXPECT_TRUE(ttl_ms == -2 || (ttl_ms > 0 && ttl_ms <= 1'021)) << ttl_ms;
    const auto deadline = tests::soon();
    while (client({"EXISTS", "sluice:gcra:k"}).number == 1) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name_of(kind);
      server.left(quick);  // a look does not extend its life
    }
    EXPECT_EQ(server.ask(quick, 3).remaining, 0);
    // The longest emission.
    const Limit slow = limit_of(kind, 2, {INT64_MAX / 8'000});
    EXPECT_TRUE(server.ask(slow, 1, Verb::take, false, true).allowed);
    EXPECT_GT(client({"PTTL", "sluice:gcra:k"}).number, INT64_MAX / 8'000'000 - 60'000);
    EXPECT_TRUE(server.ask(slow, -1).allowed);
    EXPECT_EQ(client({"DBSIZE"}).number, 0);
  }
}

// While Redis is gone, for rules with `on_store_error: local`.
TEST(RedisGcra, AServersOwnTableGrantsItsShareOfTheNumbers) {
  for (const Algorithm kind : kinds) {
    tests::RedisServer redis;
    Server server(redis, 2);
    ASSERT_EQ(server.left(limit_of(kind, 6, base::seconds(1'000))), 6);
    redis.stop();
    std::vector<Decision> decisions;
    std::string told;
    for (const int64_t quota : {6, 4, 4, 6}) {
      const Limit limit = limit_of(kind, quota, base::seconds(1'000));
      const Group group = server.ask({server.charge(limit, 1)}, decisions, request::OnError::local);
      EXPECT_EQ(group.allowed, decisions[0].allowed);
      told += std::string(group.allowed ? "yes " : "no ") + std::to_string(decisions[0].remaining) +
              " of " + std::to_string(decisions[0].limit) + ", ";
    }
    EXPECT_EQ(told, "yes 2 of 3, yes 0 of 2, no 0 of 2, yes 0 of 3, ") << name_of(kind);
    // With half of the limit, a unit takes twice the time to come back.
    const Decision& last = decisions[0];
    const base::Duration full = last.reset_after;
    EXPECT_GT(full, base::seconds(kind == Algorithm::gcra_crab ? 7'900 : 5'900));
  }
}

// Two servers, a client at each.
TEST(RedisGcra, TwoServersGrantAsManyAsOne) {
  tests::RedisServer redis;
  tests::Folder folder;
  const std::string config =
      folder.write("sluice.yaml",
                   "listen:\n  - { protocol: resp, address: \"127.0.0.1:0\" }\nworkers: 1\n"
                   "store: { redis: { nodes: [\"" +
                       redis.address() + "\"], deadline_ms: 20000 } }\n");
  const tests::Process::Options start{
      .arguments = {"serve", "--config", config, "--log-level", "info"}};
  tests::Process one(start), two(start);
  const uint16_t ports[] = {tests::await_listening(one, "resp"),
                            tests::await_listening(two, "resp")};
  one.says(": connected");
  two.says(": connected");
  std::atomic<int> granted{0}, answered{0};
  std::vector<std::thread> threads;
  for (const uint16_t port : ports) {
    threads.emplace_back([&, port] {
      tests::RedisClient client(port);
      for (int i = 0; i < 60; ++i) {
        // 50 units at once, and then one in ten minutes.
        const auto reply = client({"CL.THROTTLE", "k", "49", "1", "600"});
        if (reply.list.size() != 5) continue;
        ++answered;
        granted += reply.list[0].number == 0 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 120);
  EXPECT_EQ(granted, 50);
  auto client = redis.client();
  const auto keys = client({"KEYS", "*"});
  ASSERT_EQ(keys.list.size(), 1u);
  EXPECT_TRUE(keys.list[0].text.starts_with("sluice:cell:")) << keys.list[0].text;
  EXPECT_TRUE(client({"GET", keys.list[0].text}).text.starts_with("s1;c1,1,1 "));
  const int64_t ttl_ms = client({"PTTL", keys.list[0].text}).number;
  EXPECT_GT(ttl_ms, 0);
  EXPECT_LE(ttl_ms, 50 * 600'000 + 1'000);
  // Other numbers use the same counter, which owes more than a burst of 10 allows.
  EXPECT_EQ(tests::RedisClient(ports[0])({"CL.THROTTLE", "k", "9", "1", "600"}).list[0].number, 1);
  EXPECT_EQ(tests::RedisClient(ports[1])({"CL.THROTTLE", "k", "9", "1", "600"}).list[0].number, 1);
}

}  // namespace
}  // namespace sluice::redis::gcra_sharing_test
