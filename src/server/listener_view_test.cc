// What is counted and logged of requests that a listener refuses, and of takes that no rule matches
// (server/server_view.h).
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "server/server_view.h"

namespace sluice::server::listener_view_test {
namespace {

using request::Unmatched;

class ListenerViewTest : public testing::Test {
 protected:
  std::string told() {
    const std::string text = out_.str();
    out_.str("");
    return text;
  }
  size_t told_lines() {
    const std::string text = told();
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  static std::string page_of(const ListenerView& view) {
    metrics::Page page;
    view.collect(page);
    return page.text();
  }

  std::ostringstream out_;
  std::shared_ptr<spdlog::logger> log_ = [this] {
    auto made = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(out_));
    made->set_pattern("%l %v");
    return made;
  }();
};

TEST_F(ListenerViewTest, KnowsLoopback) {
  for (const char* address :
       {"127.0.0.1:8390", "127.8.9.1:1", "[::1]:8390", "[::ffff:127.0.0.1]:1"}) {
    ListenerView view("toy", Unmatched::error, log_);
    view.set_address(address);
    EXPECT_TRUE(view.is_loopback()) << address;
  }
  for (const char* address :
       {"0.0.0.0:8390", "[::]:8390", "10.0.0.1:1", "[::2]:1", "128.0.0.1:1"}) {
    ListenerView view("toy", Unmatched::error, log_);
    view.set_address(address);
    EXPECT_FALSE(view.is_loopback()) << address;
  }
}

TEST_F(ListenerViewTest, LogsOneRefusalOfEachCodeAndCountsAll) {
  ListenerView view("toy", Unmatched::error, log_);
  view.set_address("127.0.0.1:7");
  EXPECT_NE(page_of(view).find("sluice_requests_refused_total{protocol=\"toy\",listener=\""
                               "127.0.0.1:7\",reason=\"malformed\"} 0\n"),
            std::string::npos)
      << page_of(view);
  for (int i = 0; i < 100; ++i) view.refused(request::malformed_code, "no `=` in\nthe line");
  view.refused("login", "no such user");
  view.refused("other", {});
  EXPECT_EQ(told(),
            "warning toy at 127.0.0.1:7: 1 request was refused (malformed) since the last such "
            "line, for example: no `=` in\\nthe line\n"
            "warning toy at 127.0.0.1:7: 1 request was refused (login) since the last such line, "
            "for example: no such user\n");
  for (const char* sample : {"reason=\"malformed\"} 100\n", "\"login\"} 1\n", "\"other\"} 1\n"})
    EXPECT_NE(page_of(view).find(sample), std::string::npos) << sample << page_of(view);
}

TEST_F(ListenerViewTest, BoundsTheExample) {
  const ListenerView view("toy", Unmatched::error, log_);
  view.refused(request::malformed_code, std::string(100'000, 'x'));
  EXPECT_LT(told().size(), 500u);
}

TEST_F(ListenerViewTest, LogsOneTakeWithoutARuleAMinute) {
  const ListenerView view("toy", Unmatched::error, log_);
  const base::Time start{1'000'000'000'000};
  const auto at = [&](int64_t seconds) { return base::Time{start.us + seconds * 1'000'000}; };
  for (const int64_t second : {0, 0, 1, 59}) view.unmatched(at(second), "a=b");
  EXPECT_EQ(told_lines(), 1u);
  EXPECT_FALSE(view.is_unmatched_due(at(59)));
  EXPECT_TRUE(view.is_unmatched_due(at(60)));
  view.unmatched(at(60), "a=c");
  const std::string line = told();
  EXPECT_TRUE(line.starts_with("warning toy at : takes match no rule, for example: a=c (")) << line;
  view.unmatched(at(-3600), "a=d");
  EXPECT_EQ(told_lines(), 1u) << "the clock was set back";
  view.unmatched(at(-3599), "a=d");
  EXPECT_EQ(told_lines(), 0u);
}

// Where the operator says what such requests are answered, they are expected.
TEST_F(ListenerViewTest, LogsNoTakeWithoutARuleThatIsExpected) {
  for (const Unmatched unmatched : {Unmatched::allow, Unmatched::deny}) {
    const ListenerView view("toy", unmatched, log_);
    EXPECT_FALSE(view.is_unmatched_due({1}));
    view.unmatched({1}, "a=b");
    EXPECT_EQ(told(), "");
  }
  const ListenerView view("toy", Unmatched::as_protocol, log_);
  view.unmatched({1}, "a=b");
  EXPECT_TRUE(told().starts_with("info toy")) << "its clients know that answer";
}

}  // namespace
}  // namespace sluice::server::listener_view_test
