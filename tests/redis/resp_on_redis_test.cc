// `sluice resp --config` with its counters in a real Redis: the commands that throttle against the
// naive model, counters that are shared with redis-cell, and what is answered without Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "limit/gcra_model.h"
#include "tests/support/divvy_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::resp_on_redis_test {
namespace {

using limit::Algorithm;
using limit::gcra_model::Call;
using limit::gcra_model::Five;
using limit::gcra_model::Key;
using Words = std::vector<std::string>;

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Server {
 public:
  Server(const std::string& redis, const std::string& resp, const std::string& store = "")
      : server_({.arguments = {"--config",
                               folder_.write("sluice.yaml", "store: { redis: { nodes: [\"" + redis +
                                                                "\"], deadline_ms: 20000" + store +
                                                                " } }\n" + resp)},
                 .environment = {{"SLUICE_LOG_LEVEL", "info"}}}) {}

  // Waits until the server is connected to Redis.
  Server& connected() {
    server_.process().says(": connected");
    return *this;
  }
  RespClient client() const { return server_.client(); }

 private:
  Folder folder_;
  RespServer server_;
};

std::string text_of(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Words words_of(const Call& call, const std::string& key) {
  const bool redis = call.kind == Algorithm::gcra_redis;
  Words words = {call.kind == Algorithm::gcra_cell   ? "CL.THROTTLE"
                 : call.kind == Algorithm::gcra_crab ? "THROTTLE"
                                                     : "GCRA",
                 key, std::to_string(call.max_burst), std::to_string(call.count),
                 std::to_string(redis ? call.period / 1'000'000 : call.period)};
  if (redis) words.emplace_back("TOKENS");
  words.push_back(std::to_string(call.quantity));
  return words;
}

// A unit comes back in a multiple of 1,000 seconds. So during the test only the times in a reply
// change, and become smaller; the model's clock stands still.
constexpr int64_t step_seconds = 1000, slow_seconds = 500;

Call any_call(std::mt19937_64& random, Algorithm kind) {
  Call call{kind, static_cast<int64_t>(random() % 6), 1,
            step_seconds * static_cast<int64_t>(1 + random() % 3),
            static_cast<int64_t>(random() % 4)};
  if (random() % 3 == 0) {
    call.count = 2;
    call.period *= 2;
  }
  if (kind == Algorithm::gcra_redis) {
    call.quantity = std::max<int64_t>(1, call.quantity);
    call.period *= 1'000'000;
  }
  if (kind == Algorithm::gcra_cell && random() % 4 == 0)
    call.quantity = -1 - static_cast<int64_t>(random() % 2);
  if (random() % 40 == 0) call.quantity = INT64_MAX;
  if (random() % 40 == 0) call.count = 0;
  return call;
}

// Empty if the reply equals the model's. Its times may be smaller by up to `slow_seconds`.
std::string compare(const RespValue& reply, const std::optional<Five>& expected) {
  if (!expected) return reply.type == RespValue::Type::error ? "" : "no error: " + to_text(reply);
  if (reply.type != RespValue::Type::list || reply.list.size() != 5) return to_text(reply);
  bool same = true;
  for (size_t i = 0; i < 5; ++i) {
    const int64_t got = reply.list[i].number, wanted = (*expected)[i];
    same &= i < 3 || wanted <= 0 ? got == wanted : got <= wanted && got >= wanted - slow_seconds;
  }
  if (same) return "";
  std::string text = to_text(reply) + ", not";
  for (const int64_t n : *expected) text += " " + std::to_string(n);
  return text;
}

TEST(RespOnRedis, AnswersLikeTheModel) {
  const RedisServer redis;
  Server server(redis.address(), "");
  server.connected();
  RespClient client = server.client(), other = server.client();
  std::mt19937_64 random(7);
  const int64_t now_us = wall_ns() / 1000;
  for (const Algorithm kind : {Algorithm::gcra_cell, Algorithm::gcra_crab, Algorithm::gcra_redis}) {
    std::map<std::string, Key> keys;
    size_t allowed = 0, denied = 0, errors = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::string key = "k" + std::to_string(random() % 60);
      const Call call = any_call(random, kind);
      const auto expected = keys[key].ask(call, now_us);
      const Words words = words_of(call, key);
      ASSERT_EQ(compare((i % 2 == 0 ? client : other)(words), expected), "") << text_of(words);
      ++(!expected                                                  ? errors
         : (*expected)[0] == (kind == Algorithm::gcra_crab ? 1 : 0) ? allowed
                                                                    : denied);
    }
    EXPECT_GT(allowed, 50u) << name_of(kind);
    EXPECT_GT(denied, 50u);
    EXPECT_GT(errors, 5u);
  }
  // The counters are in Redis, and commands find them by their keys.
  EXPECT_GT(redis.client()({"DBSIZE"}).number, 6);
  EXPECT_EQ(client({"CL.THROTTLE", "mine", "1", "1", "1000"}).list[0].number, 0);
  EXPECT_EQ(other({"EXISTS", "mine"}).number, 1);
  EXPECT_GT(other({"TTL", "mine"}).number, 500);
  EXPECT_EQ(other({"DEL", "mine"}).number, 1);
  EXPECT_EQ(redis.client()({"EXISTS", "sluice:cell:0|mine"}).number, 0);
}

// Does what redis-cell 4d42338 does by its source, over a client of Redis. Only for one client at a
// time, and for numbers that are whole seconds.
RespValue module(RedisClient& redis, const std::string& key, const Call& call) {
  const auto stored = redis({"GET", key});
  const int64_t now = wall_ns(), emission = call.period * 1'000'000'000 / call.count;
  const int64_t limit = call.max_burst + 1, tolerance = emission * limit;
  const int64_t tat = stored.type == RedisReply::Type::nil ? now : std::stoll(stored.text);
  const int64_t to = std::max(now, tat) + emission * call.quantity;
  const bool allowed = to - tolerance <= now;
  if (allowed && call.quantity != 0)
    redis({"SET", key, std::to_string(to), "PX", std::to_string((to - now) / 1'000'000)});
  const int64_t ttl = (allowed ? to : tat) - now;
  const auto seconds = [](int64_t ns) { return ns <= 0 ? 0 : (ns - 1) / 1'000'000'000 + 1; };
  RespValue reply{RespValue::Type::list};
  const int64_t retry =
      allowed || emission * call.quantity > tolerance ? -1 : seconds(to - tolerance - now);
  for (const int64_t n : {int64_t{allowed ? 0 : 1}, limit,
                          std::max<int64_t>(0, (tolerance - ttl) / emission), retry, seconds(ttl)})
    reply.list.push_back({.type = RespValue::Type::integer, .text = {}, .number = n});
  return reply;
}

TEST(RespOnRedis, CountsTogetherWithRedisCell) {
  const RedisServer redis;
  Server server(redis.address(), "resp: { cell_shared: true }\n", ", database: 3");
  server.connected();
  RespClient client = server.client();
  RedisClient beside = redis.client();
  beside({"SELECT", "3"});
  std::mt19937_64 random(8);
  const int64_t now_us = wall_ns() / 1000;
  std::map<std::string, Key> keys;
  size_t by_module = 0, refused = 0, gone = 0;
  for (int i = 0; i < 600; ++i) {
    const std::string key = "user:" + std::to_string(random() % 5);
    Call call = any_call(random, Algorithm::gcra_cell);
    if (call.count == 0 || call.quantity == INT64_MAX) continue;
    const auto expected = keys[key].ask(call, now_us);
    // The module fails if units are given back to a fresh key, so it is not asked for that.
    const bool may_be_module = call.quantity >= 0 && random() % 2 == 0;
    by_module += may_be_module;
    refused += (*expected)[0] == 1;
    const RespValue reply = may_be_module ? module(beside, key, call) : client(words_of(call, key));
    ASSERT_EQ(compare(reply, expected), "") << (may_be_module ? "module " : "sluice ") << i;
    // The value is the theoretical arrival time (TAT) in nanoseconds, and the key lives until then.
    const auto value = beside({"GET", key});
    if (value.type == RedisReply::Type::nil) {
      ++gone;
      EXPECT_EQ(reply.list[4].number, 0);
      continue;
    }
    EXPECT_EQ(value.text.size(), 19u) << value.text;
    const int64_t ahead_ms = (std::stoll(value.text) - wall_ns()) / 1'000'000;
    const int64_t life_ms = beside({"PTTL", key}).number;
    EXPECT_GE(life_ms, ahead_ms - 20'000);
    EXPECT_LE(life_ms, ahead_ms + 20'000);
  }
  EXPECT_GT(by_module, 100u);
  EXPECT_GT(refused, 100u);
  EXPECT_GT(gone, 5u);
  EXPECT_LE(beside({"DBSIZE"}).number, 5);
}

TEST(RespOnRedis, ASharedKeyHasTheFormOfRedisCell) {
  const RedisServer redis;
  Server server(redis.address(), "resp: { cell_shared: true }\n");
  server.connected();
  RespClient client = server.client();
  RedisClient beside = redis.client();
  const std::string key("a|b\0\xff\\", 7);
  const int64_t before = wall_ns();
  EXPECT_EQ(to_text(client({"CL.THROTTLE", key, "4", "1", "1000"})), "[0, 5, 4, -1, 1000]");
  const int64_t after = wall_ns();
  EXPECT_EQ(beside({"TYPE", key}).text, "string");
  // Redis uses the clock of this machine, in microseconds.
  const int64_t tat = std::stoll(beside({"GET", key}).text);
  EXPECT_GE(tat, before - 1000 + 1'000'000'000'000);
  EXPECT_LE(tat, after + 1'000'000'000'000);
  EXPECT_EQ(beside({"DBSIZE"}).number, 1);
  // A look and a refusal write nothing.
  beside({"PERSIST", key});
  EXPECT_EQ(client({"CL.THROTTLE", key, "4", "1", "1000", "0"}).list[2].number, 4);
  EXPECT_EQ(client({"CL.THROTTLE", key, "4", "1", "1000", "5"}).list[0].number, 1);
  EXPECT_EQ(beside({"PTTL", key}).number, -1);
  EXPECT_EQ(beside({"GET", key}).text, std::to_string(tat));
  EXPECT_EQ(client({"EXISTS", key}).number, 1);
  EXPECT_EQ(client({"DEL", key}).number, 1);
  EXPECT_EQ(beside({"EXISTS", key}).number, 0);
  // A time in the past counts as no counter.
  for (const char* old : {"5", "0", "-7", "-9223372036854775808", "1000000000000000000"}) {
    beside({"SET", "old", old});
    EXPECT_EQ(to_text(client({"CL.THROTTLE", "old", "4", "1", "1000", "0"})), "[0, 5, 5, -1, 0]");
    EXPECT_EQ(beside({"GET", "old"}).text, old);
    EXPECT_EQ(to_text(client({"CL.THROTTLE", "old", "4", "1", "1000"})), "[0, 5, 4, -1, 1000]");
  }
  // With the largest time every take is refused.
  beside({"SET", "old", "9223372036854775807"});
  EXPECT_EQ(client({"CL.THROTTLE", "old", "4", "1", "1000"}).list[0].number, 1);
}

TEST(RespOnRedis, AForeignValueIsAnErrorAndStays) {
  const RedisServer redis;
  Server server(redis.address(), "resp: { cell_shared: true }\n");
  server.connected();
  RespClient client = server.client();
  RedisClient beside = redis.client();
  beside({"RPUSH", "list", "a"});
  const Words ask = {"CL.THROTTLE", "list", "4", "1", "1000"};
  EXPECT_EQ(client(ask).text, "WRONGTYPE Operation against a key holding the wrong kind of value");
  EXPECT_EQ(client({"DEL", "list"}).text.substr(0, 10), "WRONGTYPE ");
  EXPECT_EQ(beside({"LLEN", "list"}).number, 1);
  for (const char* none : {"", "abc", "1.5", "12a", " 1", "9223372036854775808",
                           "-9223372036854775809", "99999999999999999999999", "s1;c1,1,1 5 5000"}) {
    beside({"SET", "text", none});
    EXPECT_EQ(client({"CL.THROTTLE", "text", "4", "1", "1000"}).text,
              "ERR value is not an integer or out of range")
        << none;
    EXPECT_EQ(client({"DEL", "text"}).text, "ERR value is not an integer or out of range");
    EXPECT_EQ(beside({"GET", "text"}).text, none);
  }
  EXPECT_EQ(client({"SELECT", "1"}).text, "OK");
  EXPECT_EQ(client({"CL.THROTTLE", "k", "4", "1", "1000"}).text.substr(0, 4), "ERR ");
  EXPECT_EQ(beside({"EXISTS", "k"}).number, 0);
  EXPECT_EQ(client({"THROTTLE", "k", "4", "1", "1000"}).list[0].number, 1);
}

// A number that is not a time in the future counts as no counter. It may be another program's, so
// it stays.
TEST(RespOnRedis, AForeignNumberStays) {
  const RedisServer redis;
  Server server(redis.address(), "resp: { cell_shared: true }\n");
  server.connected();
  RespClient client = server.client();
  RedisClient beside = redis.client();
  for (const char* number : {"12345", "0", "-7", "1000000000000000000"}) {
    beside({"SET", "foreign", number});
    EXPECT_EQ(client({"EXISTS", "foreign"}).number, 0);
    EXPECT_EQ(client({"DEL", "foreign"}).number, 0);
    EXPECT_EQ(beside({"GET", "foreign"}).text, number);
    EXPECT_EQ(to_text(client({"CL.THROTTLE", "foreign", "4", "1", "1000", "-1"})),
              "[0, 5, 5, -1, 0]");
    EXPECT_EQ(beside({"GET", "foreign"}).text, number);
  }
  // A time in the future is a counter.
  client({"CL.THROTTLE", "foreign", "4", "1", "1000"});
  EXPECT_EQ(client({"CL.THROTTLE", "foreign", "4", "1", "1000", "-1"}).list[4].number, 0);
  EXPECT_EQ(beside({"EXISTS", "foreign"}).number, 0);
  client({"CL.THROTTLE", "foreign", "4", "1", "1000"});
  EXPECT_EQ(client({"DEL", "foreign"}).number, 1);
  EXPECT_EQ(beside({"EXISTS", "foreign"}).number, 0);
}

// A command of each kind while Redis cannot be reached: it is answered as `on_store_error` says.
TEST(RespOnRedis, WithoutRedisTheSettingDecides) {
  const std::string nowhere = "127.0.0.1:" + std::to_string(free_port());
  const std::vector<Words> asked = {{"CL.THROTTLE", "k", "4", "1", "60", "2"},
                                    {"THROTTLE", "k", "4", "1", "60", "2"},
                                    {"GCRA", "k", "4", "1", "60", "TOKENS", "2"},
                                    {"SLUICE.TAKE", "KEY", "k", "LIMIT", "5", "60s", "N", "2"}};
  for (const auto& [word, replies] : std::vector<std::pair<std::string, Words>>{
           {"error", {}},
           {"allow",
            {"[0, 5, 3, -1, 120]", "[1, 4, 2, 240, 0]", "[0, 5, 3, -1, 120]",
             "[1, 5, 3, 0, 24000]"}},
           {"deny",
            {"[1, 5, 0, 1, 1]", "[0, 4, 0, 1, 1]", "[1, 5, 0, 1, 1]", "[0, 5, 0, 1000, 1000]"}}}) {
    Server server(nowhere,
                  "resp: { on_store_error: " + word +
                      " }\nrules: [{ match: { user: '*' }, actor: user, limit: { quota: 5, "
                      "window: 1h }, on_store_error: " +
                      word + " }]\n");
    RespClient client = server.client();
    for (size_t i = 0; i < asked.size(); ++i) {
      // Nothing is charged, so a command that is repeated gets the same answer.
      for (int again = 0; again < 3; ++again) {
        const RespValue reply = client(asked[i]);
        if (replies.empty())
          EXPECT_EQ(reply.text.substr(0, 9), "TRYAGAIN ") << asked[i][0];
        else
          EXPECT_EQ(to_text(reply), replies[i]) << word;
      }
    }
    // Commands about a counter itself are answered with an error, whatever the setting is.
    for (const char* command : {"TTL", "EXISTS", "DEL"})
      EXPECT_EQ(client({command, "k"}).text.substr(0, 9), "TRYAGAIN ") << word;
    for (const char* command : {"SLUICE.PUT", "SLUICE.RESET"}) {
      EXPECT_EQ(client({command, "KEY", "k", "LIMIT", "5", "60s"}).text.substr(0, 9), "TRYAGAIN ")
          << command << ", " << word;
      EXPECT_EQ(client({command, "user=u"}).text.substr(0, 9), "TRYAGAIN ")
          << command << " by a rule, " << word;
    }
    // Numbers that make no limit are an error whatever the store does.
    EXPECT_EQ(client({"THROTTLE", "k", "0", "1", "60"}).type, RespValue::Type::error);
  }
}

}  // namespace
}  // namespace sluice::tests::resp_on_redis_test
