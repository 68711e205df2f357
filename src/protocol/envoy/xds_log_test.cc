#include "protocol/envoy/xds_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace sluice::envoy::xds_log_test {
namespace {

using std::chrono::seconds;

struct XdsLogTest : testing::Test {
  XdsLogTest() { logger->set_pattern("%l %v"); }

  // The lines since the last call.
  std::string said() {
    logger->flush();
    return std::exchange(lines, std::ostringstream()).str();
  }

  const XdsLog::Time start{seconds(1000)};
  std::ostringstream lines;
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>(
      "policy", std::make_shared<spdlog::sinks::ostream_sink_st>(lines));
  XdsLog log{"plane:1", "me\n", logger};
};

TEST_F(XdsLogTest, AStreamThatEndsIsToldWithItsFirstReasonAndThenOnceAMinute) {
  log.down("refused", false, start);
  EXPECT_EQ(said(),
            "warning xDS: no stream of limits from plane:1: refused; requests are refused until "
            "there are some\n");
  log.down("other", false, start + seconds(1));
  log.down("other", false, start + seconds(59));
  EXPECT_EQ(said(), "");
  log.down("other", true, start + seconds(60));
  EXPECT_EQ(said(),
            "warning xDS: no stream of limits from plane:1: other; those that were taken before "
            "stay\n");
  log.down("other", true, start + seconds(119));
  EXPECT_EQ(said(), "");
}

TEST_F(XdsLogTest, WhatWorksAgainIsToldOnce) {
  log.taken("1", true);
  EXPECT_EQ(said(), "info xDS: took the limits of version `1` from plane:1\n");
  log.down("cut", true, start);
  said();
  log.taken("1", false);
  EXPECT_EQ(said(), "info xDS: plane:1 sends limits again\n");
  log.taken("1", false);
  EXPECT_EQ(said(), "");
  log.down("cut", true, start + seconds(1));
  EXPECT_NE(said(), "") << "of another time that it is down";
}

TEST_F(XdsLogTest, ARefusalDoesNotMeanThatItWorksAgain) {
  log.down("cut", false, start);
  said();
  log.refused("wrong", false, start + seconds(1));
  said();
  log.down("cut", false, start + seconds(2));
  EXPECT_EQ(said(), "");
}

TEST_F(XdsLogTest, EachRefusalIsToldOnceAMinuteThoughOthersComeBetween) {
  log.refused("a\x01", false, start);
  EXPECT_EQ(said(),
            "error xDS: limits of plane:1 refused: a\\x01; requests are refused until there are "
            "some\n");
  log.refused("b", true, start + seconds(1));
  EXPECT_EQ(said(), "error xDS: limits of plane:1 refused: b; those that were taken before stay\n");
  for (int second = 2; second < 60; ++second)
    log.refused(second % 2 == 0 ? "a\x01" : "b", true, start + seconds(second));
  EXPECT_EQ(said(), "");
  log.refused("a\x01", true, start + seconds(60));
  EXPECT_NE(said(), "");
  log.taken("1", false);
  log.refused("b", true, start + seconds(60));
  EXPECT_NE(said(), "") << "what was taken between makes it news";
}

TEST_F(XdsLogTest, OfMoreRefusalsThanAreRememberedTheOldestIsToldAgain) {
  for (size_t text = 0; text <= XdsLog::refusals_max; ++text)
    log.refused(std::to_string(text), true, start);
  said();
  log.refused("1", true, start);
  EXPECT_EQ(said(), "");
  log.refused("0", true, start);
  EXPECT_NE(said(), "");
}

TEST_F(XdsLogTest, ASilentStreamIsToldOnceUntilItBringsSomething) {
  EXPECT_FALSE(log.silent_at());
  log.begun(start);
  EXPECT_EQ(log.silent_at(), start + XdsLog::silence);
  log.silent(false);
  EXPECT_EQ(said(),
            "warning xDS: no limits from plane:1 for node me\\n yet; requests are refused until "
            "there are some\n");
  EXPECT_FALSE(log.silent_at());
  log.begun(start + seconds(20));
  EXPECT_FALSE(log.silent_at()) << "that was told";
  log.refused("wrong", false, start + seconds(21));
  log.begun(start + seconds(30));
  EXPECT_EQ(log.silent_at(), start + seconds(30) + XdsLog::silence);
  log.taken("1", true);
  EXPECT_FALSE(log.silent_at());
}

}  // namespace
}  // namespace sluice::envoy::xds_log_test
