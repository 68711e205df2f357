// Requests that wait at two real servers with one Redis, while overrides are set at both: each unit
// that Redis charged was granted to a request.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/redis/world.h"
#include "tests/support/dice.h"
#include "tests/support/limitd_until.h"

namespace sluice::tests {
namespace {

const std::string pool =
    "rules:\n  - { name: pool, match: { type: pool, key: '*' }, actor: key, limit: { quota: 6, "
    "window: 10000h, algorithm: fixed_window } }\n";

// Long enough that no request is answered because of its deadline: then it would not be known what
// was charged.
const std::string patient = ", deadline_ms: 20000";

void set(const RedisWorld& world, const std::string& key, const std::string& limit) {
  const auto answer = http(world.admin_port(), "POST", "/v1/overrides",
                           "{\"rule\":\"pool\",\"actor\":\"" + key + "\"," + limit + "}");
  ASSERT_EQ(answer.status / 100, 2) << answer.body;
}
std::string quota(int64_t units) {
  return "\"limit\":{\"quota\":" + std::to_string(units) +
         ",\"window\":\"10000h\",\"algorithm\":\"fixed_window\"}";
}

bool is_counted(const LimitdReply& reply) {
  return reply.limit > 0 && reply.limit < 1'000;
}

// A client that takes, puts back and waits, on a thread of its own, as fast as it can.
struct Busy {
  Busy(RedisWorld& world, uint32_t seed) : client(world.limitd()), dice(seed) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop) {
      struct Taken {
        std::string key, id;
        int64_t cost;
      };
      std::vector<Taken> takes;
      std::string frames;  // sent at once, so that Redis needs a while for the batch
      for (int n = 0; n < 60; ++n) {
        const std::string key(1, static_cast<char>('a' + dice(3)));
        const int64_t cost = 1 + dice(int64_t{3});
        const bool waits = waiting.size() < 900 && dice(3) != 0;
        const auto method = waits ? LimitdMethod::wait : LimitdMethod::take;
        const std::string id = "n" + std::to_string(++ids);
        frames += limitd_frame({method, "pool", key, cost}, id);
        if (waits)
          waiting.push_back({key, id, cost});
        else
          takes.push_back({key, id, cost});
      }
      if (!client.send(frames)) return fail();
      for (const Taken& one : takes) {
        const auto reply = client.await(one.id);
        if (!reply) return fail();
        if (reply->conformant && is_counted(*reply)) held[one.key] += one.cost;
      }
      for (auto& [key, units] : held) {
        if (units == 0) continue;
        const auto reply = client.await(client.send({LimitdMethod::put, "pool", key, units}));
        if (!reply) return fail();
        if (is_counted(*reply)) units = 0;
      }
      ++rounds;
    }
  }
  void fail() { ADD_FAILURE() << "no reply"; }

  struct Waits {
    std::string key, id;
    int64_t cost;
  };
  LimitdClient client;
  Dice dice;
  uint64_t ids = 0;
  std::atomic<int> rounds{0};
  std::deque<Waits> waiting;
  std::map<std::string, int64_t> held;  // units that it was granted and has not put back
};

// Whether each has sent requests between the changes, however fast these are.
bool all_have_asked(const std::deque<Busy>& busy) {
  return std::ranges::all_of(busy, [](const Busy& its) { return its.rounds >= 5; });
}

// Calls a function when a scope ends, also by an exception: requests to a server that has ended
// throw.
class Finally {
 public:
  explicit Finally(std::function<void()> call) : call_(std::move(call)) {}
  ~Finally() { call_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  const std::function<void()> call_;
};

TEST(RedisWaitingOverrides, EveryUnitIsAccountedForAtTwoServers) {
  RedisServer redis;
  RedisWorld one(redis.port(), pool, patient), two(redis.port(), pool, patient);
  const std::array<RedisWorld*, 2> worlds = {&one, &two};
  std::deque<Busy> busy;
  for (uint32_t i = 0; i < 8; ++i) busy.emplace_back(*worlds[i % 2], i + 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  const auto end = [&] {
    stop = true;
    for (auto& thread : threads)
      if (thread.joinable()) thread.join();
  };
  const Finally whatever_is_thrown(end);
  for (Busy& its : busy) threads.emplace_back([&its, &stop] { its.run(stop); });
  Dice dice(1);
  for (int n = 0; n < 150 || (n < 5'000 && !all_have_asked(busy)); ++n) {
    const std::string key(1, static_cast<char>('a' + dice(4)));  // no request names the last one
    set(*worlds[dice(size_t{2})], key,
        dice(3) == 0   ? "\"unlimited\":true"
        : dice(2) == 0 ? "\"deny\":true"
                       : quota(3 + dice(int64_t{6})));
    if (n % 8 != 0) continue;
    // A client that disconnects while its requests wait, for a key of its own.
    LimitdClient gone = worlds[dice(size_t{2})]->limitd();
    for (int m = 0; m < 5; ++m) gone.send({LimitdMethod::wait, "pool", "gone", 5});
  }
  end();
  // All that waits becomes unlimited. What was granted before has taken its units.
  for (const char* key : {"a", "b", "c"}) set(one, key, "\"unlimited\":true");
  std::map<std::string, int64_t> held;
  size_t late = 0;
  for (Busy& its : busy) {
    for (const auto& w : its.waiting) {
      const auto reply = its.client.await(w.id);
      ASSERT_TRUE(reply) << w.key;
      EXPECT_TRUE(reply->conformant) << reply->kind;
      if (reply->delayed) ++late;
      if (is_counted(*reply)) its.held[w.key] += w.cost;
    }
    EXPECT_EQ(its.client.unclaimed(), 0u);
    for (const auto& [key, units] : its.held) held[key] += units;
  }
  for (const RedisWorld* world : worlds) {
    EXPECT_EQ(world->await_metric("sluice_waiting_requests", "0"), "");
    EXPECT_EQ(world->metric("sluice_redis_losses_total"), "0");
  }
  LimitdClient looks = one.limitd();
  for (const char* key : {"a", "b", "c"}) {
    set(one, key, quota(1'000'000));
    // Units that were granted by rules that had changed meanwhile are given back, after calls that
    // were sent before.
    const auto deadline = soon();
    int64_t used;
    do {
      used = 1'000'000 - looks.ask({LimitdMethod::get, "pool", key}).remaining;
    } while (used != held[key] && std::chrono::steady_clock::now() < deadline);
    EXPECT_EQ(used, held[key]) << key;
  }
  EXPECT_GT(late, 100u);
}

// The store has not parked the request yet, so only its batch may settle it. A reload that matched
// it again once ended the process.
TEST(RedisWaitingOverrides, AReloadWhileItsBatchIsWithRedis) {
  constexpr const char* calls = "sluice_redis_calls_total";
  const auto rules = [](const std::string& limit) {
    return "rules:\n  - { name: pool, match: { type: pool, key: '*' }, actor: key, " + limit +
           " }\n";
  };
  const std::string three = "limit: { quota: 3, window: 10000h, algorithm: fixed_window }";
  const std::string nine = "limit: { quota: 9, window: 10000h, algorithm: fixed_window }";
  for (const std::string other : {"unlimited: true", "deny: true"}) {
    SCOPED_TRACE(other);
    RedisServer redis;
    RedisWorld world(redis.port(), rules(three), patient);
    LimitdClient client = world.limitd();
    EXPECT_TRUE(client.take("pool", "k", 3).conformant);
    auto holds = redis.client();
    holds({"CLIENT", "PAUSE", "1000", "WRITE"});
    const int64_t before = std::stoll(world.metric(calls));
    const auto id = client.send({LimitdMethod::wait, "pool", "k", 2});
    EXPECT_EQ(world.await_metric(calls, std::to_string(before + 1)), "");
    world.write_rules(rules(other));
    world.process().signal(SIGHUP);
    EXPECT_EQ(world.await_metric("sluice_policy_generation", "2"), "");
    EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");  // after the reload
    if (other.starts_with("deny")) {
      world.write_rules(rules(nine));
      world.process().signal(SIGHUP);
    }
    const auto reply = client.await(id);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->conformant && reply->delayed);
    EXPECT_EQ(client.unclaimed(), 0u);
  }
}

// A call that is at Redis stays valid if a reload changes nothing for its request: it is neither
// taken back nor repeated. Otherwise a waiting request would get nothing while rules or overrides
// of others keep changing.
TEST(RedisWaitingOverrides, AReloadWithoutAChangeForItKeepsTheCallInFlight) {
  constexpr const char* calls = "sluice_redis_calls_total";
  for (int attempt = 0; attempt < 6; ++attempt) {
    RedisServer redis;
    const auto rules = [](int64_t other) {
      return "rules:\n  - { name: pool, match: { type: pool, key: '*' }, actor: key, limit: { "
             "quota: 3, algorithm: fixed_bucket } }\n  - { name: other, match: { type: other }, "
             "limit: { quota: " +
             std::to_string(other) + ", window: 1h } }\n";
    };
    RedisWorld world(redis.port(), rules(1));
    LimitdClient client = world.limitd();
    EXPECT_TRUE(client.take("pool", "k", 3).conformant);
    const auto id = client.send({LimitdMethod::wait, "pool", "k", 2});
    EXPECT_EQ(world.await_metric("sluice_waiting_requests", "1"), "");
    auto holds = redis.client();
    holds({"CLIENT", "PAUSE", "800", "WRITE"});
    std::thread fills([&] {
      auto other = redis.client();
      for (const RedisReply& key : other({"KEYS", "*pool*"}).list) holds({"DEL", key.text});
    });
    EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"silent\"}", "1"), "");
    world.write_rules(rules(2));
    world.process().signal(SIGHUP);
    EXPECT_EQ(world.await_metric("sluice_policy_generation", "2"), "");
    const std::string asked = world.metric(calls);
    // The machine may be too busy: the pause is over, or the connection was given up.
    const bool in_time = world.metric("sluice_redis_connections{state=\"silent\"}") == "1";
    fills.join();
    const auto reply = client.await(id);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->conformant && reply->delayed);
    if (!in_time || world.metric("sluice_redis_losses_total") != "0") continue;
    EXPECT_EQ(world.metric(calls), asked);
    EXPECT_EQ(client.ask({LimitdMethod::get, "pool", "k"}).remaining, 1);
    return;
  }
  FAIL() << "the machine was too busy, six times";
}

TEST(RedisWaitingOverrides, AnEndInLimitdsFileWakesWaitingRequests) {
  RedisServer redis;
  expect_an_end_wakes_what_waits("{ inMemory: true }", {{"SLUICE_REDIS", redis.address()}},
                                 ": connected");
}

}  // namespace
}  // namespace sluice::tests
