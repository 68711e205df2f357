// Counters as keys of the Redis protocol, with the real program on each store: the counters of the
// throttle commands and of inline limits.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/process.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_client.h"

namespace sluice::tests {
namespace {

class RespKeys : public testing::TestWithParam<const char*> {
 protected:
  RespKeys() {
    folder_.write("all.token", std::string(43, 'x'));
    std::string store;
    if (GetParam() == std::string("durable")) store = "store: { path: data, durability: always }\n";
    if (GetParam() == std::string("redis")) {
      redis_ = std::make_unique<RedisServer>();
      store = "store: { redis: { nodes: [\"" + redis_->address() + "\"], deadline_ms: 20000 } }\n";
    }
    file_ = folder_.write(
        "sluice.yaml",
        "listen: [{ protocol: resp, address: \"127.0.0.1:0\" }]\n" + store +
            "rules: [{ match: { command: throttle, key: 'ruled*' }, limit: { quota: 3, window: 1h, "
            "algorithm: "
            "fixed_window }, then: continue }]\n"
            "users: [{ name: default, token_file: all.token, rights: [take, put, look, "
            "admin] }]\n");
    start();
  }
  ~RespKeys() override { stop(); }
  void start() {
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", file_, "--log-level", "warn"}});
    port_ = await_listening(*process_, "resp");
    client_ = std::make_unique<RespClient>(port_);
    EXPECT_EQ(ask("AUTH " + std::string(43, 'x')), "OK");
  }
  void stop() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
  }
  std::string ask(const std::string& command) {
    std::vector<std::string> words;
    std::istringstream text(command);
    for (std::string word; text >> word;) words.push_back(word);
    return to_text((*client_)(words));
  }
  std::string take(const std::string& key, const std::string& limits) {
    return ask("SLUICE.TAKE KEY " + key + " " + limits);
  }

  Folder folder_;
  std::string file_;
  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
  std::unique_ptr<RespClient> client_;
};

TEST_P(RespKeys, ShowsInlineCounters) {
  EXPECT_EQ(ask("EXISTS a"), "0");
  EXPECT_EQ(ask("TTL a"), "-2");
  take("a", "LIMIT 2 1h");
  EXPECT_EQ(ask("EXISTS a"), "1");
  EXPECT_EQ(ask("TTL a"), "1800") << "by the limits that it was written under";
  take("a", "LIMIT 1000 1h");  // another quota, the same counter
  EXPECT_EQ(ask("EXISTS a"), "1");
  take("a", "LIMIT 5 2h ALGORITHM fixed_window");
  EXPECT_EQ(ask("EXISTS a"), "1");
  EXPECT_EQ(ask("TTL a"), "7200") << "the longest";
  ask("CL.THROTTLE a 4 1 60");
  EXPECT_EQ(ask("EXISTS a a b"), "4");
  EXPECT_EQ(ask("DEL b a"), "2");
  EXPECT_EQ(ask("EXISTS a"), "0");
  EXPECT_EQ(ask("TTL a"), "-2");
  EXPECT_EQ(take("a", "LIMIT 2 1h N 2").substr(0, 3), "[1,") << "it is a fresh one";
}

TEST_P(RespKeys, ShowsCountersOfEachAlgorithm) {
  const std::vector<std::string> limits{"LIMIT 7 1h",
                                        "LIMIT 7 1h BURST 20",
                                        "LIMIT 7 1h ALGORITHM fixed_window",
                                        "LIMIT 7 1h ALGORITHM aligned_window",
                                        "LIMIT 7 1h ALGORITHM sliding_window",
                                        "LIMIT 7 1h ALGORITHM sliding_log",
                                        "LIMIT 7 1h LIMIT 3 1m ALGORITHM sliding_log"};
  for (size_t i = 0; i < limits.size(); ++i) {
    const std::string key = "k" + std::to_string(i);
    take(key, limits[i]);
    EXPECT_EQ(ask("EXISTS " + key), "1") << limits[i];
    // The time to the reset, in milliseconds.
    const RespValue peek = (*client_)({"PTTL", key});
    EXPECT_GT(peek.number, 0) << limits[i];
    EXPECT_LE(peek.number, 7'200'000) << limits[i];
    EXPECT_EQ(ask("DEL " + key), "1") << limits[i];
    EXPECT_EQ(ask("EXISTS " + key), "0") << limits[i];
  }
}

TEST_P(RespKeys, ShowsAFixedBucket) {
  const std::string bucket = "LIMIT 5 0 ALGORITHM fixed_bucket";
  take("other", bucket);
  EXPECT_EQ(ask("SLUICE.PEEK KEY x " + bucket), "[1, 5, 4, 0, -1]");
  EXPECT_EQ(ask("EXISTS x"), "0");
  EXPECT_EQ(ask("TTL x"), "-2");
  EXPECT_EQ(ask("DEL x"), "0");
  EXPECT_EQ(ask("SLUICE.RESET KEY x " + bucket), "0");
  take("x", bucket);
  EXPECT_EQ(ask("EXISTS x"), "1");
  EXPECT_EQ(ask("TTL x"), "-1");
  EXPECT_EQ(ask("PTTL x"), "-1");
  EXPECT_EQ(ask("DEL x"), "1");
  EXPECT_EQ(ask("EXISTS x"), "0");
}

// A rule of the policy that also applies to such a request has its own counter, which is not a key.
TEST_P(RespKeys, AreNotTheCountersOfAPolicysRules) {
  for (const char* key : {"ruled1", "ruled2", "ruled3"})
    EXPECT_EQ((*client_)({"THROTTLE", key, "9", "1", "60"}).list[0].number, 1);
  EXPECT_EQ(ask("EXISTS ruled"), "0");
  EXPECT_EQ(ask("DEL ruled ruled1"), "1");
  EXPECT_EQ((*client_)({"THROTTLE", "ruled4", "9", "1", "60"}).list[0].number, 0);
}

class RespKeysKept : public RespKeys {};

TEST_P(RespKeysKept, ExistAfterARestart) {
  take("a", "LIMIT 2 1h");
  take("a", "LIMIT 5 0 ALGORITHM fixed_bucket");
  ask("CL.THROTTLE a 4 1 3600");
  stop();
  start();
  EXPECT_EQ(ask("EXISTS a"), "2");
  EXPECT_EQ(ask("DEL a"), "2");
  EXPECT_EQ(ask("EXISTS a"), "0");
}

INSTANTIATE_TEST_SUITE_P(On, RespKeysKept, testing::Values("durable"),
                         [](const auto& tested) { return std::string(tested.param); });
INSTANTIATE_TEST_SUITE_P(On, RespKeys, testing::Values("memory", "durable", "redis"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace sluice::tests
