// How the real program reaches a Redis that requires a user, a password or TLS, and what it says
// about a Redis that it cannot use.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/redis/certificates.h"
#include "tests/redis/world.h"

namespace sluice::tests::reach_test {
namespace {

using Json = nlohmann::json;

// A Redis with a user `app`. Its default user is off.
struct Guarded {
  explicit Guarded(std::vector<std::string> more = {})
      : redis([&] {
          more.insert(more.end(), {"--user", "default", "off", "--user", "app", "on", ">secret",
                                   "~*", "&*", "+@all"});
          return more;
        }()) {}
  RedisServer redis;
};

std::string hits(const std::string& folder, const std::map<std::string, std::string>& environment,
                 std::vector<std::string> flags = {}) {
  std::map<std::string, std::string> all{{"PORT", "0"}};
  all.insert(environment.begin(), environment.end());
  flags.insert(flags.begin(), {"divvy", folder + "/rules.ini"});
  const DivvyServer server(Process::Options{.arguments = flags, .environment = all});
  std::string reply;
  // The server may not be connected yet.
  for (const Deadline deadline = soon(); std::chrono::steady_clock::now() < deadline;) {
    reply = server.client().ask("HIT k=v");
    if (reply.starts_with("OK")) break;
    std::this_thread::sleep_for(Milliseconds(20));
  }
  return reply.substr(0, reply.rfind(' '));  // without the seconds, which pass
}

struct Files {
  Files() {
    folder.write("rules.ini", "[default]\ncreditLimit = 1000\nresetSeconds = 600\n");
    password = folder.write("password", "secret\n");
  }
  Folder folder;
  std::string password;
};

TEST(RedisAccess, DivvyTakesUserAndPasswordByVariablesAndFlags) {
  const Guarded guarded;
  const Files files;
  const std::string port = std::to_string(guarded.redis.port());
  const std::map<std::string, std::string> place{{"REDIS_HOST", "127.0.0.1"}, {"REDIS_PORT", port}};
  auto by_variables = place;
  by_variables.insert({{"REDIS_USERNAME", "app"}, {"REDIS_PASSWORD_FILE", files.password}});
  EXPECT_EQ(hits(files.folder.path(), by_variables), "OK true 999");
  auto by_text = place;
  by_text.insert({{"REDIS_USERNAME", "app"}, {"REDIS_PASSWORD", "secret"}});
  EXPECT_EQ(hits(files.folder.path(), by_text), "OK true 998");
  EXPECT_EQ(hits(files.folder.path(), {},
                 {"--redis", "127.0.0.1:" + port, "--redis-username", "app",
                  "--redis-password-file", files.password}),
            "OK true 997");
  EXPECT_EQ(hits(files.folder.path(), {{"SLUICE_REDIS", "127.0.0.1:" + port},
                                       {"SLUICE_REDIS_USERNAME", "app"},
                                       {"SLUICE_REDIS_PASSWORD_FILE", files.password}}),
            "OK true 996");
}

TEST(RedisAccess, DivvyReachesItByTls) {
  const Files files;
  const Authority authority(files.folder, "authority");
  const auto signed_files = authority.sign("IP:127.0.0.1");
  const uint16_t port = free_port();
  const RedisServer redis({"--tls-port", std::to_string(port), "--tls-cert-file",
                           signed_files.certificate, "--tls-key-file", signed_files.key,
                           "--tls-auth-clients", "no"});
  EXPECT_EQ(hits(files.folder.path(), {{"REDIS_HOST", "127.0.0.1"},
                                       {"REDIS_PORT", std::to_string(port)},
                                       {"REDIS_TLS", "true"},
                                       {"SSL_CERT_FILE", authority.certificate()}}),
            "OK true 999");
  EXPECT_EQ(hits(files.folder.path(), {{"SSL_CERT_FILE", authority.certificate()}},
                 {"--redis", "127.0.0.1:" + std::to_string(port), "--redis-tls"}),
            "OK true 998");
}

TEST(RedisAccess, AFileOfSluiceYamlHoldsThePassword) {
  const Guarded guarded;
  const Files files;
  RedisWorld world({guarded.redis.address()},
                   {.redis = ", username: app, password_file: \"" + files.password + "\""});
  EXPECT_TRUE(world.hit().starts_with("OK true 999 "));
  const Finished printed =
      run({.arguments = {"serve", "--print-config", "--config", world.write_rules("")}});
  EXPECT_NE(printed.out.find("password_file: \"" + files.password + "\""), std::string::npos)
      << printed.out;
  EXPECT_EQ(printed.out.find("secret"), std::string::npos);
}

TEST(RedisAccess, ReportsAPasswordFileThatCannotBeRead) {
  const Files files;
  const std::string rules = files.folder.path() + "/rules.ini";
  const Finished missing = run({.arguments = {"divvy", rules, "--redis", "127.0.0.1:1",
                                              "--redis-password-file", "/nosuch/file"},
                                .environment = {{"PORT", "0"}}});
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.err.find("/nosuch/file"), std::string::npos) << missing.err;
  const std::string empty = files.folder.write("empty", "\n");
  const Finished none =
      run({.arguments = {"divvy", rules, "--redis", "127.0.0.1:1", "--redis-password-file", empty},
           .environment = {{"PORT", "0"}}});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("holds no password"), std::string::npos) << none.err;
}

TEST(RedisAccess, DivvysPoliciesMayHaveOnStoreError) {
  const Files files;
  const std::string nobody = "127.0.0.1:" + std::to_string(free_port());
  for (const auto& [how, reply] :
       {std::pair("allow", "OK true 999 "), {"deny", "OK false 0 "}, {"local", "OK true 999 "}}) {
    const DivvyServer server(
        Process::Options{.arguments = {"divvy", files.folder.path() + "/rules.ini", "--redis",
                                       nobody, "--on-store-error", how},
                         .environment = {{"PORT", "0"}}});
    EXPECT_TRUE(server.client().ask("HIT k=v").starts_with(reply))
        << how << ": " << server.client().ask("HIT k=v");
  }
  const std::string config =
      files.folder.write("sluice.yaml", "policy: [{ divvy: rules.ini, on_store_error: local }]\n");
  const Finished printed = run({.arguments = {"serve", "--print-config", "--config", config}});
  EXPECT_NE(printed.out.find("on_store_error: local"), std::string::npos) << printed.out;
  const std::string ill =
      files.folder.write("ill.yaml", "policy: [{ divvy: rules.ini, on_store_error: maybe }]\n");
  EXPECT_EQ(run({.arguments = {"check", ill}}).status, 1);
}

Json ready(uint16_t admin) {
  const HttpAnswer answer = http(admin, "GET", "/health/ready");
  Json json = Json::parse(answer.body);
  json["http"] = answer.status;
  return json;
}

TEST(Degraded, ReportsARedisThatStopsAndReturns) {
  RedisServer redis;
  RedisWorld world(redis.port());
  ASSERT_TRUE(world.hit().starts_with("OK true 999 "));
  EXPECT_EQ(ready(world.admin_port())["status"], "ready");
  redis.stop();
  const auto await_status = [&](const std::string& wanted) {
    Json got;
    for (const Deadline deadline = soon(); std::chrono::steady_clock::now() < deadline;) {
      got = ready(world.admin_port());
      if (got["status"] == wanted) break;
      std::this_thread::sleep_for(Milliseconds(20));
    }
    return got;
  };
  const Json gone = await_status("degraded");
  EXPECT_EQ(gone["status"], "degraded");
  EXPECT_EQ(gone["http"], 200) << "it answers as on_store_error says";
  ASSERT_EQ(gone["reasons"].size(), 1u) << gone;
  EXPECT_EQ(
      gone["reasons"][0].get<std::string>().find("Redis cannot be asked: none of 2 connections"),
      0u)
      << gone;
  const Finished status = run({.arguments = {"status", "--over", "0s", "--admin",
                                             "127.0.0.1:" + std::to_string(world.admin_port())}});
  EXPECT_EQ(status.status, 1) << status.err;
  EXPECT_NE(status.out.find(": degraded\n"), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("Redis cannot be asked: "), std::string::npos) << status.out;
  redis.start();
  EXPECT_EQ(await_status("ready")["status"], "ready");
}

// A node of a Redis Cluster, without slots, that is configured as a single Redis.
TEST(Degraded, ReportsANodeOfARedisCluster) {
  const Folder folder;
  RedisServer redis(
      {"--cluster-enabled", "yes", "--dir", folder.path(), "--cluster-config-file", "nodes.conf"});
  RedisWorld world({redis.address()}, {.connects = true});
  for (const Deadline deadline = soon(); std::chrono::steady_clock::now() < deadline;) {
    world.hit();  // without slots it serves no key
    if (ready(world.admin_port())["status"] == "degraded") break;
    std::this_thread::sleep_for(Milliseconds(20));
  }
  EXPECT_TRUE(world.process().says(" is a node of a Redis Cluster, and requests to it fail"));
  const Json told = ready(world.admin_port());
  ASSERT_EQ(told["status"], "degraded");
  EXPECT_NE(
      told["reasons"][0].get<std::string>().find(redis.address() + " is a node of a Redis Cluster"),
      std::string::npos)
      << told;
  EXPECT_NE(told["reasons"][0].get<std::string>().find("--redis-cluster"), std::string::npos);
}

}  // namespace
}  // namespace sluice::tests::reach_test
