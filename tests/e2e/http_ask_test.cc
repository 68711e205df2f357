// `sluice ask http` with a real server: the output and the exit codes.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/http_peers.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::http_e2e {
namespace {

using Words = std::vector<std::string>;

struct Printed {
  int status = 0;
  std::string out, err;
};

Printed ask_at(const std::string& server, Words words,
               const std::map<std::string, std::string>& environment = {}) {
  words.insert(words.begin(), {"ask", "http", "--timeout", "20000", "--server", server});
  const auto finished = run({.arguments = words, .environment = environment});
  return {finished.status, finished.out, finished.err};
}

class HttpAsk : public testing::Test {
 protected:
  Printed ask(const Words& words) const {
    return ask_at("127.0.0.1:" + std::to_string(door_.port()), words);
  }
  // The output. The exit code must be `status`.
  std::string told(const Words& words, int status) const {
    const Printed printed = ask(words);
    EXPECT_EQ(printed.status, status) << printed.out << printed.err;
    return printed.out + printed.err;
  }

  Door door_;
};

TEST_F(HttpAsk, TakesByTheRules) {
  const Words login{"method=POST", "path=/login", "ip=10.0.0.7"};
  const auto with = [&](Words words) {
    words.insert(words.end(), login.begin(), login.end());
    return words;
  };
  EXPECT_EQ(told(with({"take"}), 0).substr(0, 46),
            "allowed: 4 of 5 left, all of them again within");
  EXPECT_EQ(told(with({"take", "--n", "3"}), 0).substr(0, 21), "allowed: 1 of 5 left,");
  EXPECT_EQ(told(with({"peek", "--n", "2"}), 1).substr(0, 34),
            "denied: 1 of 5 left, try again in ");
  EXPECT_EQ(told(with({"take", "--n", "2"}), 1).substr(0, 34),
            "denied: 1 of 5 left, try again in ");
  EXPECT_EQ(told(with({"take", "--n", "6"}), 1),
            "denied: 1 of 5 left, and waiting does not help (rule login)\n");
  EXPECT_EQ(told(with({"put", "--n", "3"}), 0), "4 of 5 left\n");
  EXPECT_EQ(told(with({"peek", "--n", "0"}), 0).substr(0, 21), "allowed: 4 of 5 left,");
  EXPECT_EQ(told(with({"reset"}), 0), "1 counter reset\n");
  EXPECT_EQ(told(with({"reset"}), 0), "0 counters reset\n");
  EXPECT_EQ(told({"take", "closed=x"}, 1),
            "denied: 0 of 0 left, and waiting does not help (rule closed)\n");
  EXPECT_EQ(told({"take", "open=x"}, 0), "allowed: unlimited (rule open)\n");
  EXPECT_EQ(told({"health"}, 0), "the server is ready\n");
}

TEST_F(HttpAsk, TakesByInlineLimits) {
  const Words key{
      "take", "--key", "user:17", "--limit", "3/1h:fixed_window", "--limit", "2/1d:token_bucket:2"};
  EXPECT_EQ(told(key, 0).substr(0, 21), "allowed: 1 of 2 left,");
  EXPECT_EQ(told(key, 0).substr(0, 21), "allowed: 0 of 2 left,");
  const std::string denied = told(key, 1);
  EXPECT_EQ(denied.substr(0, 34), "denied: 0 of 2 left, try again in ");
  EXPECT_TRUE(denied.ends_with(" (rule 2)\n")) << denied;
  EXPECT_NE(told({"take", "--key", "k", "--limit", "0/1h"}, 3).find("(400)"), std::string::npos);
  // An option takes one word, wherever it stands.
  EXPECT_EQ(told({"--key", "user:18", "--limit", "3/1h:fixed_window", "take"}, 0).substr(0, 21),
            "allowed: 2 of 3 left,");
}

TEST_F(HttpAsk, WaitsForUnits) {
  const Words jar{"--n", "2", "jar=j"};
  const auto with = [&](Words words) {
    words.insert(words.end(), jar.begin(), jar.end());
    return words;
  };
  EXPECT_EQ(told(with({"wait"}), 0), "allowed: 0 of 2 left (rule jar)\n");
  EXPECT_EQ(told(with({"wait", "--wait", "0.05"}), 3),
            "error: the server refused (408): there were not enough units in time; nothing was "
            "charged\n");
  EXPECT_EQ(told(with({"wait", "--wait", "0"}), 1).substr(0, 19), "denied: 0 of 2 left");
  EXPECT_EQ(told(with({"wait", "--wait", "61s"}), 3),
            "error: the server refused (400): `timeout` is longer than 1m, the most that "
            "`http.max_wait` allows; ask for less, or raise it\n");
}

TEST_F(HttpAsk, ReservesAndSettles) {
  const std::string id = "ask-0000-0000-0001";
  EXPECT_EQ(
      told({"reserve", "tenant=r", "--n", "4", "--id", id, "--ttl", "5m", "--holder", "h"}, 0),
      "held: 4 for 5m, 6 of 10 left (rule pair), id " + id + "\n");
  EXPECT_EQ(told({"extend", "--id", id, "--n", "7"}, 1).substr(0, 35),
            "denied: 6 of 10 left, try again in ");
  EXPECT_EQ(told({"extend", "--id", id, "--n", "2", "--ttl", "60"}, 0),
            "held: 6 for 1m, 4 of 10 left (rule pair), id " + id + "\n");
  EXPECT_EQ(told({"renew", "--id", id, "--ttl", "30"}, 0), "renewed: ends in 30s\n");
  EXPECT_EQ(told({"commit", "--id", id, "--n", "1"}, 0),
            "committed: 1 used, 5 went back, 9 of 10 left (rule pair)\n");
  EXPECT_EQ(told({"commit", "--id", id, "--n", "1"}, 0),
            "committed: 1 used, 5 went back, 9 of 10 left, committed before (rule pair)\n");
  EXPECT_EQ(told({"release", "--id", id}, 3),
            "error: the server refused (409): the reservation is committed, with the units in `n`; "
            "nothing was changed\n");
  EXPECT_EQ(told({"commit", "--id", "ask-0000-0000-0002", "--n", "12", "tenant=r"}, 0),
            "committed: 12 used, 0 went back, 12 charged, 3 beyond 10, late (rule pair)\n");
  EXPECT_EQ(told({"reserve", "tenant=r"}, 1).substr(0, 22), "denied: 0 of 10 left, ");
  const Json made = Json::parse(told({"reserve", "--json", "jar=r"}, 0));
  EXPECT_EQ(told({"release", "--id", made.at("id")}, 0), "released: 1 went back\n");
}

TEST_F(HttpAsk, PrintsJsonIfAskedTo) {
  const Json taken = Json::parse(told({"take", "--json", "tenant=t"}, 0));
  EXPECT_EQ(taken.at("remaining"), 9);
  const Json refused = Json::parse(told({"take", "--json", "no=rule"}, 3));
  EXPECT_NE(refused.dump().find("no rule of the policy applies"), std::string::npos) << refused;
}

TEST_F(HttpAsk, ReportsErrors) {
  EXPECT_EQ(told({"take", "no=rule"}, 3),
            "error: the server refused (404): no rule of the policy applies to these entries\n");
  EXPECT_EQ(
      told({"explain", "jar=j"}, 3),
      "error: the server refused (403): this needs the right `admin`, which the user does not "
      "have\n");
  for (const Words& words : {Words{},
                             Words{"give"},
                             Words{"take"},
                             Words{"take", "jar"},
                             Words{"take", "=x"},
                             Words{"take", "--key", "k"},
                             Words{"take", "--limit", "1/1s"},
                             Words{"take", "--key", "k", "--limit", "1", "--n", "1"},
                             Words{"take", "jar=j", "--key", "k", "--limit", "1/1s"},
                             Words{"take", "jar=j", "--n", "-1"},
                             Words{"take", "jar=j", "--n", "x"},
                             Words{"wait", "jar=j", "--wait", "soon"},
                             Words{"wait", "jar=j", "--wait", "-1"},
                             Words{"wait", "jar=j", "--wait", "1e300"},
                             Words{"take", "jar=j", "--user", "app"},
                             Words{"commit", "--id", "ask-0000-0000-0001"},
                             Words{"extend", "--n", "1"},
                             Words{"release", "--id", "ask-0000-0000-0001", "jar=j"},
                             Words{"release", "--id", "ask-0000-0000-0001", "--ttl", "1"},
                             Words{"reserve", "jar=j", "--ttl", "soon"},
                             Words{"take", "jar=j", "--holder", "h"},
                             Words{"take", "jar=j", "--id", "ask-0000-0000-0001"}}) {
    const Printed printed = ask(words);
    EXPECT_EQ(printed.status, 2) << printed.out << printed.err;
    EXPECT_EQ(printed.out, "");
    EXPECT_NE(printed.err.find("Usage: sluice ask http "), std::string::npos) << printed.err;
  }
}

TEST(HttpAskUsers, ShowTheTokenOfTheEnvironment) {
  const Folder folder;
  const std::string token(43, 'a'), file = folder.write("app.token", token + "\n");
  const Door door("{}", std::string(usual_rules) + "users: [{ name: app, token_file: " + file +
                            ", rights: [take] }]\n");
  const std::string server = "127.0.0.1:" + std::to_string(door.port());
  const Printed nobody = ask_at(server, {"take", "jar=j"});
  EXPECT_EQ(nobody.status, 3);
  EXPECT_EQ(nobody.err,
            "error: the server refused (401): send the token of a user, as `Authorization: Bearer "
            "TOKEN` or as Basic with NAME:TOKEN\n");
  const auto as_app = [&](const std::string& shown, const std::string& verb,
                          const std::string& name = "app") {
    return ask_at(server, {verb, "--user", name, "jar=j"}, {{"SLUICE_TOKEN", shown}});
  };
  EXPECT_EQ(as_app(token, "take").status, 0);
  EXPECT_EQ(ask_at(server, {"take", "jar=j"}, {{"SLUICE_TOKEN", token}}).status, 0);
  EXPECT_EQ(as_app(token, "take").status, 1);
  EXPECT_NE(as_app("wrong", "take").err.find("(401)"), std::string::npos);
  EXPECT_NE(as_app(token, "take", "ops").err.find("(401)"), std::string::npos);
  EXPECT_NE(as_app(token, "put").err.find("(403)"), std::string::npos);
  const Printed before = ask_at(server, {"take", "jar=j"}, {{"SLUICE_PASSWORD", "swordfish"}});
  EXPECT_EQ(before.status, 2);
  EXPECT_NE(before.err.find("SLUICE_PASSWORD is not read: set SLUICE_TOKEN"), std::string::npos)
      << before.err;
}

TEST(HttpAskOthers, ReportsAnUnreachableServer) {
  const Printed away = ask_at("127.0.0.1:" + std::to_string(free_port()), {"take", "jar=j"});
  EXPECT_EQ(away.status, 3);
  EXPECT_EQ(away.out, "");
  EXPECT_TRUE(away.err.starts_with("error: ")) << away.err;
  EXPECT_NE(
      away.err.find("refused; is the server up? If it listens elsewhere, name it: `--server "),
      std::string::npos)
      << away.err;
}

TEST(HttpAskOthers, ReportsAnotherProtocolOnThePort) {
  const DivvyServer divvy("policy.ini", "[default]\ncreditLimit = 0\nresetSeconds = 0\n");
  const Printed printed = ask_at("127.0.0.1:" + std::to_string(divvy.port()), {"take", "jar=j"});
  EXPECT_EQ(printed.status, 3);
  EXPECT_EQ(printed.out, "");
  EXPECT_EQ(printed.err,
            "error: that is not a response of HTTP/1.1; it answers as a server of a line protocol "
            "does: is that the port you mean?\n");
  const Door door;
  const Printed admin = ask_at("127.0.0.1:" + std::to_string(door.admin()), {"take", "jar=j"});
  EXPECT_EQ(admin.status, 3);
  EXPECT_NE(admin.err.find("404"), std::string::npos) << admin.err;
}

}  // namespace
}  // namespace sluice::tests::http_e2e
