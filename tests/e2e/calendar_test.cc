// Windows of the calendar by the real program: what its doors take and tell of them.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/rfc3339.h"
#include "tests/e2e/http_described.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::calendar_e2e {
namespace {

using namespace http_e2e;

constexpr const char* monthly =
    "rules:\n"
    "  - name: tokens\n"
    "    match: { tenant: \"*\" }\n"
    "    actor: tenant\n"
    "    limit: { quota: 100, window: month, time_zone: Europe/Berlin, month_day: 9 }\n";

int64_t seconds_of(const Json& text) {
  const auto time = base::parse_rfc3339(text.get<std::string>());
  EXPECT_TRUE(time) << text;
  return time.value_or(base::Time{}).us / 1'000'000;
}

int64_t now_s() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

// A window with `now` in it, of as many seconds as it says, and a decision that ends with it.
void expect_window(const Json& limit, const std::string& unit, const std::string& zone) {
  SCOPED_TRACE(limit.dump());
  ASSERT_TRUE(limit.contains("starts"));
  EXPECT_EQ(limit.at("calendar"), unit);
  EXPECT_EQ(limit.at("time_zone"), zone);
  EXPECT_EQ(limit.at("algorithm"), "aligned_window");
  const int64_t starts = seconds_of(limit.at("starts")), ends = seconds_of(limit.at("ends"));
  EXPECT_LE(starts, now_s());
  EXPECT_EQ(limit.at("window").get<double>(), static_cast<double>(ends - starts));
  EXPECT_NEAR(limit.at("reset_after").get<double>(), static_cast<double>(ends - now_s()), 60);
}

TEST(CalendarDoors, HttpTakesAndTellsThem) {
  const Door door("{ get_takes: true }", monthly);
  const auto ask = [&](const Asked& asked) {
    return http_e2e::ask(HttpVersion::http1, door.port(), asked);
  };
  const HttpAnswer taken = ask(post("/v1/take", about({{"tenant", "acme"}}, {{"detail", true}})));
  ASSERT_EQ(taken.status, 200) << taken.body;
  const Json limit = json_body(taken).at("limits").at(0);
  expect_window(limit, "month", "Europe/Berlin");
  // 23:00 or 22:00 UTC of the 8th.
  EXPECT_EQ(limit.at("starts").get<std::string>().substr(7, 5), "-08T2");
  EXPECT_EQ(header_of(taken, "ratelimit-policy"),
            "\"tokens\";q=100;w=" + std::to_string(limit.at("window").get<int64_t>()));
  const HttpAnswer charged =
      ask(post("/v1/charge", about({{"tenant", "acme"}}, {{"n", 300}, {"detail", true}})));
  EXPECT_EQ(json_body(charged).at("debt"), 201) << charged.body;
  expect_window(json_body(charged).at("limits").at(0), "month", "Europe/Berlin");
  const HttpAnswer denied = ask(post("/v1/take", about({{"tenant", "acme"}})));
  EXPECT_EQ(denied.status, 429);

  // Along with a request.
  for (const auto& [unit, more] : std::initializer_list<std::pair<const char*, Json>>{
           {"hour", Json::object()},
           {"day", {{"starts_at", "06:00"}}},
           {"week", {{"week_starts", "sunday"}}},
           {"month", {{"month_day", 31}}},
           {"month", {{"month_day", "31"}, {"algorithm", "aligned_window"}}},
           {"year", {{"year_day", "04-06"}}}}) {
    Json brought = {{"quota", 9}, {"window", unit}, {"time_zone", "Asia/Tokyo"}};
    brought.update(more);
    const Json body = {{"key", "k"}, {"limits", {brought}}, {"detail", true}};
    const HttpAnswer answer = ask(post("/v1/take", body));
    ASSERT_EQ(answer.status, 200) << answer.body;
    expect_window(json_body(answer).at("limits").at(0), unit, "Asia/Tokyo");
  }
  const HttpAnswer query = ask(get("/v1/take?key=q&limit=5&window=month&time_zone=Asia/Tokyo"));
  EXPECT_EQ(query.status, 200) << query.body;
  for (const auto& [wrong, words] : std::initializer_list<std::pair<Json, const char*>>{
           {{{"time_zone", "Europe/Atlantis"}}, "`Europe/Atlantis` is not a time zone"},
           {{{"algorithm", "sliding_log"}}, "which sliding_log cannot have"},
           {{{"burst", 9}}, "`burst` is for token_bucket"},
           {{{"week_starts", "monday"}}, "belongs to `window: week`"},
           {{{"month_day", 0}}, "`0` is not a day of a month"},
           {{{"window", "30d"}, {"time_zone", "UTC"}}, "belongs to a window of the calendar"}}) {
    Json brought = {{"quota", 9}, {"window", "month"}};
    brought.update(wrong);
    const HttpAnswer answer = ask(post("/v1/take", Json{{"key", "k"}, {"limits", {brought}}}));
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find(words), std::string::npos) << answer.body;
  }
}

// A client brings more different windows than it may have lists of limits at hand: another one
// still brings new ones at once, and nothing that was counted is lost.
TEST(CalendarDoors, OneClientUsesUpNoWindowsOfOthers) {
  const Folder folder;
  folder.write("sluice.yaml",
               "listen:\n"
               "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
               "  - { protocol: http, address: \"[::1]:0\" }\n"
               "  - { protocol: admin, address: \"127.0.0.1:0\" }\n");
  Process process(
      Process::Options{.arguments = {"serve", "--config", folder.path() + "/sluice.yaml"}});
  const uint16_t port = await_listening(process, "http");
  const uint16_t other_port = await_listening(process, "http");
  const uint16_t admin = await_listening(process, "admin");
  Http1 greedy(other_port, "::1");
  const auto nth = [](int n) {
    const Json limit{
        {"quota", 5},
        {"window", "year"},
        {"time_zone", n % 2 == 0 ? "Asia/Tokyo" : "America/New_York"},
        {"year_day", "0" + std::to_string(1 + n % 9) + "-" + std::to_string(10 + n % 17)},
        {"starts_at", (n / 60 % 20 < 10 ? "0" : "") + std::to_string(n / 60 % 20) + ":" +
                          std::to_string(10 + n % 50)}};
    return Json{{"key", "k" + std::to_string(n)}, {"limits", {limit}}};
  };
  std::set<std::string> different;
  constexpr int all = 36'000, at_once = 200;
  for (int first = 0; first < all; first += at_once) {
    Json body{{"takes", Json::array()}};
    for (int n = first; n < first + at_once; ++n) {
      body["takes"].push_back(nth(n));
      different.insert(body["takes"].back().at("limits").dump());
    }
    const HttpAnswer answer = greedy.ask(post("/v1/batch", body));
    ASSERT_EQ(answer.status, 200) << answer.body;
    if (first % 4'000 != 0) continue;
    // Another client, by its address.
    const Json limit{{"quota", 5}, {"window", "month"}, {"month_day", 1 + first / 4'000}};
    const HttpAnswer its =
        ask(HttpVersion::http1, port, post("/v1/take", Json{{"key", "x"}, {"limits", {limit}}}));
    ASSERT_EQ(its.status, 200) << its.body;
  }
  EXPECT_GT(different.size(), 8'192u);
  for (const int n : {0, 1, all - 1}) {
    EXPECT_EQ(json_body(greedy.ask(post("/v1/take", nth(n)))).at("remaining"), 3) << n;
  }
  EXPECT_EQ(sample(admin, "sluice_brought_limits_refused_total"), "0");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

TEST(CalendarDoors, TheAdminPortTellsAndOverridesThem) {
  const Door door("{}", monthly);
  const auto take = [&] {
    return http_e2e::ask(HttpVersion::http1, door.port(),
                         post("/v1/take", about({{"tenant", "acme"}}, {{"n", 5}})));
  };
  EXPECT_EQ(take().status, 200);
  const auto admin = [&](const std::string& method, const std::string& target, const Json& body) {
    return json_body(http(door.admin(), method, target, body.is_null() ? "" : body.dump(), ""));
  };
  const Json counters = admin("GET", "/v1/counters?rule=tokens", nullptr);
  const Json limit = counters.at("counters").at(0).at("limits").at(0);
  expect_window(limit, "month", "Europe/Berlin");
  EXPECT_EQ(limit.at("month_day"), "9");
  EXPECT_EQ(limit.at("remaining"), 95);
  const Json explained =
      admin("POST", "/v1/explain",
            {{"protocol", "http"}, {"descriptor", {{{"key", "tenant"}, {"value", "acme"}}}}});
  EXPECT_TRUE(explained.at("rules").at(0).at("decisions").at(0).contains("starts")) << explained;
  EXPECT_NE(admin("GET", "/v1/status", nullptr).at("time_zones").get<std::string>(), "none");

  const Json set = admin("POST", "/v1/overrides",
                         {{"rule", "tokens"},
                          {"dialect", "native"},
                          {"actor", "acme"},
                          {"limit", {{"quota", 4}, {"window", "day"}, {"time_zone", "UTC"}}}});
  ASSERT_TRUE(set.contains("limits")) << set;
  EXPECT_EQ(set.at("limits").at(0).at("window"), "day");
  EXPECT_EQ(set.at("limits").at(0).at("algorithm"), "aligned_window");
  EXPECT_EQ(take().status, 429);  // more than 4
  const Json refused =
      admin("POST", "/v1/overrides",
            {{"rule", "tokens"},
             {"dialect", "native"},
             {"actor", "acme"},
             {"limit", {{"quota", 4}, {"window", "day"}, {"time_zone", "Europe/Berln"}}}});
  EXPECT_NE(refused.dump().find("did you mean `Europe/Berlin`?"), std::string::npos) << refused;
}

TEST(CalendarDoors, RespTakesThem) {
  const RespServer server;
  RespClient client = server.client();
  const auto first = client({"SLUICE.TAKE", "KEY", "k", "LIMIT", "100", "month", "ZONE",
                             "Europe/Berlin", "MONTHDAY", "9", "N", "30"});
  ASSERT_EQ(first.list.size(), 5u) << to_text(first);
  EXPECT_EQ(first.list[0].number, 1);
  EXPECT_EQ(first.list[2].number, 70);
  EXPECT_LE(first.list[4].number, int64_t{32} * 86'400'000);
  const auto same = client({"SLUICE.TAKE", "KEY", "k", "LIMIT", "100", "MONTH", "MONTHDAY", "9",
                            "ALGORITHM", "aligned_window", "ZONE", "Europe/Berlin", "N", "71"});
  EXPECT_EQ(same.list[0].number, 0) << to_text(same);
  for (const auto& words : {std::vector<std::string>{"week", "WEEKSTARTS", "Sunday"},
                            {"year", "YEARDAY", "04-06"},
                            {"day", "STARTSAT", "06:00"},
                            {"hour"}}) {
    std::vector<std::string> command = {"SLUICE.TAKE", "KEY", "other", "LIMIT", "5"};
    command.insert(command.end(), words.begin(), words.end());
    EXPECT_EQ(client(command).list.size(), 5u) << words[0];
  }
  for (const auto& [words, text] :
       std::initializer_list<std::pair<std::vector<std::string>, const char*>>{
           {{"month", "ZONE", "Europe/Atlantis"}, "ERR ZONE: `Europe/Atlantis` is not a time zone"},
           {{"month", "WEEKSTARTS", "monday"}, "ERR WEEKSTARTS: belongs to `window: week`"},
           {{"1h", "ZONE", "UTC"}, "ERR ZONE: belongs to a window of the calendar"},
           {{"month", "ALGORITHM", "sliding_log"}, "ERR a window of the calendar is of aligned"},
           {{"month", "ZONE", "UTC", "ZONE", "UTC"}, "ERR syntax error"},
           {{"month", "BURST", "5"}, "ERR BURST is for token_bucket only"},
           {{"month", "MONTHDAY"}, "ERR syntax error"}}) {
    std::vector<std::string> command = {"SLUICE.TAKE", "KEY", "other", "LIMIT", "5"};
    command.insert(command.end(), words.begin(), words.end());
    const auto answer = client(command);
    EXPECT_EQ(answer.type, RespValue::Type::error);
    EXPECT_EQ(answer.text.substr(0, std::string(text).size()), text);
  }
}

}  // namespace
}  // namespace sluice::tests::calendar_e2e
