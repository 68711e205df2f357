// A protocol that plans its own charges (tests/planner) in the real program, where one folder and
// one line add it: its rules decide together with native ones, are explained and listed, and what
// waits under them is planned again when an override or a reload comes. No other code was written
// for it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/comes.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

class PlannerToy : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("planner_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    write_rules(3);
    server_.emplace(Process::Options{.arguments = {"serve", "--config", "sluice.yaml"},
                                     .folder = folder_.string()},
                    SLUICE_TOY_BINARY);
    while (planner_ == 0 || admin_ == 0) {
      const auto line = server_->read_line();
      ASSERT_TRUE(line) << "the server ended";
      if (line->starts_with("sluice: planner listening on ")) planner_ = port_in(*line);
      if (line->starts_with("sluice: admin listening on ")) admin_ = port_in(*line);
    }
    client_ = TcpClient::connect(planner_);
    ASSERT_TRUE(client_);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  // With a native rule of that quota for everybody.
  void write_rules(int quota) const {
    const std::string path = (folder_ / "sluice.yaml").string();
    std::ofstream(path + ".new") << "listen:\n- { protocol: planner, address: \"127.0.0.1:0\" }\n"
                                    "- { protocol: admin, address: \"127.0.0.1:0\" }\n"
                                    "rules:\n- { name: all, match: { who: '*' }, limit: { quota: "
                                 << quota << ", window: 1h, algorithm: fixed_window } }\n";
    std::filesystem::rename(path + ".new", path);
  }
  static uint16_t port_in(const std::string& line) {
    return static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }

  std::filesystem::path folder_;
  std::optional<Process> server_;
  std::optional<TcpClient> client_;
  uint16_t planner_ = 0, admin_ = 0;
};

// All or nothing: what the native rule refuses is not charged to the planned counter.
TEST_F(PlannerToy, ItsRulesDecideTogetherWithNativeOnes) {
  EXPECT_EQ(client_->ask("take small a"), "yes 1");
  EXPECT_EQ(client_->ask("take small a"), "yes 0");
  EXPECT_EQ(client_->ask("take small a"), "no 0");
  EXPECT_EQ(client_->ask("take other a"), "yes 0");  // by the native rule alone
  EXPECT_EQ(client_->ask("take large b"), "no 0");
  const HttpAnswer said = http(admin_, "GET", "/v1/counters?prefix=planner:", "");
  EXPECT_NE(said.body.find("planner:small:@a"), std::string::npos) << said.body;
  EXPECT_EQ(said.body.find("planner:large:@b"), std::string::npos) << said.body;
  EXPECT_EQ(sample(admin_,
                   "sluice_decisions_total{protocol=\"planner\",rule=\"small\",outcome="
                   "\"denied\"}"),
            "1");
}

TEST_F(PlannerToy, IsExplained) {
  const HttpAnswer said =
      http(admin_, "POST", "/v1/explain",
           R"({"protocol": "planner", "descriptor": {"tier": "large", "who": "b"}})");
  ASSERT_EQ(said.status, 200) << said.body;
  const Json rules = Json::parse(said.body).at("rules");
  ASSERT_EQ(rules.size(), 2u) << said.body;
  EXPECT_EQ(rules.at(0).at("rule"), "all");
  EXPECT_EQ(rules.at(1).at("rule"), "large");
  const HttpAnswer none =
      http(admin_, "POST", "/v1/explain",
           R"({"protocol": "planner", "descriptor": {"tier": "huge", "who": "b"}})");
  EXPECT_EQ(Json::parse(none.body).at("rules").size(), 1u) << none.body;
}

TEST_F(PlannerToy, AWaitIsPlannedAgainUnderAnOverride) {
  EXPECT_EQ(client_->ask("take small a"), "yes 1");
  EXPECT_EQ(client_->ask("take small a"), "yes 0");
  ASSERT_TRUE(client_->send("wait small a\n"));
  ASSERT_TRUE(comes([&] { return sample(admin_, "sluice_waiting_requests") == "1"; }));
  const HttpAnswer said =
      http(admin_, "POST", "/v1/overrides",
           R"({"rule": "small", "actor": "a", "limit": {"quota": 9, "window": "1h"}})");
  ASSERT_TRUE(said.status == 200 || said.status == 201) << said.body;
  // The tightest is the native rule, of whose three units this is the last.
  EXPECT_EQ(client_->read_line(), "yes 0");
}

TEST_F(PlannerToy, AWaitIsPlannedAgainUnderAnotherPolicy) {
  for (const char* const left : {"yes 2", "yes 1", "yes 0"})
    EXPECT_EQ(client_->ask("take large a"), left);
  ASSERT_TRUE(client_->send("wait large a\n"));
  ASSERT_TRUE(comes([&] { return sample(admin_, "sluice_waiting_requests") == "1"; }));
  write_rules(30);
  // Of the five units of the planned rule one is left.
  EXPECT_EQ(client_->read_line(), "yes 1");
}

}  // namespace
}  // namespace sluice::tests
