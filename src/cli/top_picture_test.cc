// What `sluice top` prints (cli/top_picture.h): rates from two answers, and what fits the window.
#include "cli/top_picture.h"

#include <gtest/gtest.h>

#include "config/screen_text.h"
#include "tests/support/dice.h"

namespace sluice::cli {
namespace {

using Clock = TopRates::Clock;

Json item(const std::string& who, int64_t allowed, int64_t denied) {
  return {{"rule", "r"}, {"path", who}, {"actor", who}, {"allowed", allowed}, {"denied", denied}};
}

Json answer_of(std::vector<Json> items) {
  Json answer{{"window_seconds", 300}, {"by", "denied"}, {"items", Json::array()}};
  for (auto& one : items) answer["items"].push_back(std::move(one));
  return answer;
}

TEST(TopRates, AreComputedFromTwoConsecutiveAnswers) {
  const Clock::time_point begin{};
  TopRates rates;
  Json first = answer_of({item("a", 10, 0), item("b", 5, 5)});
  rates.add(first, begin);
  EXPECT_FALSE(first["items"][0].contains("allowed_per_second"));
  // Half a second later `c` is new, and `b` has lost the counts of its oldest minute.
  Json second = answer_of({item("a", 20, 2), item("c", 1, 0), item("b", 6, 4)});
  rates.add(second, begin + std::chrono::milliseconds(500));
  EXPECT_EQ(second["items"][0]["allowed_per_second"], 20.0);
  EXPECT_EQ(second["items"][0]["denied_per_second"], 4.0);
  EXPECT_FALSE(second["items"][1].contains("allowed_per_second"));
  EXPECT_FALSE(second["items"][2].contains("denied_per_second"));
  // If a count falls, the last rate stays.
  Json third = answer_of({item("a", 3, 0), item("b", 8, 4)});
  rates.add(third, begin + std::chrono::milliseconds(1500));
  EXPECT_EQ(third["items"][0]["allowed_per_second"], 20.0);
  EXPECT_EQ(third["items"][1]["allowed_per_second"], 2.0);
  EXPECT_EQ(third["items"][1]["denied_per_second"], 0.0);
}

ServerLines lines_about_one() {
  const Look before{Json::parse(R"({"requests": {"total": {"denied": 5}}})"), {}};
  const Look now{Json::parse(R"({
                   "version": "1.2.3",
                   "reasons": ["Redis cannot be asked", "\u001b[2J"],
                   "requests": {"total": {"allowed": 4, "denied": 25}},
                   "counters": {"count": 12345},
                   "policy": {"generation": 2, "stale": true},
                   "store": {"kind": "redis"}})"),
                 Clock::time_point(std::chrono::seconds(2))};
  return server_lines("127.0.0.1:1", before, now);
}

TEST(TopPicture, ShowsTheServersStateAndTheLimitedActors) {
  Json one = item("10.0.0.7", 1234, 56);
  one["denied_per_second"] = 12.0;
  one["allowed_per_second"] = 0.25;
  Json all = item("", 1, 0);
  all["counter"] = "divvy:::0:0";
  const ServerLines server = lines_about_one();
  EXPECT_EQ(line_of(server),
            "sluice 1.2.3 at 127.0.0.1:1: 2.0/s allowed, 10/s denied; counters in Redis, 12,345 "
            "here; policy generation 2");
  EXPECT_EQ(server.troubles, (std::vector<std::string>{
                                 "Redis cannot be asked", "\\x1b[2J",
                                 "the files hold a policy that was refused: see `sluice status`"}));
  const Json answer = answer_of({one, all});
  EXPECT_EQ(order_words(answer), "most denied of the last 5m");
  EXPECT_EQ(table_of_top(answer).lines(),
            (std::vector<std::string>{"WHO       RULE  DENIED/S  ALLOWED/S  DENIED  ALLOWED",
                                      "10.0.0.7  r           12        0.3      56    1,234",
                                      "(all)     r            -          -       0        1"}));
}

TEST(TopPicture, ShowsRefusingLimitsInNarrowWindowsToo) {
  Json one = item("10.0.0.7", 1, 2);
  one["refused_by"] = Json::array(
      {{{"algorithm", "fixed_window"}, {"quota", 3}, {"window", "1h"}, {"allowed", false}}});
  const Table table = table_of_top(answer_of({one, item("10.0.0.8", 1, 0)}));
  EXPECT_EQ(table.lines(),
            (std::vector<std::string>{
                "WHO       RULE  REFUSES NOW  DENIED/S  ALLOWED/S  DENIED  ALLOWED",
                "10.0.0.7  r     3 per 1h            -          -       2        1",
                "10.0.0.8  r                         -          -       0        1"}));
  EXPECT_EQ(table.lines(60)[1], "10.0.0.7  r     3 per 1h            -          -       2");
}

TEST(TopPicture, FitsIntoAnyWindowWhateverClientsSend) {
  tests::Dice dice(8);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<Json> items;
    for (int count = dice(30); count > 0; --count) {
      static const char* const pieces[] = {"\x1b[31m", "日本", "a", "\u0301", "\n", "\u009b", "%s"};
      std::string who;
      for (int parts = dice(40); parts > 0; --parts) who += pieces[dice(std::size(pieces))];
      items.push_back(item(who, dice(1'000'000), dice(1'000'000)));
    }
    const size_t columns = 1 + dice(size_t{100});
    const auto table = table_of_top(answer_of(std::move(items)));
    for (const auto& line : table.lines(columns)) {
      ASSERT_LE(config::columns_of(line), columns) << line;
      for (const char c : line) ASSERT_GE(static_cast<unsigned char>(c), 0x20) << line;
      ASSERT_EQ(line.find("\u009b"), line.npos);
    }
  }
}

}  // namespace
}  // namespace sluice::cli
