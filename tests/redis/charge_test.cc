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
                                             "sliding_window", "sliding_log",    "fixed_bucket",
                                             "concurrency"};

std::string window_of(const std::string& name) {
  if (name == "fixed_bucket") return "";
  return name == "concurrency" ? ", lease: 30d" : ", window: 30d";
}

// A rule of each algorithm: 100 units of each actor under the key of that name.
std::string rules() {
  std::string text = "rules:\n";
  for (const std::string& name : algorithms) {
    const std::string window = window_of(name);
    text += "  - { name: " + name + ", match: { " + name + ": \"*\" }, actor: " + name +
            ", limit: { quota: 100, algorithm: " + name + window + " } }\n";
  }
  return text;
}

// The same under other keys, with an overdraft.
std::string bounded_rules(int64_t overdraft) {
  std::string text;
  for (const std::string& name : algorithms) {
    const std::string window = window_of(name);
    text += "  - { name: owes-" + name + ", match: { owes-" + name + ": \"*\" }, actor: owes-" +
            name + ", limit: { quota: 100, over: count, overdraft: " + std::to_string(overdraft) +
            ", algorithm: " + name + window + " } }\n";
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
    config_ = folder_.write("sluice.yaml", settings_ + store + rules() + bounded_rules(20));
    store_ = store;
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

  // Rules with another overdraft, by a reload.
  void reload(int64_t overdraft) {
    folder_.write("sluice.yaml", settings_ + store_ + rules() + bounded_rules(overdraft));
    process_->signal(SIGHUP);
    EXPECT_TRUE(process_->says("policy generation 2,")) << process_->err();
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
  HttpAnswer override_of(const Json& body) const {
    return http(admin_, "POST", "/v1/overrides", body.dump(), "Content-Type: application/json\r\n");
  }
  uint16_t http_port() const { return http_; }
  uint16_t resp_port() const { return resp_; }

 private:
  void start() {
    process_ = std::make_unique<Process>(Process::Options{.arguments = arguments_});
    http_ = await_listening(*process_, "http");
    resp_ = await_listening(*process_, "resp");
    admin_ = await_listening(*process_, "admin");
  }

  Folder folder_;
  std::unique_ptr<RedisServer> redis_;
  std::string config_;
  std::vector<std::string> arguments_;
  std::unique_ptr<Process> process_;
  uint16_t http_ = 0, resp_ = 0, admin_ = 0;
  const std::string settings_ =
      "listen:\n"
      "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: admin, address: \"127.0.0.1:0\" }\n";
  std::string store_;
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
    ASSERT_EQ(last.size(), 7u) << name;
    EXPECT_EQ(last[0], 0) << name;
    EXPECT_GE(last[5], 14) << name;
    EXPECT_LE(last[5], 15) << name;
    EXPECT_EQ(last[6], 25) << name;
  }
}

// An override keeps the overdraft of its rule; a reload that changes it keeps the counters.
TEST_P(Charges, OweNoMoreThanTheOverdraft) {
  Server server(GetParam());
  RespClient client(server.resp_port());
  const auto charge = [&](const std::string& name, const std::string& actor, int64_t n) {
    return server.answer("/v1/charge", {{"entries", {{"owes-" + name, actor}}}, {"n", n}});
  };
  for (const std::string& name : algorithms) {
    SCOPED_TRACE(name);
    const Json past = charge(name, "a", 500);
    EXPECT_EQ(past["charged"], 120) << past;
    EXPECT_EQ(past["over"], true) << past;
    const int64_t debt = past["debt"];
    EXPECT_LE(debt, 20);
    EXPECT_GE(debt, 19);
    const auto again = integers(client, {"SLUICE.CHARGE", "owes-" + name + "=a", "N", "50"});
    ASSERT_EQ(again.size(), 7u);
    EXPECT_EQ(again[0], 0);
    EXPECT_LE(again[5], 20);
    // A hit that is refused counts as far.
    server.answer("/v1/take", {{"entries", {{"owes-" + name, "b"}}}, {"n", 101}}, 429);
    EXPECT_LE(charge(name, "b", 0)["debt"], 1);
    server.answer("/v1/take", {{"entries", {{"owes-" + name, "b"}}}, {"n", 500}}, 429);
    EXPECT_LE(charge(name, "b", 0)["debt"], 20);
    EXPECT_GE(charge(name, "b", 0)["debt"], 19);
    Json instead{{"quota", 200}, {"algorithm", name}};
    if (name != "fixed_bucket") instead[name == "concurrency" ? "lease" : "window"] = "30d";
    Json set{{"rule", "owes-" + name}, {"actor", "c"}, {"limit", instead}};
    EXPECT_EQ(server.override_of(set).status, 201);
    EXPECT_EQ(charge(name, "c", 500)["charged"], 220);
    set["limit"]["overdraft"] = 3;
    EXPECT_EQ(server.override_of(set).status, 422);
  }
  const Json along{{"key", "k"},
                   {"limits", Json::array({{{"quota", 10}, {"window", "30d"}, {"overdraft", 0}}})},
                   {"n", 25}};
  EXPECT_EQ(server.answer("/v1/charge", along)["charged"], 10);
  const auto there = integers(
      client, {"SLUICE.CHARGE", "KEY", "j", "LIMIT", "10", "30d", "OVERDRAFT", "3", "N", "25"});
  ASSERT_EQ(there.size(), 7u);
  EXPECT_EQ(there[5], 3);
  EXPECT_EQ(there[6], 13);
  server.reload(25);
  for (const std::string& name : algorithms) {
    SCOPED_TRACE(name);
    const Json more = charge(name, "a", 500);
    EXPECT_GE(more["charged"], 5) << more;
    EXPECT_LE(more["charged"], 6) << more;
    EXPECT_EQ(charge(name, "d", 500)["charged"], 125);
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
      (std::vector<int64_t>{1, 100, 40, 0, -1, 0, 60}));
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
