// Commands that ask several servers (cli/fleet.h), against made-up ones: sums, and a server that
// does not answer. tests/e2e/denials_test.cc has real servers.
#include "cli/fleet.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/admin_commands_test.h"
#include "testing/loopback_listener.h"

namespace sluice::cli::fleet_test {
namespace {

class FleetCommands : public AdminCommands {
 protected:
  static std::string answer_of(const std::map<std::string, std::string>& answers,
                               const Request& request) {
    const auto at = answers.find(request.method + " " + request.target);
    return at == answers.end() ? problem(404, "there is nothing here") : at->second;
  }
  // Runs the command against both servers, and against `more`.
  int ask_all(Words words, const Words& more = {}) {
    words.insert(words.end(), {"--admin", server.address(), "--admin", other.address()});
    for (const std::string& one : more) words.insert(words.end(), {"--admin", one});
    return command(words);
  }
  // An address at which no server listens.
  static std::string dead() {
    const tests::LoopbackListener gone;
    return "127.0.0.1:" + std::to_string(gone.port());
  }

  std::map<std::string, std::string> others;
  FakeHttp other{[this](const Request& request) { return answer_of(others, request); }};
};

Json denial(const char* actor, int64_t denied, const char* first, const char* last) {
  return {{"dialect", "native"},
          {"rule", "login"},
          {"actor", actor},
          {"counter", "c"},
          {"path", "c"},
          {"limit", {{"algorithm", "fixed_window"}, {"quota", 5}, {"window", "1m"}}},
          {"denied", denied},
          {"first", first},
          {"last", last}};
}

Json denials_answer(const Json& items, int64_t dropped = 0) {
  return {{"since", "2026-11-28T12:00:00Z"},
          {"until", "2026-11-28T14:00:00Z"},
          {"started", "2026-11-27T00:00:00Z"},
          {"items", items},
          {"more", 0},
          {"dropped", dropped}};
}

const char* const asked = "GET /v1/denials?since=2h&limit=100&actor=acme";

TEST_F(FleetCommands, DenialsOfSeveralServersAreOneList) {
  answers[asked] = page(denials_answer(
      Json::array({denial("acme", 3, "2026-11-28T12:10:00Z", "2026-11-28T12:20:00Z")}), 4));
  others[asked] =
      page(denials_answer({denial("acme", 1200, "2026-11-28T12:01:00Z", "2026-11-28T12:15:00Z"),
                           denial("acme|x", 1, "2026-11-28T13:00:00Z", "2026-11-28T13:00:00Z")},
                          1));
  EXPECT_EQ(ask_all({"denials", "--actor", "acme", "--since", "2h"}), 0) << err;
  EXPECT_EQ(out,
            "LAST                  FIRST                 DENIED  WHO     RULE   LIMIT\n"
            "2026-11-28T13:00:00Z  2026-11-28T13:00:00Z       1  acme|x  login  5 per 1m\n"
            "2026-11-28T12:20:00Z  2026-11-28T12:01:00Z   1,203  acme    login  5 per 1m\n");
  EXPECT_EQ(err, "note: 5 refusals are not listed: too many actors were refused at that time\n");
  EXPECT_EQ(ask_all({"denials", "--actor", "acme", "--since", "2h", "--json"}), 0) << err;
  EXPECT_EQ(result()["items"][1]["denied"], 1203);
  EXPECT_EQ(result()["servers"], Json({server.address(), other.address()}));
  EXPECT_EQ(result()["unanswered"], Json::array());
}

TEST_F(FleetCommands, AServerThatDoesNotAnswerIsNamed) {
  const Json items =
      Json::array({denial("acme", 3, "2026-11-28T12:10:00Z", "2026-11-28T12:20:00Z")});
  for (auto* one : {&answers, &others}) (*one)[asked] = page(denials_answer(items));
  const std::string gone = dead();
  const Words words{"denials", "--actor", "acme", "--since", "2h"};
  EXPECT_EQ(ask_all(words, {gone}), 3);
  EXPECT_TRUE(said(out, "     6  acme  login  5 per 1m\n")) << out;
  EXPECT_TRUE(said(err, "error: " + gone + ": cannot connect")) << err;
  Words json = words;
  json.push_back("--json");
  EXPECT_EQ(ask_all(json, {gone}), 3);
  EXPECT_EQ(result()["items"][0]["denied"], 6);
  EXPECT_EQ(result()["unanswered"][0]["admin"], gone);
  EXPECT_EQ(err, "");

  others[asked] = problem(503, "a worker does not answer; try again");
  EXPECT_EQ(ask_all(words), 3);
  EXPECT_EQ(err, "error: " + other.address() + ": a worker does not answer; try again\n");
  answers.clear();
  others.clear();
  EXPECT_EQ(ask_all(words), 3);
  EXPECT_EQ(out, "");
  EXPECT_EQ(ask_all({"denials"}, {server.address()}), 2) << "a server is named twice";
}

TEST_F(FleetCommands, TopAddsUpTheServers) {
  const auto item = [](const char* who, int64_t allowed, int64_t denied) {
    return Json{{"dialect", "native"}, {"rule", "r"},        {"counter", who},   {"path", who},
                {"actor", who},        {"allowed", allowed}, {"denied", denied}, {"error_max", 1}};
  };
  const char* const top = "GET /v1/top?by=denied&limit=100";
  answers[top] = page({{"window_seconds", 300},
                       {"by", "denied"},
                       {"items", {item("a", 10, 5), item("b", 1, 4)}},
                       {"tracked_max", 512}});
  others[top] = page({{"window_seconds", 320},
                      {"by", "denied"},
                      {"items", {item("b", 2, 40)}},
                      {"tracked_max", 512}});
  for (auto* one : {&answers, &others}) (*one)["GET /v1/status"] = page(status_answer());
  others["GET /v1/counters/b"] = page(
      {{"limits",
        {{{"algorithm", "fixed_window"}, {"quota", 3}, {"window", "1h"}, {"allowed", false}}}}});
  const std::string gone = dead();
  EXPECT_EQ(ask_all({"top", "--over", "0s"}, {gone}), 3);
  EXPECT_EQ(out, "sluice 0.1.0 at " + server.address() + ": 7 counters, policy generation 4\n" +
                     "sluice 0.1.0 at " + other.address() + ": 7 counters, policy generation 4\n" +
                     "most denied of the last 5m20s\n\n"
                     "WHO  RULE  REFUSES NOW  DENIED/S  ALLOWED/S  DENIED  ALLOWED\n"
                     "b    r     3 per 1h            -          -      44        3\n"
                     "a    r                         -          -       5       10\n");
  EXPECT_TRUE(said(err, "error: " + gone + ": cannot connect")) << err;
  EXPECT_EQ(ask_all({"top", "--json", "--over", "0s"}), 0) << err;
  EXPECT_EQ(result()["items"][0]["denied"], 44);
  EXPECT_EQ(result()["items"][0]["error_max"], 2);
  EXPECT_FALSE(result()["items"][0].contains("at"));
  EXPECT_EQ(result()["servers"].size(), 2u);
}

Json counter_of(const char* name, int64_t remaining) {
  return {{"counter", name},
          {"path", name},
          {"limits",
           {{{"algorithm", "fixed_window"},
             {"quota", 5},
             {"window", "1m"},
             {"window_ms", 60000},
             {"allowed", remaining > 0},
             {"remaining", remaining}}}}};
}

TEST_F(FleetCommands, CountersAddUpTheServersButNotARedisThatTheyShare) {
  const char* const counters = "GET /v1/counters?actor=acme&limit=1000";
  answers[counters] = page({{"counters", {counter_of("n:acme", 0)}}});
  others[counters] = page({{"counters", {counter_of("n:acme", 3), counter_of("o:acme", 4)}}});
  for (auto* one : {&answers, &others}) (*one)["GET /v1/status"] = page(status_answer());
  EXPECT_EQ(ask_all({"counters", "--actor", "acme"}), 0) << err;
  EXPECT_EQ(out,
            "COUNTER  HOW IT STANDS\n"
            "n:acme   7 taken on 2 servers, of 5 per 1m each, refused by 1\n"
            "o:acme   1 taken on 1 server, of 5 per 1m\n");
  EXPECT_EQ(ask_all({"counters", "--actor", "acme", "--json"}), 0) << err;
  EXPECT_EQ(result()["counters"][0]["limits"][0]["remaining"], 3);

  Json in_redis = status_answer();
  in_redis["store"]["kind"] = "redis";
  for (auto* one : {&answers, &others}) (*one)["GET /v1/status"] = page(in_redis);
  EXPECT_EQ(ask_all({"counters", "--actor", "acme", "--json"}), 0) << err;
  EXPECT_EQ(result()["counters"][0]["limits"][0]["taken"], 5);
  EXPECT_EQ(result()["counters"][0]["servers"], 1);
}

TEST_F(FleetCommands, DenialsOfOneServerAreItsAnswer) {
  Json item = denial("acme", 2, "2026-11-28T12:10:00Z", "2026-11-28T12:20:00Z");
  item["shadow"] = true;
  item["limit"] = {{"algorithm", "deny"}, {"quota", 0}};
  Json answer = denials_answer(Json::array({item}));
  answer["since"] = answer["started"];
  answer["more"] = 7;
  answers["GET /v1/denials?since=1h&limit=1&rule=log%20in"] = page(answer);
  EXPECT_EQ(ask({"denials", "--limit", "1", "--rule", "log in"}), 0) << err;
  EXPECT_TRUE(said(out, "acme  login (shadow)  always denied\n")) << out;
  EXPECT_EQ(err,
            "note: 7 more are not shown; --limit N shows more of them\n"
            "note: what was refused before the server started, at 2026-11-27T00:00:00Z, is not "
            "known\n");
  EXPECT_EQ(ask({"denials", "--limit", "1", "--rule", "log in", "--json"}), 0);
  EXPECT_EQ(result(), answer);
  for (const Words& wrong : {Words{"denials", "--since", "2d"}, Words{"denials", "--since", "0s"},
                             Words{"denials", "--since", ""}, Words{"denials", "--limit", "0"},
                             Words{"denials", "--limit", "1001"}, Words{"denials", "word"}})
    EXPECT_EQ(ask(wrong), 2) << wrong.back();
}

}  // namespace
}  // namespace sluice::cli::fleet_test
