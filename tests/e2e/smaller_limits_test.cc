// What the real server answers about a counter of which more was taken than its limit allows,
// because a reload or an override made the limit smaller: 0 units are left, never less, on every
// protocol whose original has no negative number. (limitd's and droplet's originals have it: see
// tests/conformance.)
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::smaller_limits_test {
namespace {

const std::vector<std::string> algorithms{"fixed_window",   "aligned_window", "fixed_bucket",
                                          "sliding_window", "sliding_log",    "token_bucket"};

// One rule of each algorithm.
std::string policy_of(int quota) {
  std::string text =
      "listen:\n"
      "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: envoy, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
      "rules:\n";
  for (const std::string& algorithm : algorithms)
    text += "  - { name: " + algorithm + ", match: { by: " + algorithm +
            " }, limit: { algorithm: " + algorithm + ", quota: " + std::to_string(quota) +
            (algorithm == "fixed_bucket" ? "" : ", window: 1000d") + " } }\n";
  return text;
}

const std::string json = "Content-Type: application/json\r\n";

// Each N of `"remaining": N` or `"limitRemaining": N` in a text.
std::vector<long> remaining_in(const std::string& text) {
  static const std::regex pattern("\"(?:remaining|limitRemaining)\": ?(-?[0-9]+)");
  std::vector<long> all;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern);
       at != std::sregex_iterator(); ++at)
    all.push_back(std::stol((*at)[1]));
  return all;
}

class SmallerLimits : public testing::Test {
 protected:
  SmallerLimits() {
    for (const char* protocol : {"divvy", "resp", "envoy", "http", "admin"})
      ports[protocol] = await_listening(server, protocol);
    for (const std::string& algorithm : algorithms)
      EXPECT_EQ(http(ports["http"], "POST", "/v1/take",
                     R"({"entries": {"by": ")" + algorithm + R"("}, "n": 8})", json)
                    .status,
                200);
  }

  // Expects 0 units left on every protocol, for a rule whose counter is in debt.
  void expect_zero(const std::string& algorithm) {
    SCOPED_TRACE(algorithm);
    const std::string entries = R"({"entries": {"by": ")" + algorithm + "\"}";
    for (const char* path : {"/v1/peek", "/v1/take"}) {
      const auto answer = http(ports["http"], "POST", path, entries + ", \"detail\": true}", json);
      ASSERT_FALSE(remaining_in(answer.body).empty()) << answer.body;
      for (const long one : remaining_in(answer.body)) EXPECT_EQ(one, 0) << path << answer.body;
      for (const auto& [name, value] : answer.headers)
        EXPECT_EQ(value.find("=-"), std::string::npos) << name << ": " << value;
    }
    RespClient client(ports["resp"]);
    for (const char* command : {"SLUICE.PEEK", "SLUICE.TAKE"})
      EXPECT_EQ(client({command, "by=" + algorithm}).list.at(2).number, 0) << command;
    const std::string hit = TcpClient::connect(ports["divvy"]).value().ask("HIT by=" + algorithm);
    EXPECT_TRUE(hit.starts_with("OK false 0 ")) << hit;
    const Finished asked = run(
        {.arguments = {"ask", "envoy", "--server", "127.0.0.1:" + std::to_string(ports["envoy"]),
                       "--json", "--timeout", "20000", "d", "by=" + algorithm}});
    EXPECT_EQ(remaining_in(asked.out), std::vector<long>{0}) << asked.out << asked.err;
  }

  Folder folder;
  const std::string yaml = folder.write("sluice.yaml", policy_of(10));
  Process server{{.arguments = {"serve", "--config", yaml}}};
  std::map<std::string, uint16_t> ports;
};

TEST_F(SmallerLimits, AfterAReloadAreAnsweredWithZeroLeft) {
  folder.write("sluice.yaml", policy_of(3));
  ASSERT_EQ(http(ports["admin"], "POST", "/v1/reload").status, 200);
  for (const std::string& algorithm : algorithms) expect_zero(algorithm);
  // Units that are put back pay the debt first.
  const auto put = http(ports["http"], "POST", "/v1/put",
                        R"({"entries": {"by": "fixed_window"}, "n": 1})", json);
  EXPECT_EQ(remaining_in(put.body), std::vector<long>{0}) << put.body;
  RespClient client(ports["resp"]);
  EXPECT_EQ(client({"SLUICE.PUT", "by=fixed_window", "N", "1"}).list.at(0).number, 0);
}

TEST_F(SmallerLimits, ByAnOverrideAreAnsweredWithZeroLeft) {
  for (const std::string& algorithm : algorithms) {
    const std::string window = algorithm == "fixed_bucket" ? "" : R"(, "window": "1000d")";
    const auto set =
        http(ports["admin"], "POST", "/v1/overrides",
             R"({"rule": ")" + algorithm + R"(", "all_limits": true, "limit": {"algorithm": ")" +
                 algorithm + R"(", "quota": 3)" + window + "}}");
    ASSERT_EQ(set.status, 201) << set.body;
    expect_zero(algorithm);
  }
}

}  // namespace
}  // namespace sluice::tests::smaller_limits_test
