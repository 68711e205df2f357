// The log of changes that operators make (live/change_log.h).
#include "live/change_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "log/log.h"

namespace sluice::live {
namespace {

Change change(const std::string& what) {
  return {.what = what, .by = "a test", .about = {{"rule", "r"}}, .before = nullptr, .after = 1};
}

TEST(ChangeLog, APageStartsAfterAGivenNumber) {
  ChangeLog log(nullptr);
  EXPECT_EQ(log.page(0, 10).total, 0u);
  for (int i = 1; i <= 5; ++i) log.add(change("c" + std::to_string(i)));
  const auto whats = [](const ChangeLog::Page& page) {
    std::string all;
    for (const Change& one : page.changes) all += one.what + std::to_string(one.number) + " ";
    return all;
  };
  EXPECT_EQ(whats(log.page(0, 2)), "c44 c55 ");
  EXPECT_EQ(whats(log.page(0, 10)), "c11 c22 c33 c44 c55 ");
  EXPECT_EQ(whats(log.page(2, 2)), "c33 c44 ");
  EXPECT_EQ(whats(log.page(5, 2)), "");
  EXPECT_EQ(whats(log.page(99, 2)), "");
}

TEST(ChangeLog, KeepsTheLastThousand) {
  ChangeLog log(nullptr);
  for (int i = 0; i < 2500; ++i) log.add(change("c"));
  const auto page = log.page(0, 5000);
  EXPECT_EQ(page.total, 2500u);
  ASSERT_EQ(page.changes.size(), ChangeLog::kept_max);
  EXPECT_EQ(page.changes.front().number, 1501u);
  // Changes that were forgotten are skipped.
  EXPECT_EQ(log.page(3, 1).changes.front().number, 1501u);
}

TEST(ChangeLog, LongTextsAreCutAndALineIsOneLine) {
  std::ostringstream told;
  ChangeLog log(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(told)));
  Change one = change("counter set");
  one.by = "a\nb";
  one.after = std::string(ChangeLog::text_bytes_max + 1, 'x');
  log.add(one);
  one.after = "line\nend \xff";
  log.add(one);
  const auto page = log.page(0, 2);
  EXPECT_EQ(page.changes[0].after, (wire::Json{{"cut", ChangeLog::text_bytes_max + 3}}));
  const std::string text = told.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(
      text.find("change 1: counter set by a\\nb | {\"rule\":\"r\"} | before: nothing | after: "
                "{\"cut\":4099}"),
      std::string::npos)
      << text;
}

TEST(ChangeLog, InJsonAChangeIsFieldsOfItsLine) {
  const auto written = [](log::LogFormat format, const Change& change) {
    std::ostringstream told;
    {
      log::Log log(spdlog::level::info, std::make_shared<spdlog::sinks::ostream_sink_mt>(told), 10);
      log.set({.format = format});
      ChangeLog(log.logger(log::LogModule::admin)).add(change);
    }
    return told.str();
  };
  Change one = change("override set");
  one.by = "admin token, \"q\"";
  one.after = {{"limits", {1, 2}}};
  const std::string line = written(log::LogFormat::json, one);
  const wire::Json json = wire::Json::parse(line);
  EXPECT_EQ(json.at("message"), "change 1: override set by admin token, \"q\"");
  EXPECT_EQ(json.at("change"), (wire::Json{{"number", 1},
                                           {"what", "override set"},
                                           {"by", one.by},
                                           {"about", {{"rule", "r"}}},
                                           {"before", nullptr},
                                           {"after", {{"limits", {1, 2}}}}}));
  const std::string text = written(log::LogFormat::text, one);
  EXPECT_TRUE(
      text.ends_with("info change 1: override set by admin token, \"q\" | {\"rule\":\"r\"} "
                     "| before: nothing | after: {\"limits\":[1,2]}\n"))
      << text;

  // What does not fit into a line is cut, the longest first.
  one.before = std::string(1500, 'b');
  one.after = std::string(4000, '\x01');
  one.by = std::string(256, '\xff');
  const wire::Json cut = wire::Json::parse(written(log::LogFormat::json, one)).at("change");
  EXPECT_EQ(cut.at("after"), (wire::Json{{"cut", 24002}}));
  EXPECT_EQ(cut.at("before"), (wire::Json{{"cut", 1502}}));
  EXPECT_EQ(cut.at("about"), (wire::Json{{"rule", "r"}}));
  one.by = "me";
  EXPECT_EQ(wire::Json::parse(written(log::LogFormat::json, one)).at("change").at("before"),
            one.before);
  EXPECT_LE(written(log::LogFormat::text, one).size(), log::line_bytes_max + 64);
}

TEST(ChangeLog, ConcurrentChangesGetDistinctNumbers) {
  ChangeLog log(nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) log.add(change("c"));
    });
  for (auto& thread : threads) thread.join();
  const auto page = log.page(0, 1000);
  ASSERT_EQ(page.changes.size(), 800u);
  for (size_t i = 0; i < page.changes.size(); ++i) EXPECT_EQ(page.changes[i].number, i + 1);
}

}  // namespace
}  // namespace sluice::live
