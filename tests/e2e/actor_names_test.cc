// One name of an actor: what `top`, `counters`, `explain` and `override` show, all of them take.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests::actor_names_test {
namespace {

const std::string head =
    "listen:\n- { protocol: divvy, address: \"127.0.0.1:0\" }\n"
    "- { protocol: admin, address: \"127.0.0.1:0\" }\n";

// The list of that name in a command's JSON; empty: it has none.
Json list_of(const std::string& text, const char* name) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json.value(name, Json::array()) : Json::array();
}

class ActorNames : public testing::Test {
 protected:
  void serve(const std::string& yaml, std::vector<std::string> more = {}) {
    const std::string file = folder.write("sluice.yaml", head + yaml);
    more.insert(more.begin(), {"serve", "--config", file, "--workers", "2"});
    server = std::make_unique<Process>(Process::Options{.arguments = std::move(more)});
    divvy = await_listening(*server);
    admin = await_listening(*server, "admin");
  }
  std::string hit(const std::string& descriptor) const {
    return TcpClient::connect(divvy)->ask("HIT " + descriptor);
  }
  bool allows(const std::string& descriptor) const {
    return hit(descriptor).starts_with("OK true");
  }
  // Runs a command against the server.
  Finished cli(std::vector<std::string> words) const {
    words.insert(words.end(),
                 {"--admin", "127.0.0.1:" + std::to_string(admin), "--timeout", "20000"});
    return run({.arguments = std::move(words)});
  }
  Json get(const std::string& target) const { return json_of(ask(admin, "GET", target)); }

  // What `top` says of the actor that was denied most: its rule and its name are taken by all else.
  void expect_round_trip(const std::string& name, const std::string& rule,
                         const std::string& request, const std::string& protocol) {
    SCOPED_TRACE(name + " of " + rule);
    const Json item = get("/v1/top?limit=1").at("items").at(0);
    EXPECT_EQ(item.at("actor"), name);
    EXPECT_EQ(item.at("rule"), rule);
    const Finished listed = cli({"counters", "--actor", name, "--json"});
    const Json counters = list_of(listed.out, "counters");
    ASSERT_EQ(counters.size(), 1u) << listed.out << listed.err;
    EXPECT_EQ(counters[0].at("actor"), name);
    EXPECT_EQ(counters[0].at("rule"), rule);
    std::vector<std::string> words{"explain", "--live", "--json", "--protocol", protocol};
    for (size_t at = 0; at < request.size();) {
      const size_t end = std::min(request.find('\t', at), request.size());
      words.push_back(request.substr(at, end - at));
      at = end + 1;
    }
    const Finished explained = cli(words);
    const Json rules = list_of(explained.out, "rules");
    ASSERT_FALSE(rules.empty()) << explained.out << explained.err;
    EXPECT_EQ(rules.back().value("actor", ""), name) << explained.out;

    const Finished made = cli({"override", "set", "--rule", rule, "--actor", name, "--unlimited"});
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_NE(made.out.find("actor     " + name + "\n"), std::string::npos) << made.out;
    const Json all = get("/v1/overrides").at("overrides");
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].at("actor"), name);
    const Finished again = cli({"override", "list", "--rule", rule, "--actor", name, "--json"});
    EXPECT_EQ(list_of(again.out, "overrides").size(), 1u) << again.out << again.err;
  }
  void expect_removed(const std::string& name, const std::string& rule) const {
    const Finished gone = cli({"override", "remove", "--rule", rule, "--actor", name});
    EXPECT_EQ(gone.status, 0) << gone.out << gone.err;
    EXPECT_EQ(get("/v1/overrides").at("total"), 0);
  }

  Folder folder;
  std::unique_ptr<Process> server;
  uint16_t divvy = 0, admin = 0;
};

TEST_F(ActorNames, AreAcceptedWhereverAnActorIsNamed) {
  serve(
      "rules:\n"
      "- { name: api, match: { tenant: '*', api: '*' }, actor: [tenant, api],\n"
      "    limit: { quota: 1, window: 1h } }\n"
      "- { name: user, match: { user: '*' }, actor: user, limit: { quota: 1, window: 1h } }\n");
  struct Case {
    const char *value, *name;
  };
  int times = 3;  // more for each, so that the last is denied most
  for (const auto& [value, name] :
       {Case{"alice", "alice"}, Case{"a*b", "exact(a*b)"}, Case{"user=17", "user=user=17"},
        Case{"dXNlcg==", "dXNlcg=="}, Case{"a b, c", "a b, c"},
        Case{"\u00e9t\u00e9", "\u00e9t\u00e9"}, Case{"10.0.0.0/8", "exact(10.0.0.0/8)"},
        Case{"[x]", "exact([x])"}}) {
    const std::string request = std::string("\"user\"=\"") + value + "\"";
    for (int i = 0; i < times; ++i) hit(request);
    times += 2;
    expect_round_trip(name, "user", std::string("user=") + value, "divvy");
    EXPECT_TRUE(allows(request)) << value;
    expect_removed(name, "user");
    EXPECT_FALSE(allows(request)) << value;
  }
  for (int i = 0; i < times; ++i) hit("\"tenant\"=\"ac|me\" \"api\"=\"v*\"");
  const std::string two = "ac\\|me|exact(v*)";
  expect_round_trip(two, "api", "tenant=ac|me\tapi=v*", "divvy");
  EXPECT_TRUE(allows("\"tenant\"=\"ac|me\" \"api\"=\"v*\""));
  allows("\"tenant\"=\"ac|me\" \"api\"=\"v1\"");
  EXPECT_FALSE(allows("\"tenant\"=\"ac|me\" \"api\"=\"v1\""));
  expect_removed(two, "api");
}

TEST_F(ActorNames, AreTheValuesOfAnEnvoyLimitAndTopNamesItsRule) {
  folder.write("limits/edge.yaml",
               "domain: edge\ndescriptors:\n"
               "- key: user\n  rate_limit: { unit: hour, requests_per_unit: 1 }\n"
               "- key: tenant\n  rate_limit: { unit: hour, requests_per_unit: 1 }\n"
               "- key: path\n  value: /pay\n  descriptors:\n"
               "  - key: tenant\n    descriptors:\n"
               "    - key: user\n      rate_limit: { unit: hour, requests_per_unit: 1 }\n");
  serve("- { protocol: envoy, address: \"127.0.0.1:0\" }\npolicy: [{ envoy: limits }]\n");
  const uint16_t envoy = await_listening(*server, "envoy");
  const auto send = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    Json list = Json::array();
    for (const auto& [key, value] : entries) list.push_back({{"key", key}, {"value", value}});
    const Json body{{"domain", "edge"}, {"descriptors", {{{"entries", list}}}}};
    return http(envoy, "POST", "/json", body.dump()).status;
  };
  for (int i = 0; i < 3; ++i) send({{"tenant", "acme"}});
  expect_round_trip("acme", "edge.tenant", "domain=edge\ttenant=acme", "envoy");
  EXPECT_EQ(send({{"tenant", "acme"}}), 200);
  expect_removed("acme", "edge.tenant");
  EXPECT_EQ(cli({"log", "--denials", "1"}).status, 0);
  EXPECT_EQ(send({{"tenant", "acme"}}), 429);
  EXPECT_TRUE(server->says("| actor acme |")) << server->err();
  for (int i = 0; i < 6; ++i) send({{"path", "/pay"}, {"tenant", "acme"}, {"user", "bob"}});
  expect_round_trip("acme|bob", "edge.path_/pay.tenant.user",
                    "domain=edge\tpath=/pay\ttenant=acme\tuser=bob", "envoy");
  EXPECT_EQ(send({{"path", "/pay"}, {"tenant", "acme"}, {"user", "bob"}}), 200);
  expect_removed("acme|bob", "edge.path_/pay.tenant.user");

  // The name of a counter is not an actor.
  for (const char* name : {"edge_tenant_acme", "envoy:3600:edge_tenant_acme"}) {
    const Finished refused =
        cli({"override", "set", "--rule", "edge.tenant", "--actor", name, "--deny"});
    EXPECT_EQ(refused.status, 1) << name;
    EXPECT_NE(refused.err.find("its actor is `acme`"), std::string::npos) << refused.err;
  }
}

TEST_F(ActorNames, MeanNetworksAndListsAlsoAfterAKill) {
  const std::string rules =
      "rules:\n- { name: ip, match: { ip: '*' }, actor: ip, limit: { quota: 100, window: 1h } }\n";
  const std::vector<std::string> stored{"--data", folder.path() + "/data", "--durability",
                                        "always"};
  serve(rules, stored);
  const auto set = [&](const std::string& actor) {
    return cli({"override", "set", "--rule", "ip", "--actor", actor, "--deny"});
  };
  EXPECT_EQ(set("cidr(203.0.113.0/24)").status, 0);
  EXPECT_EQ(set("[alice, bob]").status, 0);
  const auto ban = [](const Json& actor) {
    return Json{{"rule", "ip"}, {"actor", actor}, {"deny", true}}.dump();
  };
  EXPECT_EQ(ask(admin, "POST", "/v1/overrides", ban({"carol", "cidr(2001:db8::/32)"})).status, 201);
  const std::string list = "[" + ban({"dave", "eve-*"}) + ", " + ban("cidr(198.51.100.0/24)") + "]";
  EXPECT_EQ(ask(admin, "POST", "/v1/overrides", list).status, 201);
  const auto expect_banned = [&] {
    for (const char* who :
         {"203.0.113.77", "alice", "bob", "carol", "2001:db8::7", "dave", "eve-1", "198.51.100.3"})
      EXPECT_FALSE(allows("ip=\"" + std::string(who) + "\"")) << who;
    for (const char* who : {"203.0.114.1", "alicia", "[alice, bob]", "2001:db9::7", "eve"})
      EXPECT_TRUE(allows("ip=\"" + std::string(who) + "\"")) << who;
  };
  expect_banned();
  server->signal(SIGKILL);
  server->wait();
  serve(rules, stored);
  expect_banned();
  // What is listed can be sent again, and is the same overrides.
  Json again = Json::array();
  const Json listed = get("/v1/overrides");
  for (const Json& one : listed.at("overrides"))
    again.push_back({{"rule", one["rule"]}, {"actor", one["actor"]}, {"deny", true}});
  EXPECT_EQ(ask(admin, "POST", "/v1/overrides", again.dump()).status, 200);
  EXPECT_EQ(get("/v1/overrides").at("total"), 5);

  // What would ban no actor is refused, with what to write.
  for (const auto& [actor, remedy] : {std::pair{"203.0.113.0/24", "cidr(203.0.113.0/24)"},
                                      {"10.0.0.7,10.0.0.8", "write `[10.0.0.7,10.0.0.8]`"},
                                      {"regex(/^a/)", "a text with `*`"},
                                      {"[alice, bob", "write `[alice, bob]`"},
                                      {"cidr(203.0.113.0)x", "`)`"}}) {
    const Finished refused = set(actor);
    EXPECT_EQ(refused.status, 1) << actor;
    EXPECT_NE(refused.err.find(remedy), std::string::npos) << refused.err;
  }
  const Finished two =
      cli({"override", "set", "--rule", "ip", "--actor", "alice", "--actor", "bob", "--deny"});
  EXPECT_EQ(two.status, 2);
  EXPECT_NE(two.err.find("'[alice, bob]'"), std::string::npos) << two.err;
  const Finished several = cli({"counters", "--actor", "10.*"});
  EXPECT_EQ(several.status, 1);
  EXPECT_NE(several.err.find("names several actors"), std::string::npos) << several.err;
  EXPECT_EQ(get("/v1/overrides").at("total"), 5);
}

}  // namespace
}  // namespace sluice::tests::actor_names_test
