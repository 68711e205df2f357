// Several real servers with one Redis: a charge that is sent again to any of them, over HTTP or the
// Redis protocol, is charged once and answered as the first time, also after a kill.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::charge_servers_test {
namespace {

using Json = nlohmann::json;

class Server {
 public:
  explicit Server(const RedisServer& redis)
      : config_(folder_.write(
            "sluice.yaml",
            "listen:\n"
            "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
            "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
            "store: { redis: { nodes: [\"" +
                redis.address() +
                "\"], deadline_ms: 20000 } }\n"
                "rules:\n"
                "  - { name: tried, match: { tenant: \"*\" }, actor: tenant, mode: shadow, limit: "
                "{ "
                "quota: 100, window: 30d, algorithm: sliding_log } }\n"
                "  - { name: tokens, match: { tenant: \"*\" }, actor: tenant, limit: { quota: 100, "
                "window: 30d, algorithm: fixed_window } }\n")) {
    start();
  }
  ~Server() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(), 0);
  }
  void kill_and_start() {
    process_->signal(SIGKILL);
    process_->wait();
    start();
  }
  Json charge(const Json& body, int status = 200) const {
    const HttpAnswer got =
        http(http_, "POST", "/v1/charge", body.dump(), "Content-Type: application/json\r\n");
    EXPECT_EQ(got.status, status) << got.body;
    return Json::parse(got.body);
  }
  // The reply's integers, or its error.
  std::string command(const std::vector<std::string>& words) const {
    const RespValue reply = RespClient(resp_)(words);
    std::string text = reply.text;
    for (const RespValue& item : reply.list) text += std::to_string(item.number) + " ";
    return text;
  }

 private:
  void start() {
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", config_, "--log-level", "info"}});
    http_ = await_listening(*process_, "http");
    resp_ = await_listening(*process_, "resp");
    process_->says(": connected");
  }

  Folder folder_;
  std::string config_;
  std::unique_ptr<Process> process_;
  uint16_t http_ = 0, resp_ = 0;
};

TEST(ChargesOfServers, SentToAnotherServerAreCountedOnce) {
  const RedisServer redis;
  Server first(redis);
  const Server second(redis);
  const Json body{{"entries", {{"tenant", "a"}}}, {"n", 130}, {"id", "charge-0000-0001"}};
  const Json answer = first.charge(body);
  EXPECT_EQ(answer["charged"], 130);
  EXPECT_EQ(answer["debt"], 30);
  EXPECT_FALSE(answer.contains("repeated"));
  for (int i = 0; i < 2; ++i) {
    Json again = second.charge(body);
    EXPECT_EQ(again["repeated"], true);
    again.erase("repeated");
    EXPECT_EQ(again, answer);
  }
  first.kill_and_start();
  EXPECT_EQ(first.charge(body)["repeated"], true);
  Json other = body;
  other["n"] = 131;
  EXPECT_EQ(second.charge(other, 409)["type"], "urn:sluice:problem:id-in-use");
  first.kill_and_start();
  EXPECT_EQ(first.charge(other, 409)["type"], "urn:sluice:problem:id-in-use");
  EXPECT_EQ(second.charge({{"entries", {{"tenant", "a"}}}, {"n", 0}})["debt"], 30);
  // The shadow rule was charged once as well.
  EXPECT_EQ(redis.client()({"KEYS", "sluice:shadow_id:*charge-0000-0001"}).list.size(), 1u);
}

TEST(ChargesOfServers, SentAgainOverTheRedisProtocolAreCountedOnce) {
  const RedisServer redis;
  const Server first(redis), second(redis);
  const std::vector<std::string> command{"SLUICE.CHARGE", "tenant=a", "N",
                                         "130",           "ID",       "charge-0000-0002"};
  const std::string reply = first.command(command);
  EXPECT_TRUE(reply.starts_with("0 100 0 ")) << reply;
  EXPECT_EQ(second.command(command), reply);
  EXPECT_EQ(
      second.charge(
          {{"entries", {{"tenant", "a"}}}, {"n", 130}, {"id", "charge-0000-0002"}})["repeated"],
      true);
  const std::string other =
      second.command({"SLUICE.CHARGE", "tenant=a", "N", "131", "ID", "charge-0000-0002"});
  EXPECT_EQ(other,
            first.command({"SLUICE.CHARGE", "tenant=a", "N", "131", "ID", "charge-0000-0002"}));
  EXPECT_NE(other.find("another"), std::string::npos) << other;
}

}  // namespace
}  // namespace sluice::tests::charge_servers_test
