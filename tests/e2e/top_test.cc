// GET /v1/top of the real binary: the actors that are denied most and that are most active, over
// all workers.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/environment.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::top_test {
namespace {

struct Served {
  explicit Served(const std::string& rules, const std::string& file = "sluice.yaml") {
    process = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", folder.write(file, rules), "--workers", "2"}});
    divvy = await_listening(*process);
    admin = await_listening(*process, "admin");
  }
  Json top(const std::string& query) const {
    const HttpAnswer answer = ask(admin, "GET", "/v1/top" + query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer);
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t divvy = 0, admin = 0;
};

const std::string listeners =
    "listen:\n  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
    "  - { protocol: admin, address: \"127.0.0.1:0\" }\n";

TEST(TopOfTheServer, ListsTheMostDeniedAndTheMostActiveActors) {
  const Served served(
      listeners +
      "rules:\n"
      "  - { name: per-user, match: { user: '*' }, actor: user, limit: { quota: 5, window: 1h } }\n"
      "  - { name: tried, match: { who: '*' }, actor: who, mode: shadow,\n"
      "      limit: { quota: 1, window: 1h } }\n"
      "  - { match: { who: '*', at: '*' }, actor: [who, at], limit: { quota: 2, window: 1h } }\n");
  const Json nobody = served.top("");
  EXPECT_TRUE(nobody.at("items").empty());
  EXPECT_EQ(nobody.at("by"), "denied");
  EXPECT_EQ(nobody.at("tracked_max"), 512);
  EXPECT_LE(nobody.at("window_seconds"), 60);

  // Two connections, and so both workers.
  std::vector<TcpClient> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(*TcpClient::connect(served.divvy));
  for (int i = 0; i < 12; ++i) clients[static_cast<size_t>(i % 2)].ask("HIT user=ann");
  for (int i = 0; i < 6; ++i) clients[0].ask("HIT user=bob");
  for (int i = 0; i < 40; ++i) clients[static_cast<size_t>(i % 2)].ask("HIT who=x|y at=z/1");
  clients[1].ask("HIT user=eve");

  const Json denied = served.top("?by=denied&limit=10").at("items");
  ASSERT_EQ(denied.size(), 3u) << denied;
  EXPECT_EQ(denied[0],
            Json({{"dialect", "native"},
                  {"rule", "who=* at=*"},
                  {"counter", "native:[at=* who=*]:x\\|y|z/1:who,at"},
                  {"path", "native%3A%5Bat%3D%2A%20who%3D%2A%5D%3Ax%5C%7Cy%7Cz%2F1%3Awho%2Cat"},
                  {"actor", "x\\|y|z/1"},
                  {"allowed", 2},
                  {"denied", 38},
                  {"error_max", 0}}));
  EXPECT_EQ(denied[1].at("actor"), "ann");
  EXPECT_EQ(denied[1].at("rule"), "per-user");
  EXPECT_EQ(denied[1].at("counter"), "native:per-user:ann:user");
  EXPECT_EQ(denied[1].at("allowed"), 5);
  EXPECT_EQ(denied[1].at("denied"), 7);
  EXPECT_EQ(denied[2].at("actor"), "bob");
  EXPECT_EQ(denied[2].at("denied"), 1);

  const Json active = served.top("?by=active").at("items");
  ASSERT_EQ(active.size(), 4u) << active;  // and not the shadow rule's
  EXPECT_EQ(active[0].at("actor"), "x\\|y|z/1");
  EXPECT_EQ(active[3].at("actor"), "eve");
  EXPECT_EQ(active[3].at("allowed"), 1);
  EXPECT_EQ(active[3].at("denied"), 0);
  EXPECT_EQ(served.top("?by=active&limit=2").at("items").size(), 2u);
}

TEST(TopOfTheServer, KeysAreOfAnyBytesAndLengths) {
  const Served served(listeners +
                      "rules:\n  - { name: r, match: { user: '*' }, actor: user,\n"
                      "      limit: { quota: 1, window: 1h } }\n");
  auto client = TcpClient::connect(served.divvy);
  const std::string wild = "\xff\x01\"<%\xc3", longest(128, 'k'), longer(300'000, 'k');
  for (int i = 0; i < 3; ++i) client->ask("HIT user=" + wild);
  for (int i = 0; i < 4; ++i) client->ask("HIT user=" + longest);
  for (int i = 0; i < 5; ++i) client->ask("HIT user=" + longer);
  const Json items = served.top("").at("items");
  ASSERT_EQ(items.size(), 3u) << items;
  EXPECT_EQ(items[0].at("actor"), longest);
  EXPECT_EQ(items[0].at("counter"), "native:r:" + longest);
  EXPECT_EQ(items[0].at("cut"), true);
  EXPECT_EQ(items[1].at("actor"), longest);
  EXPECT_FALSE(items[1].contains("cut"));
  EXPECT_EQ(items[2].at("path"), "native%3Ar%3A%EF%BF%BD%01%22%3C%25%EF%BF%BD%3Auser");
}

TEST(TopOfTheServer, NamesRulesAsRequestsDo) {
  Folder folder;
  folder.write("rules.ini",
               "[k=v]\ncreditLimit = 1\nresetSeconds = 600\nactorField = who\nlabel = l\n\n"
               "[gone=1]\ncreditLimit = 0\n\n[default]\ncreditLimit = 1000\nresetSeconds = 600\n");
  Process process(
      {.arguments = {"serve", "--config",
                     folder.write("sluice.yaml", listeners + "policy: [{ divvy: rules.ini }]\n")}});
  const uint16_t divvy = await_listening(process), admin = await_listening(process, "admin");
  auto client = TcpClient::connect(divvy);
  for (int i = 0; i < 4; ++i) client->ask("HIT k=v who=a");
  for (int i = 0; i < 2; ++i) client->ask("HIT gone=1");  // a rule without a counter
  const auto items = [&] { return json_of(ask(admin, "GET", "/v1/top")).at("items"); };
  Json said = items();
  ASSERT_EQ(said.size(), 2u) << said;
  EXPECT_EQ(said[0].at("dialect"), "divvy");
  EXPECT_EQ(said[0].at("rule"), "k=v");
  EXPECT_EQ(said[1].at("rule"), "gone=1");
  EXPECT_EQ(said[1].at("denied"), 2);
  // Of a rule that does not exist any more, only its name in metrics is shown.
  folder.write("rules.ini", "[default]\ncreditLimit = 7\nresetSeconds = 60\n");
  ASSERT_EQ(ask(admin, "POST", "/v1/reload").status, 200);
  said = items();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_FALSE(said[0].contains("dialect"));
  EXPECT_EQ(said[0].at("rule"), "l");
}

TEST(TopOfTheServer, RejectsInvalidQueries) {
  const Served served(listeners +
                      "rules:\n  - { name: r, match: { user: '*' }, actor: user,\n"
                      "      limit: { quota: 1, window: 1h } }\n");
  for (const char* query : {"?by=loud", "?limit=0", "?limit=1001", "?limit=x", "?by="})
    EXPECT_EQ(ask(served.admin, "GET", std::string("/v1/top") + query).status, 400) << query;
  EXPECT_EQ(ask(served.admin, "POST", "/v1/top").status, 405);
}

}  // namespace
}  // namespace sluice::tests::top_test
