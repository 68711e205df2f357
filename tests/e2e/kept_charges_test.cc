// Charges with ids over HTTP to a server with a store on disk that is killed among them: each is
// counted once, whether its answer arrived or not.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/dice.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::kept_charges_test {
namespace {

using Json = nlohmann::json;

constexpr const char* json_type = "Content-Type: application/json\r\n";

class KeptCharges : public testing::Test {
 protected:
  void start() {
    process_.emplace(
        Process::Options{.arguments = {"serve", "--config", config_, "--data", data_,
                                       "--durability", "always", "--log-level", "warn"}});
    port_ = await_listening(*process_, "http");
  }
  void kill() {
    process_->signal(SIGKILL);
    EXPECT_EQ(process_->wait(), 128 + SIGKILL);
  }
  static std::string body_of(int64_t n, const std::string& id) {
    return Json{{"entries", {{"tenant", "t"}}}, {"n", n}, {"id", id}}.dump();
  }
  HttpAnswer charge(int64_t n, const std::string& id) const {
    return http(port_, "POST", "/v1/charge", body_of(n, id), json_type);
  }
  int64_t left() const {
    return Json::parse(
               http(port_, "POST", "/v1/peek", R"({"entries": {"tenant": "t"}, "n": 0})", json_type)
                   .body)
        .at("remaining")
        .get<int64_t>();
  }
  void stop() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(), 0);
  }

  Folder folder_;
  const std::string data_ = folder_.path() + "/data";
  const std::string config_ =
      folder_.write("sluice.yaml",
                    "listen: [{ protocol: http, address: \"127.0.0.1:0\" }]\n"
                    "rules:\n"
                    "  - { name: trial, match: { tenant: \"*\" }, actor: tenant, mode: shadow,\n"
                    "      limit: { quota: 1k, window: 10h, algorithm: fixed_window } }\n"
                    "  - { name: tokens, match: { tenant: \"*\" }, actor: tenant,\n"
                    "      limit: { quota: 1M, window: 10h, algorithm: fixed_window } }\n");
  std::optional<Process> process_;
  uint16_t port_ = 0;
};

TEST_F(KeptCharges, ARepeatedOneIsToldSoAfterAKill) {
  const std::string id = "0123456789abcdef-one";
  start();
  EXPECT_EQ(charge(25, id).status, 200);
  kill();
  start();
  const HttpAnswer again = charge(25, id);
  EXPECT_EQ(again.status, 200) << again.body;
  const Json told = Json::parse(again.body);
  EXPECT_EQ(told.at("charged"), 25);
  EXPECT_EQ(told.at("repeated"), true) << again.body;
  EXPECT_EQ(told.at("remaining"), 999'975) << again.body;
  EXPECT_EQ(charge(26, id).status, 409);
  EXPECT_EQ(left(), 999'975);
  stop();
}

TEST_F(KeptCharges, AreCountedOnceOverKills) {
  constexpr int kills = 6, charges = 40;
  Dice dice(20'261'130);
  int64_t sum = 0;
  int sent = 0;
  for (int run = 0; run < kills; ++run) {
    start();
    // The last of the charges has no answer when the server is killed.
    const int last = 1 + static_cast<int>(dice(charges));
    int64_t n = 0;
    std::string id;
    for (int i = 0; i < last; ++i) {
      n = 1 + static_cast<int64_t>(dice(9));
      id = "0123456789abcdef-" + std::to_string(++sent);
      sum += n;
      if (i + 1 == last) break;
      ASSERT_EQ(charge(n, id).status, 200);
    }
    std::thread client([&] {
      auto connection = TcpClient::connect(port_);
      const std::string body = body_of(n, id);
      if (connection)
        connection->send("POST /v1/charge HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                         std::to_string(body.size()) + "\r\n" + json_type + "\r\n" + body);
    });
    // The kill falls before, within or behind the charge.
    if (dice(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice(3'000)));
    kill();
    client.join();
    start();
    EXPECT_EQ(charge(n, id).status, 200);
    EXPECT_EQ(charge(n, id).status, 200);
    EXPECT_EQ(left(), 1'000'000 - sum);
    stop();
  }
}

}  // namespace
}  // namespace sluice::tests::kept_charges_test
