// The log's queue (log/log.h): dropped and cut lines, a writer that is stuck, and the end.
#include "log/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>

#include <chrono>
#include <future>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/patience.h"

namespace sluice::log {
namespace {

// Stores the lines; the first one waits until the test releases it.
class HeldSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::promise<void> reached, release;
  std::vector<std::string> lines;

  // The lines so far, while the writer may still be at work.
  std::vector<std::string> lines_so_far() {
    const std::lock_guard lock(mutex_);
    return lines;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (lines.empty()) {
      reached.set_value();
      release.get_future().wait();
    }
    lines.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush_() override {}
};

TEST(LogLevel, ParsesItsNames) {
  EXPECT_EQ(log_level("trace"), spdlog::level::trace);
  EXPECT_EQ(log_level("warn"), spdlog::level::warn);
  EXPECT_EQ(log_level("error"), spdlog::level::err);
  EXPECT_EQ(log_level("off"), spdlog::level::off);
  for (const char* word : {"", "INFO", "warning", "loud"}) EXPECT_FALSE(log_level(word)) << word;
}

TEST(Log, DropsTheOldestLinesAndReportsIt) {
  constexpr size_t queue_lines = 8, burst_lines = 20;
  const auto sink = std::make_shared<HeldSink>();
  {
    const Log log(spdlog::level::info, sink, queue_lines);
    log.logger()->info("first");
    sink->reached.get_future().wait();
    for (size_t i = 0; i < burst_lines; ++i) log.logger()->info("line {}", i);
    EXPECT_EQ(log.dropped(), burst_lines - queue_lines);
    sink->release.set_value();
  }
  ASSERT_EQ(sink->lines.size(), 1 + 1 + queue_lines);
  EXPECT_EQ(sink->lines[0], "first");
  EXPECT_EQ(sink->lines[1],  // at the place where they are missing
            "12 log lines were dropped: they came faster than standard error took them");
  EXPECT_EQ(sink->lines[2], "line 12");
  EXPECT_EQ(sink->lines[9], "line 19");
}

TEST(Log, CutsALineThatIsTooLong) {
  const auto sink = std::make_shared<HeldSink>();
  sink->release.set_value();
  const std::string most(Log::line_bytes_max, 'x'), half(Log::line_bytes_max - 1, 'x');
  {
    const Log log(spdlog::level::info, sink, 64);
    log.logger()->info(most);
    log.logger()->info(most + "y");
    log.logger()->info(half + "é");  // one byte too long, by its second half
    log.logger()->info("{}", std::string(10 << 20, 'x'));
  }
  const std::vector<std::string> expected{most, most + "...", half + "...", most + "..."};
  EXPECT_EQ(sink->lines, expected);
}

// A writer that is stuck does not keep the log from ending, and writes nothing more when it is
// free.
TEST(Log, EndsWhileItsWriterIsStuck) {
  const auto sink = std::make_shared<HeldSink>();
  const auto start = std::chrono::steady_clock::now();
  {
    const Log log(spdlog::level::info, sink, 64);
    log.logger()->info("first");
    sink->reached.get_future().wait();
    log.logger()->info("second");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, tests::promised(std::chrono::seconds(3)));
  sink->release.set_value();
  while (sink.use_count() > 1) std::this_thread::yield();  // the writer holds the other one
  EXPECT_EQ(sink->lines_so_far(), std::vector<std::string>{"first"});
}

TEST(Log, WritesEverythingBeforeItEndsAndNothingBelowItsLevel) {
  const auto sink = std::make_shared<HeldSink>();
  sink->release.set_value();
  {
    const Log log(spdlog::level::warn, sink, 64);
    log.logger()->info("unheard");
    for (int i = 0; i < 10; ++i) log.logger()->warn("heard");
    EXPECT_EQ(log.dropped(), 0u);
  }
  EXPECT_EQ(sink->lines, std::vector<std::string>(10, "heard"));
}

TEST(Log, ShowsTimeAndLevel) {
  testing::internal::CaptureStderr();
  { Log(spdlog::level::info).logger()->warn("hello"); }
  const std::string text = testing::internal::GetCapturedStderr();
  const std::regex line("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z warning hello\n");
  EXPECT_TRUE(std::regex_match(text, line)) << text;
}

}  // namespace
}  // namespace sluice::log
