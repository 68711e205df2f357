// What is logged and counted of connections that are turned away or closed (server/doors.h).
#include "server/doors.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>
#include <string>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

class DoorsTest : public testing::Test {
 protected:
  void tell(std::chrono::milliseconds at, bool all = false) {
    doors.tell(closed, std::chrono::steady_clock::time_point(1h) + at, all);
  }
  std::string told() {
    const std::string text = out.str();
    out.str("");
    return text;
  }

  std::ostringstream out;
  std::shared_ptr<spdlog::logger> log = [this] {
    auto made = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(out));
    made->set_pattern("%l %v");
    return made;
  }();
  Doors doors{log};
  Doors::ClosedFor closed{};
};

TEST_F(DoorsTest, LogsNewClosesInIntervals) {
  tell(0ms);
  EXPECT_EQ(told(), "");
  closed = {3, 0, 1, 0};
  tell(100ms);
  EXPECT_EQ(told(),
            "warning connections were closed: 3 did not finish a request in time "
            "(request_timeout); 1 took no replies in time (send_timeout)\n");
  for (int i = 0; i < 99; ++i) {
    closed[1] += 10;
    doors.turned_away();
    tell(100ms * (i + 2));
  }
  EXPECT_EQ(told(), "");
  tell(10'100ms);
  EXPECT_EQ(told(),
            "warning connections were closed: 990 had the oldest unfinished requests when these "
            "reached their bound of memory; 99 came when there were as many as may be "
            "(connections)\n");
  tell(60s);
  EXPECT_EQ(told(), "");
}

TEST_F(DoorsTest, LogsTheRemainingClosesAtTheEnd) {
  closed[3] = 1;
  tell(0ms);
  EXPECT_NE(told(), "");
  closed[3] = 2;
  tell(1ms);
  EXPECT_EQ(told(), "");
  tell(2ms, true);
  EXPECT_EQ(told(),
            "warning connections were closed: 1 had taken no replies for the longest when these "
            "reached their bound of memory\n");
}

TEST_F(DoorsTest, ArePartOfTheMetrics) {
  for (int i = 0; i < 3; ++i) doors.turned_away();
  doors.paused();
  metrics::Sources sources;
  sources.add(doors);
  const std::string text = sources.text();
  EXPECT_NE(text.find("sluice_connections_turned_away_total 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sluice_accept_pauses_total 1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice::server
