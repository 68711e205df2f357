// The `resp` section of sluice.yaml.
#include "protocol/resp/settings.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "config/config.h"
#include "config/printed_test.h"
#include "protocol/protocol.h"
#include "server/options.h"

namespace sluice::resp {
namespace {

// Reads a sluice.yaml with the `resp` section `section` into `config`; returns what is wrong with
// it, "" if nothing.
std::string problems(const std::string& section, config::Config& config) {
  base::Diagnostics diagnostics;
  config::read_config("listen: [{ protocol: resp, address: a }]\nresp: " + section + "\n",
                      "sluice.yaml", config, diagnostics);
  std::string all;
  for (const auto& d : diagnostics) all += base::to_string(d) + "\n";
  return all;
}

RespOptions options_of(const config::Config& config) {
  const auto number = static_cast<size_t>(*protocol::find("resp"));
  const auto options = config.options().session_options[number];
  return static_cast<const RespOptions&>(*options);
}

TEST(RespSettings, DescribeTheAnswerWithoutARule) {
  for (const std::string answer : {"error", "allow", "deny"}) {
    config::Config config;
    EXPECT_EQ(problems("{ unmatched: " + answer + " }", config), "");
    EXPECT_TRUE(settings_format.unmatched(config.settings_of(*protocol::find("resp")))
                    .ends_with(", as `resp.unmatched` is " + answer));
  }
}

TEST(RespSettings, ReachTheSessions) {
  config::Config config;
  EXPECT_EQ(problems("{ dialects: [cell, gcra], inline_limits: false, unmatched: deny, max_words: "
                     "99, max_word: 1000 }",
                     config),
            "");
  const RespOptions its = options_of(config);
  EXPECT_EQ(its.answers, (std::array{true, false, true, false}));
  EXPECT_FALSE(its.inline_limits);
  EXPECT_EQ(its.unmatched, Unmatched::deny);
  EXPECT_EQ(its.bounds.words, 99u);
  EXPECT_EQ(its.bounds.word_bytes, 1000u);
  EXPECT_EQ(config::printed_line(config, "resp"),
            "resp: { dialects: [cell, gcra], inline_limits: false, unmatched: deny, max_waiting: "
            "10000, max_words: 99, "
            "max_word: 1000 }");
}

TEST(RespSettings, PrintSettingsThatAreNotDefaults) {
  config::Config config;
  EXPECT_EQ(problems("{ on_store_error: allow, throttle_true_reset: true, cell_shared: true, "
                     "idle_timeout: 90s }",
                     config),
            "");
  const RespOptions its = options_of(config);
  EXPECT_EQ(its.on_store_error, request::OnError::allow);
  EXPECT_TRUE(its.throttle_true_reset);
  EXPECT_TRUE(its.cell_shared);
  EXPECT_EQ(its.idle_timeout, base::seconds(90));
  const std::string line = config::printed_line(config, "resp");
  EXPECT_NE(line.find("unmatched: error, on_store_error: allow, throttle_true_reset: true, "
                      "cell_shared: true, idle_timeout: 90s, max_waiting: 10000, max_words: "),
            std::string::npos)
      << line;
  // The timeout is that of the protocol's own listeners only.
  config.listen.push_back({{*protocol::find("divvy"), {"b", 1}}});
  const server::Options options = config.options();
  ASSERT_EQ(options.listeners.size(), 2u);
  EXPECT_EQ(options.listeners[0].timeouts.idle, base::seconds(90));
  EXPECT_EQ(options.listeners[1].timeouts.idle, base::Duration());
  // Reading the printed settings gives the same settings.
  config::Config again;
  EXPECT_EQ(problems(line.substr(line.find('{')), again), "");
  EXPECT_EQ(config::printed_line(again, "resp"), line);
  for (const auto& [word, answer] :
       {std::pair("error", request::OnError::error), std::pair("deny", request::OnError::deny)}) {
    EXPECT_EQ(problems(std::string("{ idle_timeout: 0, on_store_error: ") + word + " }", config),
              "");
    EXPECT_EQ(options_of(config).on_store_error, answer);
    EXPECT_EQ(options_of(config).idle_timeout, base::Duration());
  }
}

// `cell_shared` requires a store in Redis.
TEST(RespSettings, SharedCountersAreInRedis) {
  for (const auto& [store, resp, sound] :
       {std::tuple("", "cell_shared: true", false), std::tuple("", "cell_shared: false", true),
        std::tuple("store: { redis: { nodes: [\"a:1\"] } }\n", "cell_shared: true", true)}) {
    config::Config config;
    base::Diagnostics diagnostics;
    config::read_config(std::string("listen: [{ protocol: resp, address: a }]\n") + store +
                            "resp: { " + resp + " }\n",
                        "sluice.yaml", config, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    config::check_store(config, diagnostics);
    EXPECT_EQ(base::has_errors(diagnostics), !sound) << store << resp;
    if (!sound && !diagnostics.empty()) {
      EXPECT_EQ(base::to_string(diagnostics.front()),
                "error: sluice.yaml:2: `cell_shared` has CL.THROTTLE keep its counters in Redis as "
                "redis-cell does, and counters are not kept in Redis; name it: `store: { redis: { "
                "nodes: [\"HOST:PORT\"] } }` or --redis HOST:PORT; or take `cell_shared` out");
    }
  }
}

TEST(RespSettings, EnableAllCommandsByDefault) {
  const RespOptions its = options_of(config::Config());
  EXPECT_EQ(its.answers, (std::array{true, true, true, true}));
  EXPECT_TRUE(its.inline_limits);
  EXPECT_EQ(its.unmatched, Unmatched::error);
}

TEST(RespSettings, ReportErrors) {
  for (const auto& [section, told] :
       {std::pair("{ dialects: [cell, redis] }", "`redis` is not one of cell, throttle, gcra"),
        std::pair("{ dialects: cell }", "list"), std::pair("{ dialects: [] }", "list"),
        std::pair("{ unmatched: maybe }", "`maybe` is not one of error, allow, deny"),
        std::pair("{ max_words: 1 }", "max_words"), std::pair("{ max_word: 9999999 }", "max_word"),
        std::pair("{ inline_limits: 3 }", "inline_limits"),
        std::pair("{ on_store_error: local }", "`local` is not one of error, allow, deny"),
        std::pair("{ throttle_true_reset: 3 }", "throttle_true_reset"),
        std::pair("{ cell_shared: maybe }", "cell_shared"),
        std::pair("{ idle_timeout: 30 }", "`30` is not a length of time from"),
        std::pair("{ idle_timeout: 2d }", "`2d` is not a length of time from"),
        std::pair("{ idle_timeout: 1ms }", "`1ms` is not a length of time from"),
        std::pair("{ other: 3 }", "other")}) {
    config::Config config;
    EXPECT_NE(problems(section, config).find(told), std::string::npos)
        << section << ": " << problems(section, config);
  }
}

}  // namespace
}  // namespace sluice::resp
