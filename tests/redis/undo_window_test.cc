// Counters that are shared with Divvy, of which a window is known by its end alone: what takes back
// units finds the window exactly, or takes back nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "redis/lua.h"
#include "redis/receipts.h"
#include "redis/scripts.h"
#include "request/space.h"
#include "tests/support/redis_server.h"

namespace sluice::redis::undo_window_test {
namespace {

constexpr int64_t window_ms = 86'400'000;
const limit::Limit five_a_day{limit::Algorithm::fixed_window, 5, {window_ms * 1'000}, 0};

// A counter in a real Redis.
class Counter {
 public:
  explicit Counter(const tests::RedisServer& redis) : client(redis.client()) {
    request::Space like;
    like.encoding = request::KeyEncoding::remaining_text;
    charge_.space = spaces_.intern("divvy:", "", like);
    charge_.key = "k";
    charge_.verb = request::Verb::take;
    charge_.limits = {&five_a_day, 1};
    charge_.limits_id = spaces_.intern_limits({&five_a_day, 1});
  }
  // Returns the receipt.
  std::string take(int64_t cost) {
    charge_.cost = cost;
    Weight weight;
    std::string bytes;
    append_call(bytes, what_, script_of(what_, scripts_, texts_, weight), false, scripts_, texts_);
    const std::string text = client.raw(bytes).text;
    std::string_view answer = text;
    return std::string(cut_receipt(answer));
  }
  // Takes back what was taken last; returns the units that are left.
  std::optional<uint64_t> undo(const std::string& receipt) {
    std::string by_hash, bytes;
    append_undo(by_hash, what_, receipt, scripts_.undo(), texts_);
    append_by_text(bytes, by_hash, scripts_.undo());
    return undo_answer(client.raw(bytes).text);
  }
  std::string value() { return client({"GET", key}).text; }
  void end_at(int64_t ms) { client({"PEXPIREAT", key, std::to_string(ms)}); }

  const std::string key = "divvy:k";
  tests::RedisClient client;

 private:
  request::Spaces spaces_;
  request::Charge charge_;
  Scripts scripts_;
  LimitTexts texts_;
  const ScriptCall what_{.charges = {&charge_, 1}, .receipts = true};
};

TEST(UndoWindow, IsIdentifiedByTheMillisecondOfItsEnd) {
  const tests::RedisServer redis;
  Counter counter(redis);
  counter.take(1);
  const std::string receipt = counter.take(2);
  const int64_t end = std::stoll(receipt);
  ASSERT_EQ(counter.value(), "2");
  // It may be the same window, whose slot has moved, or another one behind a reset.
  for (const int64_t other : {int64_t{-1}, int64_t{1}, int64_t{2}, window_ms - 1}) {
    counter.end_at(end + other);
    EXPECT_EQ(counter.undo(receipt), 2u) << other;
    EXPECT_EQ(counter.value(), "2") << other;
  }
  // The next one, of which nothing was taken.
  counter.end_at(end + window_ms);
  EXPECT_EQ(counter.undo(receipt), 0u);
  EXPECT_EQ(counter.value(), "2");
  counter.client({"PERSIST", counter.key});
  EXPECT_EQ(counter.undo(receipt), 2u);
  EXPECT_EQ(counter.value(), "2");
  counter.end_at(end);
  EXPECT_EQ(counter.undo(receipt), 0u);
  EXPECT_EQ(counter.value(), "4");
  counter.client({"DEL", counter.key});
  EXPECT_EQ(counter.undo(receipt), 0u);
  EXPECT_EQ(counter.client({"EXISTS", counter.key}).number, 0);
}

TEST(UndoWindow, ACounterWithoutAnEndIsNotTakenBack) {
  const tests::RedisServer redis;
  Counter counter(redis);
  counter.client({"SET", counter.key, "5"});
  const std::string receipt = counter.take(2);
  EXPECT_EQ(counter.undo(receipt), 2u);
  EXPECT_EQ(counter.value(), "3");
}

// Redis stands still again and again, also between two commands of a script.
TEST(UndoWindow, IsFoundWhenRedisPausesWithinAScript) {
  const tests::RedisServer redis;
  Counter counter(redis);
  const bool tells = !counter.client({"PEXPIRETIME", counter.key}).is_error();  // from 7.0 on
  std::atomic<bool> ends{false};
  std::thread holds([&] {
    while (!ends) {
      redis.signal(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      redis.signal(SIGCONT);
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (int i = 0; i < 250; ++i) {
    SCOPED_TRACE(i);
    if (i % 2 == 0) counter.client({"DEL", counter.key});
    const std::string before = i % 2 == 0 ? "" : counter.value();
    const std::string receipt = counter.take(2);
    if (tells) {
      EXPECT_EQ(receipt, counter.client({"PEXPIRETIME", counter.key}).text);
    }
    EXPECT_EQ(counter.undo(receipt), 0u);
    EXPECT_EQ(counter.value(), before);
    if (i % 2 == 0) counter.take(1);
  }
  ends = true;
  holds.join();
}

// What `end_of` says where TIME and PTTL are as told, one after the other.
std::string end_of(tests::RedisClient& client, const std::string& answers) {
  const std::string script =
      "local floor, answers = math.floor, {" + answers +
      "}\n"
      "local at = 0\n"
      "local function call() at = math.min(at + 1, #answers) return answers[at] end\n" +
      std::string(lua_window_end) + "return string.format('%.0f', end_of('k')) .. ' ' .. at";
  const tests::RedisReply reply = client({"EVAL", script, "0"});
  EXPECT_FALSE(reply.is_error()) << reply.text;
  return reply.text;
}

TEST(UndoWindow, ItsEndIsReadWithinOneMillisecond) {
  const tests::RedisServer redis;
  tests::RedisClient client = redis.client();
  EXPECT_EQ(end_of(client, "{'1800000000', '500000'}, 250, {'1800000000', '500999'}"),
            "1800000000750 3");
  // The clock has gone on before it is read again, or back.
  EXPECT_EQ(end_of(client,
                   "{'1800000000', '500999'}, 250, {'1800000000', '501000'},"
                   "{'1800000000', '501000'}, 249, {'1800000000', '501001'}"),
            "1800000000750 6");
  EXPECT_EQ(end_of(client,
                   "{'1800000000', '500000'}, 250, {'1799999999', '500000'},"
                   "{'1799999999', '500001'}, 1250, {'1799999999', '500002'}"),
            "1800000000750 6");
  EXPECT_EQ(end_of(client, "{'1800000000', '0'}, -1, {'1800000000', '0'}"), "-1 3");
  for (const char* over : {"0", "-2"})
    EXPECT_EQ(end_of(client, "{'1800000000', '0'}, " + std::string(over) + ", {'1800000000', '0'}"),
              "0 3");
  std::string never;
  for (int i = 0; i < 100; ++i) never += "{'1800000000', '1000'}, 250, {'1800000000', '2000'},";
  EXPECT_EQ(end_of(client, never), "-1 300");
}

}  // namespace
}  // namespace sluice::redis::undo_window_test
