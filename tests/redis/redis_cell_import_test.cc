// `sluice store import-redis-cell` from a real Redis, and the real server on the folder that it
// wrote. The keys are written as redis-cell writes them: the theoretical arrival time in
// nanoseconds, with a life until then.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// One unit comes back in so many seconds: CL.THROTTLE k 4 1 100000.
constexpr int64_t unit_seconds = 100'000;

std::string tat_in(int64_t seconds) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return std::to_string(now.count() + seconds * 1'000'000'000);
}

class RedisCellImport : public testing::Test {
 protected:
  RedisCellImport() : client_(redis_.client()) {}

  RedisReply ask(const Words& words) {
    RedisReply reply = client_(words);
    EXPECT_FALSE(reply.is_error()) << words[0] << ": " << reply.text;
    return reply;
  }
  // A key of which so many units are used.
  void use(const std::string& key, int64_t units) { write(key, units * unit_seconds); }
  void write(const std::string& key, int64_t seconds) {
    ask({"SET", key, tat_in(seconds), "PX", std::to_string(seconds * 1000)});
  }
  Finished import(const Words& more, const std::string& database = "") const {
    Words words{"store",   "import-redis-cell",         dir(),
                "--redis", redis_.address() + database, "--match",
                "*"};
    words.insert(words.end(), more.begin(), more.end());
    return run({.arguments = words, .environment = environment_});
  }
  json import_json(Words more = {}, const std::string& database = "") const {
    more.emplace_back("--json");
    const auto finished = import(more, database);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return json::parse(finished.out, nullptr, false);
  }
  std::string dir() const { return folder_.path() + "/data"; }
  // The names of the commands that Redis has executed since CONFIG RESETSTAT. This test's own are
  // among them.
  std::string commands_of_the_tool() {
    std::string names;
    std::istringstream lines(ask({"INFO", "commandstats"}).text);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("cmdstat_")) names += line.substr(8, line.find(':') - 8) + " ";
    return names;
  }

  RedisServer redis_{{"--enable-debug-command", "local"}};
  RedisClient client_;
  Folder folder_;
  std::map<std::string, std::string> environment_;
};

// The real server on that folder. Its keys have 5 units.
class CellServer {
 public:
  explicit CellServer(const std::string& dir)
      : process_({.arguments = {"serve", "--listen", "resp=127.0.0.1:0", "--data", dir,
                                "--log-level", "warn"}}),
        client_(await_listening(process_, "resp")) {}
  // The reply's first three numbers: limited, limit, remaining.
  std::vector<int64_t> throttle(const std::string& key, const std::string& quantity = "0") {
    const RedisReply reply =
        client_({"CL.THROTTLE", key, "4", "1", std::to_string(unit_seconds), quantity});
    EXPECT_EQ(reply.list.size(), 5u) << reply.text;
    if (reply.list.size() != 5) return {};
    return {reply.list[0].number, reply.list[1].number, reply.list[2].number};
  }
  RedisReply operator()(const Words& words) { return client_(words); }

 private:
  Process process_;
  RedisClient client_;
};

using Three = std::vector<int64_t>;

// Without a password the import would log in as the default user.
TEST_F(RedisCellImport, AUserWithoutAPasswordIsRefused) {
  use("user:1", 1);
  const auto finished = import({"--redis-user", "bob"});
  EXPECT_EQ(finished.status, 2);
  EXPECT_NE(finished.err.find("--redis-user wants the password in REDISCLI_AUTH"),
            std::string::npos)
      << finished.err;
  EXPECT_FALSE(std::filesystem::exists(dir()));
}

TEST_F(RedisCellImport, ImportsOnlyUsedCounters) {
  use("user:1", 1);
  use("user:full", 5);
  use("debt", 9);
  use(std::string("odd|key\\ \xff\0", 11), 2);
  ask({"SET", "plain", tat_in(1000)});                   // never expires
  ask({"SET", "other", tat_in(1000), "PX", "9000000"});  // its life does not fit its time
  ask({"SET", "text", "hello"});
  ask({"SET", "short", "1234567890", "PX", "100000000"});
  ask({"SET", "long", std::string(100'000, '1'), "PX", "100000000"});
  ask({"RPUSH", "list", "1"});
  ask({"HSET", "hash", "a", "1"});
  ask({"ZADD", "sorted", "1", "a"});
  ask({"SADD", "set", "1"});
  ask({"SET", std::string(70'000, 'k'), "1"});
  ask({"CONFIG", "RESETSTAT"});

  const auto dry = import({"--dry-run"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_TRUE(dry.out.starts_with("14 keys found, 4 counters to import; nothing is written\n"))
      << dry.out;
  EXPECT_FALSE(std::filesystem::exists(dir()));

  const json told = import_json();
  EXPECT_EQ(told["keys"], 14);
  EXPECT_EQ(told["imported"], 4);
  EXPECT_EQ(told["there"], 0);
  const json skipped = told["skipped"];
  EXPECT_EQ(skipped["other_type"]["keys"], 4);
  EXPECT_EQ(skipped["other_type"]["first"].size(), 3u);
  EXPECT_EQ(skipped["no_number"]["keys"], 3);
  EXPECT_EQ(skipped["no_life"], json::parse(R"({"keys": 1, "first": ["plain"]})"));
  EXPECT_EQ(skipped["other_life"], json::parse(R"({"keys": 1, "first": ["other"]})"));
  EXPECT_EQ(skipped["expired"], json::parse(R"({"keys": 0, "first": []})"));
  EXPECT_EQ(skipped["long_key"]["keys"], 1);

  CellServer server(dir());
  EXPECT_EQ(server.throttle("user:1"), (Three{0, 5, 4}));
  EXPECT_EQ(server.throttle("user:full", "1"), (Three{1, 5, 0}));
  EXPECT_EQ(server.throttle("debt", "1"), (Three{1, 5, 0}));
  EXPECT_EQ(server.throttle(std::string("odd|key\\ \xff\0", 11), "2"), (Three{0, 5, 1}));
  for (const char* key : {"plain", "other", "text", "short", "long", "list"})
    EXPECT_EQ(server.throttle(key), (Three{0, 5, 5})) << key;
  // The time until no unit is used any more; the two programs took a while to start.
  const int64_t left = server({"TTL", "debt"}).number;
  EXPECT_LE(left, 9 * unit_seconds);
  EXPECT_GT(left, 8 * unit_seconds);
}

TEST_F(RedisCellImport, OnlyReadsRedis) {
  use("a", 1);
  ask({"SELECT", "3"});
  use("b", 2);
  ask({"RPUSH", "c", "1"});
  const std::string before = ask({"DEBUG", "DIGEST"}).text;
  ask({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(import_json({}, "/3")["imported"], 1);
  for (const char* name : {"scan", "type", "getrange", "pttl", "select"})
    EXPECT_NE(commands_of_the_tool().find(name), std::string::npos) << name;
  std::istringstream names(commands_of_the_tool());
  for (std::string name; names >> name;)
    EXPECT_TRUE(name == "scan" || name == "type" || name == "getrange" || name == "pttl" ||
                name == "select" || name == "config|resetstat" || name == "info")
        << name;
  EXPECT_EQ(ask({"DEBUG", "DIGEST"}).text, before);
  EXPECT_EQ(ask({"INFO", "errorstats"}).text.find("errorstat_"), std::string::npos);

  // The database is part of the counter's name.
  CellServer server(dir());
  EXPECT_EQ(server.throttle("b"), (Three{0, 5, 5}));
  server({"SELECT", "3"});
  EXPECT_EQ(server.throttle("b"), (Three{0, 5, 3}));
}

TEST_F(RedisCellImport, TakesTheKeysThatMatch) {
  for (int i = 0; i < 3000; ++i) use("user:" + std::to_string(i), 1 + i % 4);
  for (int i = 0; i < 3000; ++i) use("ip:" + std::to_string(i), 1);
  const auto finished = run({.arguments = {"store", "import-redis-cell", dir(), "--redis",
                                           redis_.address(), "--match", "user:*"}});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "3000 keys found, 3000 counters imported\n");
  CellServer server(dir());
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(server.throttle("user:" + std::to_string(i)), (Three{0, 5, 4 - i % 4})) << i;
    ASSERT_EQ(server.throttle("ip:" + std::to_string(i)), (Three{0, 5, 5})) << i;
  }
}

TEST_F(RedisCellImport, KeepsCountersThatTheStoreHas) {
  use("a", 1);
  use("b", 1);
  EXPECT_EQ(import_json()["imported"], 2);
  {
    CellServer server(dir());
    EXPECT_EQ(server.throttle("a", "2"), (Three{0, 5, 2}));
    const auto in_use = import({});
    EXPECT_EQ(in_use.status, 1);
    EXPECT_NE(in_use.err.find("is in use by"), std::string::npos) << in_use.err;
  }
  use("a", 5);
  use("c", 3);
  const json told = import_json();
  EXPECT_EQ(told["imported"], 1);
  EXPECT_EQ(told["there"], 2);
  CellServer server(dir());
  EXPECT_EQ(server.throttle("a"), (Three{0, 5, 2}));
  EXPECT_EQ(server.throttle("b"), (Three{0, 5, 4}));
  EXPECT_EQ(server.throttle("c"), (Three{0, 5, 2}));
}

TEST_F(RedisCellImport, ListsSkippedKeysWithTheReason) {
  use("user:1", 1);
  ask({"SET", "plain", tat_in(1000)});
  for (const char* key : {"list\x1b", "list2", "list3", "list4"}) ask({"RPUSH", key, "1"});
  const auto finished = import({});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(
      finished.out.starts_with("6 keys found, 1 counter imported\n"
                               "4 keys skipped: another type than a string (`list"))
      << finished.out;
  EXPECT_NE(finished.out.find("`, ...)\n1 key skipped: a number without a time to live "
                              "(`plain`)\n"),
            std::string::npos)
      << finished.out;
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos);
}

TEST_F(RedisCellImport, ReportsErrorsOfRedis) {
  use("a", 1);
  ask({"CONFIG", "SET", "requirepass", "open sesame"});
  const auto refused = import({});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("Redis at " + redis_.address() + ": it refuses: NOAUTH"),
            std::string::npos)
      << refused.err;
  environment_["REDISCLI_AUTH"] = "open sesame";
  EXPECT_EQ(import_json()["imported"], 1);
  // A user that may read these keys, and nothing else.
  ask({"ACL", "SETUSER", "reader", "on", ">open sesame", "~*", "-@all", "+scan", "+type",
       "+getrange", "+pttl"});
  EXPECT_EQ(import_json({"--redis-user", "reader"})["there"], 1);
  ask({"ACL", "SETUSER", "reader", "-type"});
  const auto forbidden = import({"--redis-user", "reader"});
  EXPECT_EQ(forbidden.status, 1);
  EXPECT_NE(forbidden.err.find("it refuses: NOPERM"), std::string::npos) << forbidden.err;

  redis_.stop();
  const auto nobody = import({});
  EXPECT_EQ(nobody.status, 1);
  EXPECT_NE(nobody.err.find("cannot connect to"), std::string::npos) << nobody.err;
}

}  // namespace
}  // namespace sluice::tests
