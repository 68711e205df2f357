#include "protocol/resp/settings.h"

#include <gtest/gtest.h>

#include "config/config.h"
#include "protocol/protocol.h"
#include "server/options.h"

namespace sluice::resp {
namespace {

// What is wrong with a sluice.yaml, "" if nothing.
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

TEST(RespSettings, AreThoseOfTheSessions) {
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
  const auto number = *protocol::find("resp");
  EXPECT_EQ(config.settings_of(number).lines().front().first,
            "resp: { dialects: [cell, gcra], inline_limits: false, unmatched: deny, max_waiting: "
            "10000, max_words: 99, "
            "max_word: 1000 }");
}

TEST(RespSettings, AreAllCommandsUnlessSaid) {
  const RespOptions its = options_of(config::Config());
  EXPECT_EQ(its.answers, (std::array{true, true, true, true}));
  EXPECT_TRUE(its.inline_limits);
  EXPECT_EQ(its.unmatched, Unmatched::error);
}

TEST(RespSettings, SayWhatIsWrong) {
  for (const auto& [section, told] :
       {std::pair("{ dialects: [cell, redis] }", "`redis` is not one of cell, throttle, gcra"),
        std::pair("{ dialects: cell }", "list"), std::pair("{ dialects: [] }", "list"),
        std::pair("{ unmatched: maybe }", "`maybe` is not one of error, allow, deny"),
        std::pair("{ max_words: 1 }", "max_words"), std::pair("{ max_word: 9999999 }", "max_word"),
        std::pair("{ inline_limits: 3 }", "inline_limits"), std::pair("{ other: 3 }", "other")}) {
    config::Config config;
    EXPECT_NE(problems(section, config).find(told), std::string::npos)
        << section << ": " << problems(section, config);
  }
}

}  // namespace
}  // namespace sluice::resp
