// `sluice ask resp`: what it prints and which status it exits with, for servers with fixed replies.
// tests/e2e/resp_ask_test.cc runs it against a real server.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command_test.h"
#include "protocol/resp/answer.h"
#include "protocol/resp/reply_text.h"
#include "testing/fake_server.h"

namespace sluice::resp::ask_test {
namespace {

using nlohmann::json;
using Kind = RespValue::Kind;

TEST(RespValues, HoldAllThatAReplyHolds) {
  const auto list = resp_value("*3\r\n:-7\r\n%1\r\n+a\r\n$1\r\nb\r\n*-1\r\n");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[0].number, -7);
  EXPECT_EQ(list->items[1].kind, Kind::map);
  ASSERT_EQ(list->items[1].items.size(), 2u);
  EXPECT_EQ(list->items[1].items[0].text, "a");
  EXPECT_EQ(list->items[1].items[1].text, "b");
  EXPECT_EQ(list->items[2].kind, Kind::null);
  // An attribute describes the reply that follows, and is not a part of it.
  const auto with = resp_value("*2\r\n|1\r\n+ttl\r\n*1\r\n:3\r\n:1\r\n:2\r\n");
  ASSERT_TRUE(with);
  ASSERT_EQ(with->items.size(), 2u);
  EXPECT_EQ(with->items[0].number, 1);
  EXPECT_EQ(with->items[1].number, 2);
}

TEST(RespValues, AreNotNestedWithoutEnd) {
  const auto nested = [](size_t depth) {
    std::string bytes;
    for (size_t i = 0; i < depth; ++i) bytes += "*1\r\n";
    return resp_value(bytes + ":1\r\n");
  };
  EXPECT_TRUE(nested(resp_depth_max));
  EXPECT_FALSE(nested(resp_depth_max + 1));
}

std::string as_cli(std::string_view bytes) {
  const auto value = resp_value(bytes);
  return value ? as_redis_cli(*value) : "(none)";
}

TEST(RedisCliText, IsWhatRedisCliPrints) {
  EXPECT_EQ(as_cli("+OK\r\n"), "OK\n");
  EXPECT_EQ(as_cli("-ERR no\r\n"), "(error) ERR no\n");
  EXPECT_EQ(as_cli(":-3\r\n"), "(integer) -3\n");
  EXPECT_EQ(as_cli("$-1\r\n"), "(nil)\n");
  EXPECT_EQ(as_cli("*-1\r\n"), "(nil)\n");
  EXPECT_EQ(as_cli("$7\r\na\"\\\n\xff\x1b\x7f\r\n"), "\"a\\\"\\\\\\n\\xff\\x1b\\x7f\"\n");
  EXPECT_EQ(as_cli("*0\r\n"), "(empty array)\n");
  EXPECT_EQ(as_cli("%0\r\n"), "(empty hash)\n");
  EXPECT_EQ(as_cli("#t\r\n"), "(true)\n");
  EXPECT_EQ(as_cli(",1.1\r\n"), "(double) 1.1\n");
  EXPECT_EQ(as_cli("*2\r\n*2\r\n:1\r\n:2\r\n$1\r\nx\r\n"),
            "1) 1) (integer) 1\n   2) (integer) 2\n2) \"x\"\n");
  EXPECT_EQ(as_cli("%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n:2\r\n:3\r\n"),
            "1# \"a\" => (integer) 1\n2# \"b\" => 1) (integer) 2\n   2) (integer) 3\n");
  std::string ten = "*10\r\n";
  for (int i = 0; i < 10; ++i) ten += ":7\r\n";
  EXPECT_TRUE(as_cli(ten).starts_with(" 1) (integer) 7\n 2) (integer) 7\n")) << as_cli(ten);
  EXPECT_TRUE(as_cli(ten).ends_with("\n10) (integer) 7\n")) << as_cli(ten);
  // A server's reply cannot send control characters to the terminal.
  EXPECT_EQ(as_cli("+a\x1b[31m\r\n"), "a\\x1b[31m\n");
}

TEST(RedisCliText, LeavesTheTextOfInfoAndListsUnchanged) {
  const RespValue text{Kind::bulk, "# Server\r\na:\x1b\r\n", 0, 0, {}};
  const std::string_view info[] = {"INFO", "server"}, list[] = {"client", "list"},
                         get[] = {"GET", "info"};
  EXPECT_EQ(as_redis_cli(text, info), "# Server\na:\\x1b\n");
  EXPECT_EQ(as_redis_cli(text, list), "# Server\na:\\x1b\n");
  EXPECT_EQ(as_redis_cli(text, get), "\"# Server\\r\\na:\\x1b\\r\\n\"\n");
}

TEST(AskedCommands, ExpandShortNamesOfSluicesOwnCommands) {
  const auto of = [](const std::string& word) {
    const std::string words[] = {word};
    const AskedCommand command = asked_command(words);
    return std::pair(std::string(command.name), command.form);
  };
  EXPECT_EQ(of("take"), std::pair(std::string("SLUICE.TAKE"), ReplyForm::take));
  EXPECT_EQ(of("charge"), std::pair(std::string("SLUICE.CHARGE"), ReplyForm::charge));
  EXPECT_EQ(of("sluice.Peek"), std::pair(std::string("SLUICE.PEEK"), ReplyForm::take));
  EXPECT_EQ(of("info"), std::pair(std::string("SLUICE.INFO"), ReplyForm::info));
  EXPECT_EQ(of("reserve"), std::pair(std::string("SLUICE.RESERVE"), ReplyForm::hold));
  EXPECT_EQ(of("INFO"), std::pair(std::string("INFO"), ReplyForm::other));
  EXPECT_EQ(of("Cl.Throttle"), std::pair(std::string("CL.THROTTLE"), ReplyForm::cell));
  EXPECT_EQ(of("throttle"), std::pair(std::string("THROTTLE"), ReplyForm::throttle));
  EXPECT_EQ(of(""), std::pair(std::string(), ReplyForm::other));
  EXPECT_EQ(of("get"), std::pair(std::string("get"), ReplyForm::other));
}

class RespAsk : public cli::CommandTest {
 protected:
  struct Said {
    int status;
    std::string text;
    friend bool operator==(const Said&, const Said&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Said& said) {
      return out << said.status << " " << said.text;
    }
  };
  // The exit status, and what is printed on standard output and standard error, if a server answers
  // `words` with `reply`.
  Said ask(const std::string& reply, cli::Words words, bool as_json = false) {
    calls::FakeServer server({reply}, "k=v\r\n");
    words.insert(words.begin(),
                 {"ask", "resp", "--server", "127.0.0.1:" + std::to_string(server.port()),
                  "--timeout", "20000"});
    if (as_json) words.insert(words.begin() + 2, "--json");
    words.emplace_back("k=v");
    const int status = command(words);
    asked_ = server.lines().empty() ? "" : server.lines().front();
    return {status, out + err};
  }
  json ask_json(const std::string& reply, const cli::Words& words, int status) {
    EXPECT_EQ(ask(reply, words, true).status, status) << out;
    return json::parse(out);
  }

  std::string asked_;  // what was sent to the server, without its last word
};

TEST_F(RespAsk, SaysWhetherAChargeWentPastALimit) {
  EXPECT_EQ(ask("*6\r\n:1\r\n:100\r\n:10\r\n:0\r\n:60000\r\n:0\r\n", {"charge"}),
            (Said{0, "within: 10 of 100 left\n"}));
  EXPECT_EQ(asked_.substr(0, 24), "*2\r\n$13\r\nSLUICE.CHARGE\r\n");
  EXPECT_EQ(ask("*7\r\n:1\r\n:100\r\n:10\r\n:0\r\n:60000\r\n:0\r\n:5\r\n", {"charge"}),
            (Said{0, "within: 10 of 100 left\n"}));
  EXPECT_EQ(ask("*7\r\n:0\r\n:100\r\n:0\r\n:9000\r\n:9000\r\n:15\r\n$3\r\ntok\r\n", {"charge"}),
            (Said{1, "over: 15 beyond 100, one unit again in 9s (rule tok)\n"}));
  EXPECT_EQ(
      ask("*8\r\n:0\r\n:100\r\n:0\r\n:9000\r\n:9000\r\n:15\r\n$3\r\ntok\r\n:25\r\n", {"charge"}),
      (Said{1, "over: 15 beyond 100, one unit again in 9s (rule tok)\n"}));
  EXPECT_EQ(ask_json("*8\r\n:0\r\n:9\r\n:0\r\n:5\r\n:7\r\n:1\r\n$-1\r\n:4\r\n", {"charge"}, 1),
            (json{{"over", true},
                  {"limit", 9},
                  {"remaining", 0},
                  {"retry_after_ms", 5},
                  {"reset_after_ms", 7},
                  {"debt", 1},
                  {"rule", nullptr},
                  {"charged", 4}}));
  EXPECT_EQ(ask("*6\r\n:0\r\n:9\r\n:0\r\n:-1\r\n:-1\r\n:1\r\n", {"charge"}),
            (Said{1, "over: 1 beyond 9, and waiting does not help\n"}));
  EXPECT_EQ(ask_json("*6\r\n:0\r\n:9\r\n:0\r\n:5\r\n:7\r\n:1\r\n", {"charge"}, 1),
            (json{{"over", true},
                  {"limit", 9},
                  {"remaining", 0},
                  {"retry_after_ms", 5},
                  {"reset_after_ms", 7},
                  {"debt", 1}}));
  EXPECT_EQ(ask("-IDINUSE used\r\n", {"charge"}),
            (Said{3, "error: the server refused: IDINUSE used\n"}));
  EXPECT_EQ(ask("*5\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n", {"charge"}),
            (Said{3, "error: that is not a reply to SLUICE.CHARGE\n"}));
}

TEST_F(RespAsk, SaysWhatBecameOfAReservation) {
  const std::string id = "$16\r\nhold-0000-0000-1\r\n";
  const std::string held = ":1\r\n" + id + ":100\r\n:60\r\n:59500\r\n";
  EXPECT_EQ(ask("*5\r\n" + held, {"reserve", "60"}),
            (Said{0, "held for 59s500ms, 60 of 100 left, id hold-0000-0000-1\n"}));
  EXPECT_EQ(asked_.substr(0, 25), "*3\r\n$14\r\nSLUICE.RESERVE\r\n");
  EXPECT_EQ(ask("*5\r\n" + held, {"acquire", "60"}).status, 0);
  EXPECT_EQ(asked_.substr(0, 25), "*3\r\n$14\r\nSLUICE.ACQUIRE\r\n");
  EXPECT_EQ(ask("*6\r\n" + held + "*2\r\n:40\r\n:2\r\n", {"extend"}),
            (Said{0, "held: 40 and 2 for 59s500ms, 60 of 100 left, id hold-0000-0000-1\n"}));
  EXPECT_EQ(ask("*5\r\n:1\r\n" + id + "$-1\r\n$-1\r\n:59500\r\n", {"extend"}),
            (Said{0, "held for 59s500ms, id hold-0000-0000-1\n"}));
  EXPECT_EQ(ask("*5\r\n:1\r\n$-1\r\n:100\r\n:60\r\n:0\r\n", {"reserve"}),
            (Said{0, "allowed, but nothing is held: charge what is used, 60 of 100 left\n"}));
  EXPECT_EQ(ask("*5\r\n:0\r\n$-1\r\n:100\r\n:60\r\n:9000\r\n", {"reserve"}),
            (Said{1, "denied: 60 of 100 left, try again in 9s\n"}));
  EXPECT_EQ(ask("*5\r\n:0\r\n$-1\r\n$-1\r\n$-1\r\n:-1\r\n", {"reserve"}),
            (Said{1, "denied: waiting does not help\n"}));
  EXPECT_EQ(ask("*-1\r\n", {"reserve"}),
            (Said{1, "denied: there were not enough units in time\n"}));
  EXPECT_EQ(ask("*4\r\n:1\r\n" + id + "*2\r\n:9\r\n:8\r\n*-1\r\n", {"mreserve"}),
            (Said{0,
                  "1) (integer) 1\n2) \"hold-0000-0000-1\"\n3) 1) (integer) 9\n   2) (integer) "
                  "8\n4) (nil)\n"}));
  EXPECT_EQ(ask("*2\r\n:0\r\n$-1\r\n", {"mreserve"}).status, 1);
  EXPECT_EQ(ask("*5\r\n:1\r\n:0\r\n:28\r\n:0\r\n:88\r\n", {"commit"}),
            (Said{0, "committed: 28 went back, 88 left\n"}));
  EXPECT_EQ(ask("*5\r\n:0\r\n:1\r\n:0\r\n:12\r\n$-1\r\n", {"commit"}),
            (Said{0, "committed: 0 went back, 12 charged, late, committed before\n"}));
  EXPECT_EQ(ask(":40\r\n", {"release"}), (Said{0, "released: 40 went back\n"}));
  EXPECT_EQ(ask(":60000\r\n", {"renew"}), (Said{0, "renewed: ends in 1m\n"}));
  EXPECT_EQ(ask("-NOID none\r\n", {"renew"}), (Said{3, "error: the server refused: NOID none\n"}));
  for (const char* verb : {"reserve", "extend", "commit", "release", "renew"})
    EXPECT_EQ(ask("*1\r\n:1\r\n", {verb}).status, 3) << verb;
}

TEST_F(RespAsk, PrintsReservationsAsJson) {
  const std::string id = "$16\r\nhold-0000-0000-1\r\n";
  EXPECT_EQ(
      ask_json("*6\r\n:1\r\n" + id + ":100\r\n:60\r\n:59500\r\n*1\r\n:40\r\n", {"reserve"}, 0),
      (json{{"allowed", true},
            {"id", "hold-0000-0000-1"},
            {"limit", 100},
            {"remaining", 60},
            {"ttl_ms", 59500},
            {"reserved", {40}}}));
  EXPECT_EQ(ask_json("*5\r\n:0\r\n$-1\r\n$-1\r\n$-1\r\n:-1\r\n", {"extend"}, 1),
            (json{{"allowed", false},
                  {"id", nullptr},
                  {"limit", nullptr},
                  {"remaining", nullptr},
                  {"retry_after_ms", -1}}));
  EXPECT_EQ(ask_json("*-1\r\n", {"reserve"}, 1), (json{{"allowed", false}, {"timed_out", true}}));
  EXPECT_EQ(ask_json("*5\r\n:1\r\n:0\r\n:28\r\n:0\r\n$-1\r\n", {"commit"}, 0),
            (json{{"changed", true},
                  {"late", false},
                  {"returned", 28},
                  {"charged", 0},
                  {"remaining", nullptr}}));
  EXPECT_EQ(ask_json(":40\r\n", {"release"}, 0), (json{{"returned", 40}}));
  EXPECT_EQ(ask_json(":60000\r\n", {"renew"}, 0), (json{{"ttl_ms", 60000}}));
}

TEST_F(RespAsk, SaysDecisionsInWords) {
  EXPECT_EQ(ask("*5\r\n:1\r\n:10\r\n:9\r\n:0\r\n:5500\r\n", {"take", "a=b", "N", "1"}),
            (Said{0, "allowed: 9 of 10 left, all of them again within 5s500ms\n"}));
  EXPECT_EQ(asked_, "*5\r\n$11\r\nSLUICE.TAKE\r\n$3\r\na=b\r\n$1\r\nN\r\n$1\r\n1\r\n$3\r\n");
  EXPECT_EQ(ask("*5\r\n:1\r\n:10\r\n:10\r\n:0\r\n:0\r\n", {"peek"}),
            (Said{0, "allowed: 10 of 10 left\n"}));
  EXPECT_EQ(ask("*5\r\n:1\r\n:10\r\n:9\r\n:0\r\n:-1\r\n", {"take"}),
            (Said{0, "allowed: 9 of 10 left, more only when they are put back\n"}));
  EXPECT_EQ(ask("*5\r\n:0\r\n:10\r\n:2\r\n:3000\r\n:9000\r\n", {"take"}),
            (Said{1, "denied: 2 of 10 left, try again in 3s\n"}));
  EXPECT_EQ(ask("*5\r\n:0\r\n:10\r\n:2\r\n:-1\r\n:9000\r\n", {"peek"}),
            (Said{1, "denied: 2 of 10 left, and waiting does not help\n"}));
  EXPECT_EQ(ask("*5\r\n:1\r\n:9007199254740991\r\n:9007199254740991\r\n:0\r\n:0\r\n", {"take"}),
            (Said{0, "allowed: unlimited\n"}));
  EXPECT_EQ(ask("*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:0\r\n$5\r\nlogin\r\n", {"take", "WITHNAME"}),
            (Said{0, "allowed: 2 of 3 left (rule login)\n"}));
  EXPECT_EQ(ask("*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:0\r\n$-1\r\n", {"take", "WITHNAME"}),
            (Said{0, "allowed: 2 of 3 left\n"}));
}

TEST_F(RespAsk, PrintsDecisionsOfAllThrottleCommandsAlike) {
  EXPECT_EQ(
      ask("*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:6\r\n", {"cl.throttle", "user:17", "4", "10", "60"}),
      (Said{0, "allowed: 4 of 5 left, all of them again within 6s\n"}));
  EXPECT_TRUE(asked_.starts_with("*6\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser:17\r\n")) << asked_;
  EXPECT_EQ(ask("*5\r\n:1\r\n:5\r\n:0\r\n:6\r\n:30\r\n", {"gcra"}),
            (Said{1, "denied: 0 of 5 left, try again in 6s\n"}));
  EXPECT_EQ(ask("*5\r\n:1\r\n:5\r\n:0\r\n:-1\r\n:30\r\n", {"CL.THROTTLE"}),
            (Said{1, "denied: 0 of 5 left, and waiting does not help\n"}));
  // In replies to THROTTLE 1 means allowed, and the time to reset comes before the time to retry.
  EXPECT_EQ(ask("*5\r\n:1\r\n:5\r\n:4\r\n:180\r\n:0\r\n", {"throttle"}),
            (Said{0, "allowed: 4 of 5 left\n"}));
  EXPECT_EQ(ask("*5\r\n:0\r\n:5\r\n:0\r\n:180\r\n:6\r\n", {"throttle"}),
            (Said{1, "denied: 0 of 5 left, try again in 6s\n"}));
}

TEST_F(RespAsk, SaysTheOtherAnswersInWords) {
  EXPECT_EQ(ask("*2\r\n:7\r\n:10\r\n", {"put", "N", "2"}), (Said{0, "7 of 10 left\n"}));
  EXPECT_EQ(ask(":1\r\n", {"reset"}), (Said{0, "1 counter reset\n"}));
  EXPECT_EQ(ask(":0\r\n", {"reset"}), (Said{0, "0 counters reset\n"}));
  EXPECT_EQ(ask("*4\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$8\r\ncounters\r\n:3\r\n", {"info"}),
            (Said{0, "version: 0.1.0\ncounters: 3\n"}));
}

const std::string explanation =
    "*6\r\n$7\r\nallowed\r\n:0\r\n$4\r\nrule\r\n$5\r\nlogin\r\n$6\r\nlimits\r\n*2\r\n"
    "*16\r\n$7\r\ncounter\r\n$4\r\nip:7\r\n$9\r\nalgorithm\r\n$12\r\ntoken_bucket\r\n"
    "$5\r\nlimit\r\n:10\r\n$9\r\nwindow_ms\r\n:60000\r\n$7\r\nallowed\r\n:1\r\n"
    "$9\r\nremaining\r\n:4\r\n$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:30000\r\n"
    "*16\r\n$7\r\ncounter\r\n$4\r\nip:7\r\n$9\r\nalgorithm\r\n$12\r\nfixed_window\r\n"
    "$5\r\nlimit\r\n:50\r\n$9\r\nwindow_ms\r\n:3600000\r\n$7\r\nallowed\r\n:0\r\n"
    "$9\r\nremaining\r\n:0\r\n$14\r\nretry_after_ms\r\n:2000\r\n$14\r\nreset_after_ms\r\n:2000\r\n";

TEST_F(RespAsk, ExplainsEachLimit) {
  EXPECT_EQ(ask(explanation, {"explain"}),
            (Said{0,
                  "denied by the rule login\n"
                  "  token_bucket of ip:7: 4 of 10 left, all of them again within 30s\n"
                  "  fixed_window of ip:7: denied, 0 of 50 left, try again in 2s\n"}));
  const json told = ask_json(explanation, {"explain"}, 0);
  EXPECT_EQ(told["allowed"], false);
  EXPECT_EQ(told["rule"], "login");
  ASSERT_EQ(told["limits"].size(), 2u);
  EXPECT_EQ(told["limits"][1],
            json::parse(R"({"counter": "ip:7", "algorithm": "fixed_window", "limit": 50,
                "window_ms": 3600000, "allowed": false, "remaining": 0, "retry_after_ms": 2000,
                "reset_after_ms": 2000})"));
}

TEST_F(RespAsk, SaysItInJson) {
  EXPECT_EQ(ask_json("*5\r\n:0\r\n:10\r\n:2\r\n:3000\r\n:9000\r\n", {"take"}, 1),
            json::parse(R"({"allowed": false, "limit": 10, "remaining": 2, "retry_after_ms": 3000,
                            "reset_after_ms": 9000})"));
  EXPECT_EQ(ask_json("*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:-1\r\n$-1\r\n", {"take"}, 0),
            json::parse(R"({"allowed": true, "limit": 3, "remaining": 2, "retry_after_ms": 0,
                            "reset_after_ms": -1, "rule": null})"));
  EXPECT_EQ(ask_json("*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:6\r\n", {"cl.throttle"}, 0),
            json::parse(R"({"allowed": true, "limit": 5, "remaining": 4, "retry_after_seconds": 0,
                            "reset_after_seconds": 6})"));
  EXPECT_EQ(ask_json("*5\r\n:0\r\n:5\r\n:0\r\n:180\r\n:6\r\n", {"throttle"}, 1),
            json::parse(R"({"allowed": false, "limit": 5, "remaining": 0,
                            "retry_after_seconds": 6})"));
  EXPECT_EQ(ask_json("*2\r\n:7\r\n:10\r\n", {"put"}, 0),
            json::parse(R"({"remaining": 7, "limit": 10})"));
  EXPECT_EQ(ask_json(":2\r\n", {"reset"}, 0), json::parse(R"({"counters": 2})"));
  EXPECT_EQ(ask_json("*2\r\n$1\r\na\r\n:3\r\n", {"info"}, 0), json::parse(R"({"a": 3})"));
  EXPECT_EQ(ask_json("*4\r\n+a\r\n:1\r\n$-1\r\n-ERR x\r\n", {"any"}, 0),
            json::parse(R"(["a", 1, null, {"error": "ERR x"}])"));
  EXPECT_EQ(ask_json("%1\r\n+a\r\n#t\r\n", {"any"}, 0), json::parse(R"({"a": true})"));
  EXPECT_EQ(ask_json("-ERR x\r\n", {"any"}, 3), json::parse(R"({"error": "ERR x"})"));
}

TEST_F(RespAsk, PrintsAnyOtherReplyAsRedisCli) {
  EXPECT_EQ(ask("*2\r\n$1\r\na\r\n:2\r\n", {"lrange"}), (Said{0, "1) \"a\"\n2) (integer) 2\n"}));
  EXPECT_EQ(asked_, "*2\r\n$6\r\nlrange\r\n$3\r\n");
  EXPECT_EQ(ask("-ERR unknown command\r\n", {"what"}), (Said{3, "(error) ERR unknown command\n"}));
  EXPECT_EQ(ask(":1\r\n", {"--", "-1"}), (Said{0, "(integer) 1\n"}));
}

TEST_F(RespAsk, SaysWhyItGotNoDecision) {
  EXPECT_EQ(ask("-NORULE no rule applies\r\n", {"take"}),
            (Said{3, "error: the server refused: NORULE no rule applies\n"}));
  EXPECT_EQ(ask_json("-NORULE no rule applies\r\n", {"take"}, 3),
            json::parse(R"({"error": "the server refused: NORULE no rule applies"})"));
  const char* const wrong[] = {":1\r\n",
                               "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
                               "*5\r\n:2\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
                               "*5\r\n:1\r\n:1\r\n+x\r\n:1\r\n:1\r\n",
                               "*0\r\n",
                               "$-1\r\n"};
  for (const char* reply : wrong) {
    EXPECT_EQ(ask(reply, {"take"}), (Said{3, "error: that is not a reply to SLUICE.TAKE\n"}))
        << reply;
    EXPECT_EQ(ask(reply, {"gcra"}), (Said{3, "error: that is not a reply to GCRA\n"})) << reply;
    EXPECT_EQ(ask(reply, {"put"}), (Said{3, "error: that is not a reply to SLUICE.PUT\n"}))
        << reply;
    EXPECT_EQ(ask(reply, {"explain"}), (Said{3, "error: that is not a reply to SLUICE.EXPLAIN\n"}))
        << reply;
  }
  EXPECT_EQ(ask("+OK\r\n", {"reset"}), (Said{3, "error: that is not a reply to SLUICE.RESET\n"}));
  EXPECT_EQ(ask("*1\r\n+a\r\n", {"info"}),
            (Said{3, "error: that is not a reply to SLUICE.INFO\n"}));
  EXPECT_EQ(ask("x\r\n", {"take"}), (Said{3, "error: that is not a reply of Redis' protocol\n"}));
}

TEST_F(RespAsk, ReportsServerErrors) {
  EXPECT_EQ(ask("HTTP/1.1 400 Bad Request\r\n\r\n", {"ping"}),
            (Said{3,
                  "error: that is not a reply of Redis' protocol; it answers as an HTTP server "
                  "does: is that the port you mean?\n"}));
  EXPECT_EQ(ask("+PON", {"ping"}),
            (Said{3,
                  "error: the server closed the connection without a reply; if that port has TLS, "
                  "write https:// or such in front of the address\n"}));
  std::string deep = "*1\r\n";
  for (size_t i = 0; i < resp_depth_max; ++i) deep += "*1\r\n";
  EXPECT_EQ(ask(deep + ":1\r\n", {"ping"}), (Said{3, "error: a reply is nested too deeply\n"}));
  EXPECT_EQ(ask(">2\r\n+news\r\n:1\r\n+PONG\r\n", {"ping"}), (Said{0, "PONG\n"}))
      << "pushes of the server are skipped";
  calls::FakeServer silent({calls::FakeServer::silence}, "k=v\r\n");
  EXPECT_EQ(command({"ask", "resp", "--server", "127.0.0.1:" + std::to_string(silent.port()),
                     "--timeout", "20", "ping", "k=v"}),
            3);
  EXPECT_EQ(err, "error: no reply in time\n");
}

TEST_F(RespAsk, LogsInWithTheTokenOfTheEnvironment) {
  const auto ask_as = [this](const std::string& reply, cli::Words words) {
    calls::FakeServer server({reply, "+PONG\r\n"}, "it's\r\n");
    words.insert(words.begin(),
                 {"ask", "resp", "--server", "127.0.0.1:" + std::to_string(server.port()),
                  "--timeout", "20000"});
    const int status = command(words);
    asked_ = server.lines().empty() ? "" : server.lines().front();
    return Said{status, out + err};
  };
  variables["SLUICE_TOKEN"] = "50% @:/it's";
  EXPECT_EQ(ask_as("-WRONGPASS invalid\r\n", {"--user", "a b", "ping"}),
            (Said{3,
                  "error: the server does not accept the user and token (WRONGPASS invalid): "
                  "correct them, or add the user at the server\n"}));
  EXPECT_EQ(asked_, "*3\r\n$4\r\nAUTH\r\n$3\r\na b\r\n$11\r\n50% @:/");
  ask_as("-WRONGPASS invalid\r\n", {"ping"});
  EXPECT_EQ(asked_, "*2\r\n$4\r\nAUTH\r\n$11\r\n50% @:/");
}

TEST_F(RespAsk, RequiresACommandAndAValidServer) {
  EXPECT_EQ(command({"ask", "resp"}), 2);
  EXPECT_TRUE(said(err, "behind `resp` comes take, charge, peek")) << err;
  EXPECT_EQ(command({"ask", "resp", "--server", "::1:80", "take"}), 2);
  EXPECT_EQ(command({"ask", "resp", "--timeout", "0", "take"}), 2);
  EXPECT_EQ(command({"ask", "resp", "cl.throttle", "k", "1", "1", "1", "-1"}), 2);
  EXPECT_TRUE(said(err, "behind a `--`")) << err;
  EXPECT_EQ(command({"ask", "resp", "--help"}), 0);
  for (const char* part : {"localhost:6380", "--json", "--timeout", "cl.throttle"})
    EXPECT_TRUE(said(out, part)) << part << "\n" << out;
}

}  // namespace
}  // namespace sluice::resp::ask_test
