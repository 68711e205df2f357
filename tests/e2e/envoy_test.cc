// The real `sluice envoy`, and `sluice serve` with an `envoy` listener, over their ports: the
// drop-in's environment, changes of limits, and what operators see and change.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"

namespace sluice::tests::envoy_test {
namespace {

using Json = nlohmann::json;

Json descriptor(const std::vector<std::pair<std::string, std::string>>& entries, int hits = 1) {
  Json all = Json::array();
  for (const auto& [key, value] : entries) all.push_back({{"key", key}, {"value", value}});
  Json one{{"entries", all}};
  if (hits != 1) one["hitsAddend"] = hits;
  return one;
}

// The answer's status, and the first descriptor's code and remaining units of its limit: "200 OK
// 4/5".
std::string ask(uint16_t port, const Json& descriptors, const std::string& domain = "shop") {
  // Json{descriptors} is an array for GCC, and a copy for Clang.
  const Json body{
      {"domain", domain},
      {"descriptors", descriptors.is_array() ? descriptors : Json::array({descriptors})}};
  const HttpAnswer answer = http(port, "POST", "/json", body.dump());
  if (answer.status != 200 && answer.status != 429) return std::to_string(answer.status);
  const Json status = Json::parse(answer.body).at("statuses").at(0);
  std::string text = std::to_string(answer.status) + " " + status.at("code").get<std::string>();
  if (!status.contains("currentLimit")) return text;
  return text + " " + std::to_string(status.value("limitRemaining", 0)) + "/" +
         std::to_string(status["currentLimit"].value("requestsPerUnit", 0));
}

const std::string shop =
    "domain: shop\n"
    "descriptors:\n"
    "  - key: path\n"
    "    value: /pay\n"
    "    descriptors:\n"
    "      - key: user\n"
    "        rate_limit: { unit: year, requests_per_unit: 3, name: pay }\n"
    "  - key: path\n"
    "    rate_limit: { unit: year, requests_per_unit: 100 }\n";

struct DropIn {
  explicit DropIn(std::map<std::string, std::string> more = {}, const std::string& limits = shop) {
    folder.write("current/config/shop.yaml", limits);
    environment = {{"RUNTIME_ROOT", folder.path() + "/current"},
                   {"HOST", "127.0.0.1"},
                   {"PORT", "0"},
                   {"GRPC_HOST", "127.0.0.1"},
                   {"GRPC_PORT", "0"}};
    environment.merge(more);
  }
  void start() {
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"envoy"}, .environment = environment});
    grpc = await_listening(*process, "envoy");
    http_port = await_listening(*process, "envoy");
  }
  void write(const std::string& name, const std::string& text) {
    folder.write("next", text);
    std::filesystem::rename(folder.path() + "/next", folder.path() + "/current/config/" + name);
  }

  Folder folder;
  std::map<std::string, std::string> environment;
  std::unique_ptr<Process> process;
  uint16_t grpc = 0, http_port = 0;
};

TEST(Envoy, ServesTheFolderOfTheEnvironment) {
  DropIn server;
  server.start();
  const Json pay = descriptor({{"path", "/pay"}, {"user", "u1"}});
  EXPECT_EQ(ask(server.http_port, pay), "200 OK 2/3");
  EXPECT_EQ(ask(server.grpc, pay), "200 OK 1/3");  // each port serves gRPC and HTTP
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/pay"}, {"user", "u1"}}, 2)),
            "429 OVER_LIMIT 0/3");
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/pay"}, {"user", "u2"}})), "200 OK 2/3");
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/"}})), "200 OK 99/100");
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/"}}), "other"), "200 OK");
  EXPECT_EQ(http_get(server.http_port, "/healthcheck").status, 200);
  server.process->signal(SIGTERM);
  EXPECT_EQ(server.process->wait(soon()), 0);
}

TEST(Envoy, AReloadKeepsTheCounters) {
  DropIn server;
  server.start();
  const Json pay = descriptor({{"path", "/pay"}, {"user", "u1"}});
  EXPECT_EQ(ask(server.http_port, pay), "200 OK 2/3");
  std::string more = shop;
  more.replace(more.find("requests_per_unit: 3"), 20, "requests_per_unit: 7");
  server.write("shop.yaml", more);
  const Json look = descriptor({{"path", "/pay"}, {"user", "u1"}}, 0);
  EXPECT_TRUE(comes([&] { return ask(server.http_port, look) == "200 OK 6/7"; }));
  server.write("bad.yaml", "domain: bad\ndescriptors:\n  - key: a\n    nosuch: 1\n");
  EXPECT_TRUE(server.process->says("nosuch"));
  EXPECT_EQ(ask(server.http_port, look), "200 OK 6/7");
  server.write("bad.yaml",
               "domain: good\ndescriptors:\n  - key: a\n    rate_limit: {unit: year, "
               "requests_per_unit: 1}\n");
  EXPECT_TRUE(comes([&] {
    return ask(server.http_port, descriptor({{"a", "x"}}, 0), "good") == "200 OK 1/1";
  }));
  EXPECT_EQ(ask(server.http_port, look), "200 OK 6/7");
}

TEST(Envoy, ReadsAFolderThatAppearsLater) {
  DropIn server;
  server.start();
  const Json sub = descriptor({{"a", "x"}}, 0), dot = descriptor({{"b", "x"}}, 0);
  EXPECT_EQ(ask(server.http_port, sub, "sub"), "200 OK");
  std::filesystem::create_directory(server.folder.path() + "/next.d");
  const auto limits = [](const std::string& domain, const std::string& key) {
    return "domain: " + domain + "\ndescriptors:\n  - key: " + key +
           "\n    rate_limit: { unit: year, requests_per_unit: 9 }\n";
  };
  server.folder.write("next.d/sub.yaml", limits("sub", "a"));
  std::filesystem::rename(server.folder.path() + "/next.d",
                          server.folder.path() + "/current/config/sub");
  EXPECT_TRUE(comes([&] { return ask(server.http_port, sub, "sub") == "200 OK 9/9"; }));
  server.write(".dot.yaml", limits("dot", "b"));
  EXPECT_TRUE(comes([&] { return ask(server.http_port, dot, "dot") == "200 OK 9/9"; }));
}

TEST(Envoy, DoesNotStartWithAFileThatCannotBeUsed) {
  DropIn server({}, "domain: shop\ndescriptors:\n  - key: a\n    nosuch: 1\n");
  Process process({.arguments = {"envoy"}, .environment = server.environment});
  EXPECT_EQ(process.wait(soon()), 1);
  EXPECT_NE(process.err().find("shop.yaml:4:"), std::string::npos) << process.err();
}

TEST(Envoy, StartsWithoutLimitsIfItIsForced) {
  DropIn server({{"FORCE_START_WITHOUT_INITIAL_CONFIG", "true"}},
                "domain: shop\ndescriptors:\n  - key: a\n    nosuch: 1\n");
  server.start();
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/"}})), "400");
  EXPECT_EQ(http_get(server.http_port, "/healthcheck").status, 500);
  server.write("shop.yaml", shop);
  EXPECT_TRUE(comes([&] { return http_get(server.http_port, "/healthcheck").status == 200; }));
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/"}})), "200 OK 99/100");
  // After limits were read, a bad file changes nothing.
  server.write("shop.yaml", "domain: [");
  EXPECT_TRUE(server.process->says("shop.yaml"));
  EXPECT_EQ(ask(server.http_port, descriptor({{"path", "/"}})), "200 OK 98/100");
}

TEST(Envoy, WarnsOfAnInvalidHeaderName) {
  DropIn server(std::map<std::string, std::string>{{"LIMIT_LIMIT_HEADER", "X Limit"}});
  server.start();
  EXPECT_TRUE(server.process->says("LIMIT_LIMIT_HEADER: `X Limit`"));
}

TEST(Envoy, RejectsUnsupportedVariablesByName) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"GRPC_SERVER_USE_TLS", "true"},
                                                        {"BACKEND_TYPE", "memcache"},
                                                        {"CONFIG_TYPE", "ETCD"},
                                                        {"LOG_LEVEL", "loud"},
                                                        {"PORT", "many"},
                                                        {"SHADOW_MODE", "perhaps"},
                                                        {"GRPC_MAX_CONNECTION_AGE", "a day"},
                                                        {"RUNTIME_ROOT", "/nosuch/folder"},
                                                        {"REDIS_SOCKET_TYPE", "unix"}}) {
    SCOPED_TRACE(name);
    DropIn server;
    server.environment[name] = value;
    Process process({.arguments = {"envoy"}, .environment = server.environment});
    EXPECT_EQ(process.wait(soon()), 1);
    EXPECT_NE(process.err().find(name), std::string::npos) << process.err();
  }
}

struct Serve {
  Serve() {
    folder.write("limits/shop.yaml", shop);
    const std::string file = folder.write("sluice.yaml",
                                          "listen:\n"
                                          "- { protocol: envoy, address: \"127.0.0.1:0\" }\n"
                                          "- { protocol: admin, address: \"127.0.0.1:0\" }\n"
                                          "policy: [{ envoy: limits }]\n"
                                          "envoy: { headers: ietf }\n");
    process = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", file}});
    port = await_listening(*process, "envoy");
    admin = await_listening(*process, "admin");
  }
  Json get(const std::string& target) const {
    const HttpAnswer answer = http_get(admin, target);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body, nullptr, false);
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0, admin = 0;
};

TEST(Envoy, AnOverrideHoldsForOneActorOfALimit) {
  const Serve server;
  const auto user = [](const std::string& name) {
    return descriptor({{"path", "/pay"}, {"user", name}});
  };
  EXPECT_EQ(ask(server.port, user("u1")), "200 OK 2/3");
  const HttpAnswer made = http(server.admin, "POST", "/v1/overrides",
                               Json{{"rule", "shop.path_/pay.user"},
                                    {"actor", {{"user", "u1"}}},
                                    {"limit", {{"quota", 10}, {"window", "365d"}}}}
                                   .dump());
  EXPECT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(ask(server.port, user("u1")), "200 OK 8/10");
  EXPECT_EQ(ask(server.port, user("u2")), "200 OK 2/3");
  const HttpAnswer all = http(
      server.admin, "POST", "/v1/overrides",
      Json{{"rule", "shop.path_/pay.user"}, {"actor", {{"user", "v*"}}}, {"deny", true}}.dump());
  EXPECT_EQ(all.status, 201) << all.body;
  EXPECT_EQ(ask(server.port, user("v1")), "429 OVER_LIMIT 0/0");
  EXPECT_EQ(http(server.admin, "DELETE",
                 "/v1/overrides/" + Json::parse(made.body)["id"].get<std::string>())
                .status,
            200);
  EXPECT_EQ(ask(server.port, user("u1")), "200 OK 0/3");
}

TEST(Envoy, AnOverrideHasOneLimitOfTheOriginalsKind) {
  const Serve server;
  const auto set = [&](const Json& terms) {
    Json body{{"rule", "shop.path"}, {"actor", {{"path", "/x"}}}};
    body.update(terms);
    return http(server.admin, "POST", "/v1/overrides", body.dump()).status;
  };
  const Json hour{{"quota", 5}, {"window", "1h"}}, minute{{"quota", 1}, {"window", "1m"}};
  Json bucket = hour;
  bucket["algorithm"] = "token_bucket";
  EXPECT_EQ(set({{"limit", bucket}}), 422);
  EXPECT_EQ(set({{"limits", {hour, minute}}}), 422);
  EXPECT_EQ(set({{"limit", {{"quota", 5}, {"window", "1500ms"}}}}), 422);
  Json month{{"rule", "shop.path"}, {"actor", {{"path", "/x"}}}};
  month["limit"] = {{"quota", 5}, {"window", "month"}, {"time_zone", "Europe/Berlin"}};
  const HttpAnswer of_month = http(server.admin, "POST", "/v1/overrides", month.dump());
  EXPECT_EQ(of_month.status, 422);
  EXPECT_NE(of_month.body.find("is one of the calendar, and a limit of Envoy's is replaced by one "
                               "with a length of time; write `30d`"),
            std::string::npos)
      << of_month.body;
  EXPECT_EQ(set({{"limit", hour}}), 201);
  EXPECT_EQ(ask(server.port, descriptor({{"path", "/x"}})), "200 OK 4/5");
}

TEST(Envoy, CountersNameTheirLimits) {
  const Serve server;
  EXPECT_EQ(ask(server.port, descriptor({{"path", "/pay"}, {"user", "u1"}}, 2)), "200 OK 1/3");
  EXPECT_EQ(ask(server.port, descriptor({{"path", "/cart"}})), "200 OK 99/100");
  const Json counters = server.get("/v1/counters").at("counters");
  ASSERT_EQ(counters.size(), 2u) << counters;
  std::map<std::string, Json> by_rule;
  for (const Json& one : counters) by_rule[one.at("rule")] = one;
  ASSERT_TRUE(by_rule.contains("shop.path_/pay.user") && by_rule.contains("shop.path")) << counters;
  EXPECT_EQ(by_rule["shop.path_/pay.user"]["limits"][0]["remaining"], 1) << counters;
  EXPECT_EQ(by_rule["shop.path"]["limits"][0]["remaining"], 99) << counters;
}

TEST(Envoy, IsExplainedByTheCommandAndTheAdminPort) {
  const Serve server;
  const std::string limits = server.folder.path() + "/limits";
  const Finished told = run({.arguments = {"explain", "--policy", limits, "--protocol", "envoy",
                                           "domain=shop", "path=/pay", "user=u1"}});
  EXPECT_EQ(told.status, 0) << told.err;
  EXPECT_NE(told.out.find("shop.path_/pay.user"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find("envoy:31536000:shop_path_/pay_user_u1"), std::string::npos) << told.out;
  EXPECT_EQ(told.out.find("[shop.path]"), std::string::npos) << told.out;
  const HttpAnswer answer =
      http(server.admin, "POST", "/v1/explain",
           Json{{"protocol", "envoy"},
                {"descriptor", Json::array({{{"key", "domain"}, {"value", "shop"}},
                                            {{"key", "path"}, {"value", "/pay"}},
                                            {{"key", "user"}, {"value", "u1"}}})}}
               .dump());
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(answer.body.find("shop.path_/pay.user"), std::string::npos) << answer.body;
}

TEST(Envoy, ExplainSaysWhyNoLimitApplies) {
  const Serve server;
  const std::string limits = server.folder.path() + "/limits";
  const auto explained = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"explain", "--policy", limits, "--protocol", "envoy"};
    all.insert(all.end(), words.begin(), words.end());
    return run({.arguments = all}).out;
  };
  const auto says = [](const std::string& out, const std::string& text) {
    EXPECT_NE(out.find(text), std::string::npos) << out;
  };
  says(explained({"domain=shop", "tennant=acme"}),
       "No rule decides it. Envoy's protocol answers OK.\n"
       "Below `shop` no descriptor fits `tennant=acme`; there are `path_/pay`, `path`.\n");
  says(explained({"domain=shop", "path=/pay"}),
       "The descriptor `shop.path_/pay` has no rate_limit.\n");
  says(explained({"domain=shop", "path=/pay", "user=u", "more=x"}),
       "Below `shop.path_/pay.user` no descriptor fits `more=x`; there is none.\n");
  says(explained({"domain=shopp", "path=/"}), "No file has the domain `shopp`; there is `shop`.\n");
  says(explained({"path=/"}), "The request names no domain: add `domain=...`.\n");
}

TEST(Envoy, AFolderIsChecked) {
  const Serve server;
  const std::string limits = server.folder.path() + "/limits";
  const Finished good = run({.arguments = {"check", limits}});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_NE(good.out.find("ok, 2 rules"), std::string::npos) << good.out;
  Folder bad;
  bad.write("a.yaml", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: fortnight}\n");
  bad.write("b.yaml", "domain: b\nunit: year\n");
  const Finished told = run({.arguments = {"check", bad.path()}});
  EXPECT_EQ(told.status, 1);
  EXPECT_NE(told.err.find("a.yaml:4:"), std::string::npos) << told.err;
  EXPECT_NE(told.err.find("fortnight"), std::string::npos) << told.err;
  bad.write(".dot.yaml", "");
  EXPECT_EQ(run({.arguments = {"check", "--ignore-dot-files", bad.path()}}).status, 1);
  bad.write("a.yaml", "domain: a\n");
  EXPECT_EQ(run({.arguments = {"check", bad.path()}}).status, 1);
  EXPECT_EQ(run({.arguments = {"check", "--ignore-dot-files", bad.path()}}).status, 0);
  std::filesystem::remove(bad.path() + "/.dot.yaml");
  const Finished none = run({.arguments = {"check", bad.path() + "/nosuch"}});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("there is no such file or folder"), std::string::npos) << none.err;
  EXPECT_EQ(run({.arguments = {"check", bad.path()}}).status, 0);
  EXPECT_EQ(run({.arguments = {"check", "--strict", bad.path()}}).status, 1);
}

// The protocol's limits also apply after a native rule that stops.
TEST(Envoy, ANativeRuleThatAppliesToAllHidesNoLimit) {
  const Serve server;
  const std::string file = server.folder.write(
      "native.yaml",
      "policy: [{ envoy: limits }]\nrules: [{ name: all, limit: { quota: 9, window: 1h } }]\n");
  const Finished checked = run({.arguments = {"check", file}});
  EXPECT_EQ(checked.status, 0);
  // Nothing is said but what is said of the limits themselves.
  const std::string alone = server.folder.write("alone.yaml", "policy: [{ envoy: limits }]\n");
  EXPECT_EQ(checked.err, run({.arguments = {"check", alone}}).err);
  EXPECT_EQ(checked.err.find("native.yaml"), std::string::npos) << checked.err;
  const Finished told = run(
      {.arguments = {"explain", "--policy", file, "--protocol", "envoy", "domain=shop", "path=/"}});
  EXPECT_NE(told.out.find("[shop.path]"), std::string::npos) << told.out;
}

}  // namespace
}  // namespace sluice::tests::envoy_test
