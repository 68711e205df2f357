// GET /v1/denials and `sluice denials` of the real binary: what was refused, over all workers and
// protocols, and of several servers.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/support/divvy_server.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::denials_test {
namespace {

std::string rules_with(const std::string& name) {
  return "listen:\n"
         "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
         "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
         "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
         "rules:\n"
         "  - { name: tried, match: { user: '*' }, actor: user, mode: shadow,\n"
         "      limit: { quota: 1, window: 1h, algorithm: fixed_window } }\n"
         "  - { name: " +
         name +
         ", match: { user: '*' }, actor: user,\n"
         "      limits: [ { quota: 5, window: 1m, algorithm: fixed_window },\n"
         "                { quota: 3, window: 1h, algorithm: fixed_window } ] }\n"
         "  - { name: closed, match: { at: '*' }, deny: true }\n";
}

struct Served {
  Served() {
    folder.write("sluice.yaml", rules_with("first"));
    process = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", folder.path() + "/sluice.yaml", "--workers", "2"}});
    divvy = await_listening(*process);
    http_port = await_listening(*process, "http");
    admin = await_listening(*process, "admin");
  }
  Json denials(const std::string& query = "") const {
    const HttpAnswer answer = ask(admin, "GET", "/v1/denials" + query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer);
  }
  // Twice as many connections as workers, so both refuse.
  void hit(const std::string& line, int times) const {
    std::vector<TcpClient> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(*TcpClient::connect(divvy));
    for (int i = 0; i < times; ++i) clients[static_cast<size_t>(i % 4)].ask("HIT " + line);
  }
  std::string admin_address() const { return "127.0.0.1:" + std::to_string(admin); }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t divvy = 0, http_port = 0, admin = 0;
};

TEST(DenialsOfTheServer, SayWhichLimitOfWhichRuleRefusedAnActor) {
  const Served served;
  EXPECT_TRUE(served.denials().at("items").empty());
  served.hit("user=acme", 10);
  served.hit("user=bolt", 3);
  served.hit("at=door", 2);
  const Json acme = served.denials("?actor=acme&since=2h");
  ASSERT_EQ(acme.at("items").size(), 2u) << acme;
  EXPECT_EQ(acme.at("dropped"), 0);
  EXPECT_EQ(acme.at("since"), acme.at("started"));
  for (Json one : acme.at("items")) {
    const bool shadow = one.contains("shadow");
    EXPECT_LE(one.at("first"), one.at("last"));
    EXPECT_EQ(one.at("denied"), shadow ? 9 : 7);
    EXPECT_EQ(one.at("rule"), shadow ? "tried" : "first");
    EXPECT_EQ(one.at("actor"), "acme");
    EXPECT_EQ(one.at("dialect"), "native");
    EXPECT_EQ(one.at("limit").at("quota"), shadow ? 1 : 3);
    EXPECT_EQ(one.at("limit").at("window"), "1h");
    if (!shadow) {
      EXPECT_EQ(one.at("counter"), "native:first:acme:user");
    }
  }
  const Json closed = served.denials("?rule=clos").at("items");
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].at("limit").at("algorithm"), "deny");
  EXPECT_EQ(closed[0].at("denied"), 2);
  EXPECT_EQ(served.denials("?limit=1").at("items").size(), 1u);
  EXPECT_EQ(served.denials("?limit=1").at("more"), 3);
  EXPECT_TRUE(served.denials("?actor=nothing").at("items").empty());
}

TEST(DenialsOfTheServer, SurviveAReloadThatRenamesTheirRule) {
  const Served served;
  served.hit("user=acme", 4);
  served.folder.write("sluice.yaml", rules_with("second"));
  ASSERT_EQ(ask(served.admin, "POST", "/v1/reload").status, 200);
  served.hit("user=acme", 5);
  const Json items = served.denials("?actor=acme").at("items");
  std::map<std::string, int> denied;
  for (const Json& one : items) denied[one.at("rule")] = one.at("denied");
  EXPECT_EQ(denied, (std::map<std::string, int>{{"tried", 8}, {"first", 1}, {"second", 2}}));
}

TEST(DenialsOfTheServer, HaveARequestThatWaitedForNothing) {
  const Served served;
  served.hit("user=acme", 3);
  const std::string body = R"({"entries": {"user": "acme"}, "timeout": 0.01})";
  const std::string type = "Content-Type: application/json\r\n";
  EXPECT_EQ(http(served.http_port, "POST", "/v1/wait", body, type).status, 408);
  const std::string never = R"({"entries": {"user": "acme"}, "n": 4, "timeout": 60})";
  EXPECT_EQ(http(served.http_port, "POST", "/v1/wait", never, type).status, 429);
  const Json items = served.denials("?rule=first").at("items");
  ASSERT_EQ(items.size(), 1u) << items;
  EXPECT_EQ(items[0].at("denied"), 2);
  EXPECT_EQ(items[0].at("limit").at("quota"), 3);
}

TEST(DenialsOfTheServer, RejectInvalidQueries) {
  const Served served;
  for (const char* query :
       {"?since=0s", "?since=25h", "?since=", "?since=yesterday", "?limit=0", "?limit=1001"})
    EXPECT_EQ(ask(served.admin, "GET", std::string("/v1/denials") + query).status, 400) << query;
  EXPECT_EQ(ask(served.admin, "POST", "/v1/denials").status, 405);
}

TEST(DenialsOfTheServer, AreSummedOverAFleet) {
  const Served one, other;
  one.hit("user=acme", 5);
  other.hit("user=acme", 6);
  const auto asked = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--admin", one.admin_address(), "--admin", other.admin_address(),
                               "--timeout", "20000"});
    return run({.arguments = std::move(words)});
  };
  const Finished denials = asked({"denials", "--actor", "acme", "--rule", "first", "--json"});
  EXPECT_EQ(denials.status, 0) << denials.err;
  EXPECT_EQ(Json::parse(denials.out).at("items")[0].at("denied"), 5);
  const Finished top = asked({"top", "--over", "0s", "--json"});
  EXPECT_EQ(top.status, 0) << top.err;
  EXPECT_EQ(Json::parse(top.out).at("items")[0].at("denied"), 5);
  const Finished counters = asked({"counters", "--actor", "acme", "--json"});
  EXPECT_EQ(counters.status, 0) << counters.err;
  const Json listed = Json::parse(counters.out);
  for (const Json& counter : listed.at("counters"))
    if (counter.at("counter") == "native:first:acme:user") {
      EXPECT_EQ(counter.at("limits")[1].at("taken"), 6);
    }
}

}  // namespace
}  // namespace sluice::tests::denials_test
