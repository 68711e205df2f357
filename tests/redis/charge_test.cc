// Charges over HTTP and the Redis protocol of the real server, with its counters in memory, on disk
// and in a real Redis: "look, work, charge" ends after the first charge that passes the limit, a
// charge that is sent again is counted once over both protocols, and `sluice ask` says how it
// ended.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::charge_test {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> algorithms = {"fixed_window",   "aligned_window", "token_bucket",
                                             "sliding_window", "sliding_log",    "fixed_bucket"};

// A rule of each algorithm: 100 units of each actor under the key of that name.
std::string rules() {
  std::string text = "rules:\n";
  for (const std::string& name : algorithms) {
    const std::string window = name == "fixed_bucket" ? "" : ", window: 30d";
    text += "  - { name: " + name + ", match: { " + name + ": \"*\" }, actor: " + name +
            ", limit: { quota: 100, algorithm: " + name + window + " } }\n";
  }
  return text;
}

enum class Where : uint8_t { memory, disk, redis };

// A server that listens for both protocols.
class Server {
 public:
  explicit Server(Where where) {
    std::string store;
    if (where == Where::redis) {
      redis_ = std::make_unique<RedisServer>();
      store = "store: { redis: { nodes: [\"" + redis_->address() + "\"], deadline_ms: 20000 } }\n";
    }
    config_ = folder_.write("sluice.yaml",
                            "listen:\n"
                            "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
                            "  - { protocol: resp, address: \"127.0.0.1:0\" }\n" +
                                store + rules());
    arguments_ = {"serve", "--config", config_, "--log-level", "info"};
    if (where == Where::disk) {
      for (const char* word : {"--durability", "always", "--data"}) arguments_.emplace_back(word);
      arguments_.push_back(folder_.path() + "/data");
    }
    start();
    if (where == Where::redis) process_->says(": connected");
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
  HttpAnswer post(const std::string& path, const Json& body) const {
    return http(http_, "POST", path, body.dump(), "Content-Type: application/json\r\n");
  }
  Json answer(const std::string& path, const Json& body, int status = 200) const {
    const HttpAnswer got = post(path, body);
    EXPECT_EQ(got.status, status) << got.body;
    return Json::parse(got.body);
  }
  uint16_t http_port() const { return http_; }
  uint16_t resp_port() const { return resp_; }

 private:
  void start() {
    process_ = std::make_unique<Process>(Process::Options{.arguments = arguments_});
    http_ = await_listening(*process_, "http");
    resp_ = await_listening(*process_, "resp");
  }

  Folder folder_;
  std::unique_ptr<RedisServer> redis_;
  std::string config_;
  std::vector<std::string> arguments_;
  std::unique_ptr<Process> process_;
  uint16_t http_ = 0, resp_ = 0;
};

// The integers of a reply; none if it is an error.
std::vector<int64_t> integers(RespClient& client, const std::vector<std::string>& words) {
  std::vector<int64_t> numbers;
  for (const RespValue& item : client(words).list) numbers.push_back(item.number);
  return numbers;
}

class Charges : public testing::TestWithParam<Where> {};

TEST_P(Charges, ALookBeforeTheWorkRefusesAfterTheFirstChargePastEachLimitOverHttp) {
  const Server server(GetParam());
  for (const std::string& name : algorithms) {
    const Json one{{"entries", {{name, "http"}}}};
    const auto with = [&](int64_t n) {
      Json body = one;
      body["n"] = n;
      return body;
    };
    EXPECT_EQ(server.answer("/v1/take", with(90))["allowed"], true) << name;
    int streams = 0;
    Json last;
    while (streams < 10 && server.answer("/v1/peek", one)["allowed"] == true) {
      ++streams;
      last = server.answer("/v1/charge", with(25));
    }
    EXPECT_EQ(streams, 1) << name;
    EXPECT_EQ(last["charged"], 25) << name << last;
    EXPECT_EQ(last["over"], true) << name << last;
    EXPECT_EQ(last["remaining"], 0) << name << last;
    EXPECT_GE(last["debt"], 14) << name << last;
    EXPECT_LE(last["debt"], 15) << name << last;
    server.answer("/v1/take", with(0), 429);
  }
}

TEST_P(Charges, ALookBeforeTheWorkRefusesAfterTheFirstChargePastEachLimitOverResp) {
  const Server server(GetParam());
  RespClient client(server.resp_port());
  for (const std::string& name : algorithms) {
    const std::string subject = name + "=resp";
    EXPECT_EQ(integers(client, {"SLUICE.TAKE", subject, "N", "90"}).at(0), 1) << name;
    int streams = 0;
    std::vector<int64_t> last;
    while (streams < 10 && integers(client, {"SLUICE.PEEK", subject}).at(0) == 1) {
      ++streams;
      last = integers(client, {"SLUICE.CHARGE", subject, "N", "25"});
    }
    EXPECT_EQ(streams, 1) << name;
    ASSERT_EQ(last.size(), 6u) << name;
    EXPECT_EQ(last[0], 0) << name;
    EXPECT_GE(last[5], 14) << name;
    EXPECT_LE(last[5], 15) << name;
  }
}

TEST_P(Charges, SentAgainOverEitherProtocolAreCountedOnce) {
  const Server server(GetParam());
  RespClient client(server.resp_port());
  const Json body{{"entries", {{"fixed_bucket", "a"}}}, {"n", 60}, {"id", "charge-0000-0001"}};
  const Json first = server.answer("/v1/charge", body);
  EXPECT_EQ(first["over"], false);
  EXPECT_FALSE(first.contains("repeated"));
  EXPECT_EQ(
      integers(client, {"SLUICE.CHARGE", "fixed_bucket=a", "N", "60", "ID", "charge-0000-0001"}),
      (std::vector<int64_t>{1, 100, 40, 0, -1, 0}));
  Json again = server.answer("/v1/charge", body);
  EXPECT_EQ(again["repeated"], true);
  again.erase("repeated");
  EXPECT_EQ(again, first);
  Json other = body;
  other["n"] = 61;
  EXPECT_EQ(server.answer("/v1/charge", other, 409)["type"], "urn:sluice:problem:id-in-use");
  EXPECT_EQ(integers(client, {"SLUICE.PEEK", "fixed_bucket=a", "N", "0"}).at(2), 40);
}

TEST_P(Charges, AnAskedChargeEndsWith1IfALimitIsInDebt) {
  const Server server(GetParam());
  const auto ask = [](const std::string& protocol, uint16_t port, std::vector<std::string> words) {
    words.insert(words.begin(), {"ask", protocol, "--timeout", "20000", "--server",
                                 "127.0.0.1:" + std::to_string(port)});
    const auto finished = run({.arguments = words});
    return std::to_string(finished.status) + " " + finished.out + finished.err;
  };
  const auto by_http = [&](const std::vector<std::string>& words) {
    return ask("http", server.http_port(), words);
  };
  const auto by_resp = [&](const std::vector<std::string>& words) {
    return ask("resp", server.resp_port(), words);
  };
  EXPECT_EQ(by_http({"charge", "--n", "90", "fixed_bucket=b"}),
            "0 within: 10 of 100 left (rule fixed_bucket)\n");
  EXPECT_EQ(by_http({"charge", "--n", "25", "--id", "charge-0000-0002", "fixed_bucket=b"}),
            "1 over: 15 beyond 100, and waiting does not help (rule fixed_bucket)\n");
  EXPECT_EQ(by_http({"charge", "--n", "25", "--id", "charge-0000-0002", "fixed_bucket=b"}),
            "1 over: 15 beyond 100, and waiting does not help, charged before (rule "
            "fixed_bucket)\n");
  EXPECT_EQ(by_resp({"charge", "fixed_bucket=b", "WITHNAME"}),
            "1 over: 16 beyond 100, and waiting does not help (rule fixed_bucket)\n");
  EXPECT_EQ(by_resp({"charge", "fixed_bucket=c"}), "0 within: 99 of 100 left\n");
  EXPECT_TRUE(by_http({"take", "--id", "charge-0000-0002", "fixed_bucket=b"}).starts_with("2 "));
}

std::string name_of(const testing::TestParamInfo<Where>& store) {
  constexpr const char* names[] = {"Memory", "Disk", "Redis"};
  return names[static_cast<size_t>(store.param)];
}

INSTANTIATE_TEST_SUITE_P(Stores, Charges, testing::Values(Where::memory, Where::disk, Where::redis),
                         name_of);

// What was answered survives a kill. The ids do not, and the page says so.
TEST(ChargesOnDisk, KeepTheirDebtAfterAKill) {
  Server server(Where::disk);
  for (const std::string& name : algorithms)
    EXPECT_EQ(server.answer("/v1/charge", {{"entries", {{name, "d"}}}, {"n", 150}})["debt"], 50)
        << name;
  server.kill_and_start();
  for (const std::string& name : algorithms) {
    const Json look = server.answer("/v1/charge", {{"entries", {{name, "d"}}}, {"n", 0}});
    EXPECT_EQ(look["over"], true) << name << look;
    EXPECT_GE(look["debt"], 49) << name << look;
  }
}

}  // namespace
}  // namespace sluice::tests::charge_test
