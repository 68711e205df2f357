// A protocol that one folder and one line add (tests/toy), in the real program: it is served over a
// socket, asked by `sluice ask`, counted by its name, explained, named in the OpenAPI document and
// overridden. No other code was written for it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

class Toy : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("toy_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "sluice.yaml")
        << "listen:\n- { protocol: toy, address: \"127.0.0.1:0\" }\n"
           "- { protocol: admin, address: \"127.0.0.1:0\" }\n"
           "rules:\n- { name: each, match: { key: '*' }, actor: key, limit: { quota: 2, window: "
           "1h, algorithm: fixed_window } }\n";
    server_.emplace(Process::Options{.arguments = {"serve", "--config", "sluice.yaml"},
                                     .folder = folder_.string()},
                    SLUICE_TOY_BINARY);
    while (toy_ == 0 || admin_ == 0) {
      const auto line = server_->read_line();
      ASSERT_TRUE(line) << "the server ended";
      if (line->starts_with("sluice: toy listening on ")) toy_ = port_in(*line);
      if (line->starts_with("sluice: admin listening on ")) admin_ = port_in(*line);
    }
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  static uint16_t port_in(const std::string& line) {
    return static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }
  // What `sluice ask toy KEY` prints, and its exit status.
  std::pair<std::string, int> ask(const std::string& key) const {
    Process asked({.arguments = {"ask", "toy", "--timeout", "60000", "--server",
                                 "127.0.0.1:" + std::to_string(toy_), key}},
                  SLUICE_TOY_BINARY);
    const int status = asked.wait().value_or(-1);
    return {asked.out(), status};
  }

  std::filesystem::path folder_;
  std::optional<Process> server_;
  uint16_t toy_ = 0, admin_ = 0;
};

TEST_F(Toy, IsServedAndAsked) {
  EXPECT_EQ(ask("a"), std::pair(std::string("yes 1\n"), 0));
  EXPECT_EQ(ask("a"), std::pair(std::string("yes 0\n"), 0));
  EXPECT_EQ(ask("a"), std::pair(std::string("no 0\n"), 1));
  EXPECT_EQ(ask("b"), std::pair(std::string("yes 1\n"), 0));
}

TEST_F(Toy, IsCountedByItsName) {
  ask("a");
  EXPECT_EQ(
      sample(admin_, "sluice_requests_total{protocol=\"toy\",verb=\"take\",outcome=\"allowed\"}"),
      "1");
  EXPECT_EQ(
      sample(admin_, "sluice_decisions_total{protocol=\"toy\",rule=\"each\",outcome=\"allowed\"}"),
      "1");
}

TEST_F(Toy, IsExplained) {
  const HttpAnswer said =
      http(admin_, "POST", "/v1/explain", R"({"protocol": "toy", "descriptor": {"key": "a"}})");
  ASSERT_EQ(said.status, 200) << said.body;
  EXPECT_EQ(Json::parse(said.body).at("rules").at(0).at("rule"), "each") << said.body;
  const HttpAnswer other =
      http(admin_, "POST", "/v1/explain", R"({"protocol": "toys", "descriptor": {"key": "a"}})");
  EXPECT_EQ(other.status, 422);
  EXPECT_NE(other.body.find("toy"), std::string::npos) << "the list of names has it";
}

TEST_F(Toy, IsDescribed) {
  const Json document = Json::parse(http(admin_, "GET", "/v1/openapi.json", "").body);
  size_t lists = 0;
  const std::function<void(const Json&)> look = [&](const Json& json) {
    if (json.is_object() && json.value("x-sluice-list", "") == "protocols") {
      const Json& names = json["enum"];
      EXPECT_NE(std::find(names.begin(), names.end(), "toy"), names.end()) << names;
      ++lists;
    }
    for (const Json& below : json)
      if (below.is_structured()) look(below);
  };
  look(document);
  EXPECT_EQ(lists, 1u);
}

TEST_F(Toy, IsOverridden) {
  const HttpAnswer said =
      http(admin_, "POST", "/v1/overrides",
           R"({"rule": "each", "actor": "vip*", "limit": {"quota": 9, "window": "1h"}})");
  ASSERT_TRUE(said.status == 200 || said.status == 201) << said.body;
  const auto deadline = soon();
  // Each worker sees the override a moment later.
  size_t asked = 0;
  while (ask("vip" + std::to_string(asked++)).first != "yes 8\n")
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_EQ(ask("other").first, "yes 1\n");
}

}  // namespace
}  // namespace sluice::tests
