// What clients of the real server see while Redis is slow, gone, refuses, or has values that are
// not sluice's, and that the server recovers by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "tests/redis/world.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;

constexpr const char* error = "ERR Internal Error: ";

struct Fixture {
  RedisServer redis;
  RedisWorld world{redis.port()};
  RedisReply ask(const std::vector<std::string>& words) { return redis.client()(words); }
};

TEST(RedisFails, ARestartIsAnErrorWhileItLasts) {
  Fixture f;
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
  f.redis.stop();
  const auto began = steady_clock::now();
  const std::string reply = f.world.hit();
  EXPECT_TRUE(reply.starts_with(std::string(error) + "Redis cannot be reached")) << reply;
  EXPECT_LT(steady_clock::now() - began, promised(std::chrono::milliseconds(500)));
  f.redis.start();
  EXPECT_EQ(f.world.await_hit("", "OK true"), "");
  EXPECT_TRUE(f.world.process().says("trying again"));
}

TEST(RedisFails, FlushedScriptsAreSentAgain) {
  Fixture f;
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
  f.ask({"SCRIPT", "FLUSH"});
  EXPECT_EQ(f.world.hit(), "OK true 998 600");
}

// Redis forgets scripts while many requests are pipelined: none fails, and none is charged twice.
TEST(RedisFails, FlushedScriptsAreSentAgainInAPipeline) {
  RedisServer redis;
  RedisWorld world(redis.port(), "", ", deadline_ms: 10000");
  std::atomic<bool> ends{false};
  std::thread flushes([&] {
    auto client = redis.client();
    while (!ends) client({"SCRIPT", "FLUSH"});
  });
  TcpClient client = connected(world.divvy_port());
  int granted = 0, others = 0;
  for (int round = 0; round < 20; ++round) {
    std::string lines;
    for (int i = 0; i < 60; ++i) lines += "HIT k=" + std::to_string(i) + "\n";
    ASSERT_TRUE(client.send(lines));
    for (int i = 0; i < 60; ++i) {
      const auto reply = client.read_line();
      ASSERT_TRUE(reply && reply->starts_with("OK")) << reply.value_or("the end");
      ++(reply->starts_with("OK true") ? granted : others);
    }
  }
  ends = true;
  flushes.join();
  EXPECT_EQ(granted, 1000);
  EXPECT_EQ(others, 200);
}

TEST(RedisFails, FlushedCountersStartFresh) {
  Fixture f;
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
  f.ask({"FLUSHALL"});
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
}

TEST(RedisFails, MaxmemoryIsAnErrorUntilThereIsRoom) {
  Fixture f;
  f.ask({"CONFIG", "SET", "maxmemory", "1"});
  const std::string reply = f.world.hit();
  EXPECT_TRUE(reply.starts_with(std::string(error) + "Redis has reached its maxmemory")) << reply;
  f.ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
}

TEST(RedisFails, AReadOnlyReplicaIsAnErrorUntilItIsPromoted) {
  Fixture f;
  RedisServer primary;
  f.ask({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
  const std::string reply = f.world.hit();
  EXPECT_TRUE(reply.starts_with(std::string(error) + "Redis takes no writes")) << reply;
  f.ask({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(f.world.await_hit("", "OK true"), "");
}

TEST(RedisFails, AWrongPasswordIsAnErrorUntilItFits) {
  Fixture f;
  auto client = f.redis.client();
  client({"CONFIG", "SET", "requirepass", "secret"});
  client({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  EXPECT_EQ(f.world.await_hit("", std::string(error) + "Redis does not let this server in"), "");
  EXPECT_TRUE(f.world.process().says("it does not let us in: NOAUTH"));
  client({"CONFIG", "SET", "requirepass", ""});
  EXPECT_EQ(f.world.await_hit("", "OK true"), "");
}

TEST(RedisFails, APasswordAUserAndADatabaseAreUsed) {
  RedisServer redis;
  auto client = redis.client();
  client({"ACL", "SETUSER", "limiter", "on", ">pass", "~*", "+@all"});
  client({"CONFIG", "SET", "requirepass", "secret"});
  RedisWorld world(redis.port(), "", ", username: limiter, password: pass, database: 3");
  EXPECT_EQ(world.await_hit("", "OK true"), "");
  client({"AUTH", "secret"});
  EXPECT_EQ(client({"DBSIZE"}).number, 0);
  client({"SELECT", "3"});
  EXPECT_EQ(client({"EXISTS", "divvy:::1000:600"}).number, 1);
  // Each new connection logs in and selects the database again.
  client({"CLIENT", "KILL", "USER", "limiter"});
  EXPECT_EQ(world.await_metric("sluice_redis_connects_total", "4"), "");
  EXPECT_EQ(world.await_hit("", "OK true"), "");
  client({"SELECT", "0"});
  EXPECT_EQ(client({"DBSIZE"}).number, 0);
}

// The rights that docs/redis.md names are enough for a user, and a missing one is reported.
TEST(RedisFails, AUserWithoutTheNeededRightsIsRejected) {
  RedisServer redis;
  auto client = redis.client();
  const std::string allowed = "+@read +@write +@scripting +@connection +time";
  std::ifstream page(tests::source_path("docs/redis.md"));
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_NE(text.find("`" + allowed + "`"), std::string::npos);
  std::vector<std::string> words{"ACL", "SETUSER", "limiter", "on", ">pass", "~*", "-@all"};
  std::istringstream all(allowed);
  for (std::string word; all >> word;) words.push_back(word);
  ASSERT_FALSE(client(words).is_error());
  RedisWorld world({redis.address()},
                   {.rules = "rules:\n  - name: own\n    match: { r: \"*\" }\n    actor: r\n"
                             "    limit: { quota: 9, window: 1h }\n",
                    .redis = ", username: limiter, password: pass, database: 1"});
  EXPECT_EQ(world.hit().substr(0, 7), "OK true");
  EXPECT_EQ(world.hit("r=x").substr(0, 9), "OK true 8");
  LimitdClient limitd = world.limitd();
  EXPECT_EQ(limitd.take("fixed", "k", 2).remaining, 1);
  EXPECT_EQ(limitd.ask({LimitdMethod::put, "fixed", "k", 2}).remaining, 3);
  EXPECT_EQ(limitd.take("fixed", "l", 2).remaining, 1);
  EXPECT_EQ(limitd.ask({LimitdMethod::status, "fixed", "l"}).items.size(), 1u);
  EXPECT_EQ(world.metric("sluice_redis_local_decisions_total"), "0");
  client({"ACL", "SETUSER", "limiter", "-time"});
  EXPECT_TRUE(
      world.hit("r=x").starts_with(std::string(error) + "Redis does not let this server in"))
      << world.hit("r=x");
  EXPECT_NE(world.metric("sluice_redis_failures_total{reason=\"refused\"}"), "0");
  EXPECT_EQ(world.metric("sluice_redis_failures_total{reason=\"store\"}"), "0");
  client({"ACL", "SETUSER", "limiter", "+time"});
  EXPECT_EQ(world.hit("r=x").substr(0, 9), "OK true 7");
}

// The address is a number, so it works even if the machine has no other address of IPv6.
TEST(RedisFails, AnAddressOfIpv6IsServedAndNamedInTheLog) {
  RedisServer redis({"--bind", "127.0.0.1", "::1"});
  RedisWorld world({"[::1]:" + std::to_string(redis.port())}, {});
  EXPECT_EQ(world.hit(), "OK true 999 600");
  redis.stop();
  EXPECT_TRUE(world.process().says("redis [::1]:" + std::to_string(redis.port()) + ": "));
}

// Answers to a session that has ended at an error must not go to requests of the next one.
TEST(RedisFails, AnEndedSessionLeavesNothingToTheNext) {
  RedisServer redis;
  RedisWorld world(redis.port(),
                   "rules:\n  - name: never\n    match: { never: \"*\" }\n    deny: true\n");
  EXPECT_EQ(world.hit(), "OK true 999 600");
  redis.stop();
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"down\"}", "2"), "");
  for (int i = 0; i < 60; ++i) {  // so that both workers get some
    TcpClient client = connected(world.divvy_port());
    ASSERT_TRUE(client.send("HIT\nHIT never=x\n"));
    const auto reply = client.read_line();
    ASSERT_TRUE(reply && reply->starts_with(error)) << reply.value_or("the end");
    EXPECT_EQ(client.read_to_end(), "");
    EXPECT_TRUE(world.hit().starts_with(error)) << i;
  }
}

TEST(RedisFails, AForeignValueFailsOnlyItsOwnCounter) {
  Fixture f;
  const std::string divvy = "divvy:::1000:600", own = "sluice:limitd:fixed:k";
  const std::string foreign = "sluice_redis_failures_total{reason=\"foreign\"}";
  f.ask({"SET", divvy, "x"});
  const std::string reply = f.world.hit();
  EXPECT_TRUE(reply.starts_with(std::string(error) + "what Redis has under")) << reply;
  EXPECT_EQ(f.ask({"GET", divvy}).text, "x");
  // The key's name is Divvy's, so the message does not advise another prefix.
  EXPECT_EQ(reply.find("key_prefix"), std::string::npos) << reply;
  EXPECT_TRUE(f.world.process().says("key " + divvy + "; delete it\n"));
  f.ask({"DEL", divvy});
  f.ask({"LPUSH", divvy, "x"});
  EXPECT_EQ(f.world.hit(), reply);
  f.ask({"DEL", divvy});
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
  EXPECT_EQ(f.world.metric(foreign), "2");
  // limitd's rules use this server's own table then.
  std::this_thread::sleep_for(Milliseconds(1100));  // the log has one such line a second
  f.ask({"LPUSH", own, "x"});
  EXPECT_EQ(f.world.limitd().take("fixed", "k", 2).remaining, 1);
  EXPECT_EQ(f.world.limitd().take("fixed", "other", 3).remaining, 0);
  EXPECT_EQ(f.world.metric(foreign), "3");
  EXPECT_EQ(f.world.metric("sluice_redis_local_decisions_total"), "1");
  EXPECT_TRUE(f.world.process().says("key " + own +
                                     "; delete it, or choose another store.redis.key_prefix"));
  EXPECT_EQ(f.ask({"TYPE", own}).text, "list");
}

constexpr Milliseconds pause_time{10'000};

// Redis pauses: each request is answered soon after its deadline, none is charged twice, and
// afterwards Redis decides again.
void expect_harmless_pause(Fixture& f, const std::function<void(bool)>& pause) {
  EXPECT_EQ(f.world.hit(), "OK true 999 600");
  const auto began = steady_clock::now();
  pause(true);
  int asked = 0, slowest_ms = 0;
  while (steady_clock::now() < began + pause_time - std::chrono::seconds(1)) {
    const auto from = steady_clock::now();
    const std::string reply = f.world.hit();
    const auto took = std::chrono::duration_cast<Milliseconds>(steady_clock::now() - from);
    slowest_ms = std::max(slowest_ms, static_cast<int>(took.count()));
    if (from + took >= began + pause_time) break;  // Redis may have answered
    EXPECT_TRUE(reply.starts_with(error)) << reply;
    ++asked;
    std::this_thread::sleep_for(Milliseconds(50));
  }
  EXPECT_LT(slowest_ms, promised(Milliseconds(300)).count());
  EXPECT_GT(asked, holds_times() ? 20 : 0);
  pause(false);
  // On a busy machine Redis may be late again.
  int late = 0;
  std::string reply;
  for (const auto end = soon(); !(reply = f.world.hit()).starts_with("OK true");) {
    ASSERT_LT(steady_clock::now(), end);
    late += reply.find("did not answer") != std::string::npos ? 1 : 0;
    std::this_thread::sleep_for(Milliseconds(20));
  }
  const int64_t left = std::stoll(f.ask({"GET", "divvy:::1000:600"}).text);
  EXPECT_LE(left, 998);
  // Each worker sent one call. While that was overdue, it sent no other.
  EXPECT_GE(left, 998 - 2 - late);
  std::printf("%d asked in the pause, slowest answer %d ms, %ld charged all the same\n", asked,
              slowest_ms, static_cast<long>(998 - left));
}

TEST(RedisFails, APausedRedisDoesNotDelayOtherRequests) {
  Fixture f;
  expect_harmless_pause(f, [&](bool on) {
    if (on) f.ask({"CLIENT", "PAUSE", std::to_string(pause_time.count()), "ALL"});
  });
}

TEST(RedisFails, AStoppedRedisDoesNotDelayOtherRequests) {
  Fixture f;
  expect_harmless_pause(f, [&](bool on) { f.redis.signal(on ? SIGSTOP : SIGCONT); });
}

TEST(RedisFails, OnStoreErrorDecidesTheAnswer) {
  RedisServer redis;
  const auto rule = [](const std::string& name, const std::string& more) {
    return "  - name: " + name + "\n    match: { r: " + name +
           " }\n    limit: { quota: 9, window: 1h, algorithm: fixed_window }\n" + more;
  };
  RedisWorld world(redis.port(),
                   "rules:\n" + rule("error", "") + rule("allow", "    on_store_error: allow\n") +
                       rule("deny", "    on_store_error: deny\n") +
                       rule("local", "    on_store_error: local\n"),
                   "", ", servers: 3");
  for (const std::string name : {"error", "allow", "deny", "local"})
    EXPECT_EQ(world.hit("r=" + name), "OK true 8 3600");
  redis.stop();
  EXPECT_EQ(world.await_hit("r=error", error), "");
  EXPECT_EQ(world.hit("r=allow"), "OK true 8 3600");
  EXPECT_EQ(world.hit("r=allow"), "OK true 8 3600");
  EXPECT_EQ(world.hit("r=deny"), "OK false 0 1");
  // This server's share: a third of nine.
  EXPECT_EQ(world.hit("r=local"), "OK true 2 3600");
  EXPECT_EQ(world.hit("r=local"), "OK true 1 3600");
  EXPECT_EQ(world.hit("r=local"), "OK true 0 3600");
  EXPECT_EQ(world.hit("r=local"), "OK false 0 3600");
  // limitd's protocol cannot express an error, so by default this server's own table decides.
  EXPECT_TRUE(world.limitd().take("fixed", "a").conformant);
  EXPECT_FALSE(world.limitd().take("fixed", "a").conformant);
  redis.start();
  // Each worker has a connection of its own.
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"up\"}", "2"), "");
  EXPECT_EQ(world.hit("r=error").substr(0, 7), "OK true");
  EXPECT_EQ(world.hit("r=local"), "OK true 8 3600");
}

TEST(RedisFails, TheServerStartsWithoutRedis) {
  RedisServer redis;
  redis.stop();
  Folder folder;
  const std::string rules =
      folder.write("r.ini", "[default]\ncreditLimit = 10\nresetSeconds = 60\n");
  Process process({.arguments = {"divvy", rules},
                   .environment = {{"PORT", "0"},
                                   {"REDIS_HOST", "127.0.0.1"},
                                   {"REDIS_PORT", std::to_string(redis.port())}}});
  EXPECT_TRUE(process.read_line()->ends_with(", Redis host " + redis.address()));
  const uint16_t port = await_listening(process);
  EXPECT_TRUE(connected(port).ask("HIT").starts_with(error));
  redis.start();
  std::string reply;
  for (const auto end = soon(); steady_clock::now() < end && !reply.starts_with("OK");)
    reply = connected(port).ask("HIT");
  EXPECT_EQ(reply, "OK true 9 60");
}

}  // namespace
}  // namespace sluice::tests
