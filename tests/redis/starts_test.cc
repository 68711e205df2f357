// The real program starts on a Redis Cluster, behind sentinels and with a second Redis, however
// they are named: by flags, by variables of sluice, of Divvy and of Envoy's service, and in
// sluice.yaml.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/redis/certificates.h"
#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_sentinels.h"

namespace sluice::tests::starts_test {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

struct Rules {
  Rules() {
    path = folder.write("rules.ini", "[default]\ncreditLimit = 1000\nresetSeconds = 600\n");
  }
  Folder folder;
  std::string path;
};

// The reply to HIT once the server decides, without its seconds.
std::string decision(const DivvyServer& server) {
  std::string reply;
  comes([&] { return (reply = server.client().ask("HIT a=b")).starts_with("OK"); });
  return reply.substr(0, reply.rfind(' '));
}

std::string hit(const Words& arguments, const Variables& environment) {
  Process::Options options{.arguments = arguments, .environment = environment};
  options.environment["PORT"] = "0";
  return decision(DivvyServer(options));
}

TEST(Starts, OnAClusterByFlagVariableAndFile) {
  const RedisCluster cluster;
  const Rules rules;
  const std::string nodes = joined(cluster.addresses()), one = cluster.addresses()[2];
  EXPECT_EQ(hit({"divvy", rules.path, "--redis-cluster", nodes}, {}), "OK true 999");
  EXPECT_EQ(hit({"divvy", rules.path}, {{"SLUICE_REDIS_CLUSTER", one}}), "OK true 998");
  const std::string port = one.substr(one.find(':') + 1);
  for (const char* yes : {"1", "true"})
    EXPECT_EQ(hit({"divvy", rules.path},
                  {{"REDIS_HOST", "127.0.0.1"}, {"REDIS_PORT", port}, {"REDIS_CLUSTER", yes}}),
              std::string("OK true 99") + (yes == std::string("1") ? "7" : "6"));
  const std::string file =
      rules.folder.write("sluice.yaml",
                         "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n"
                         "store: { redis: { cluster: true, nodes: [\"" +
                             one + "\"] } }\npolicy: [{ divvy: rules.ini }]\n");
  EXPECT_EQ(hit({"serve", "--config", file}, {}), "OK true 995");
  // A flag overrides the file, which names a port at which no process listens.
  const std::string other = rules.folder.write(
      "other.yaml",
      "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n"
      "store: { redis: { nodes: [\"127.0.0.1:1\"] } }\npolicy: [{ divvy: rules.ini }]\n");
  EXPECT_EQ(hit({"serve", "--config", other, "--redis-cluster", one}, {}), "OK true 994");
}

TEST(Starts, FailsForAnInvalidVariable) {
  const Rules rules;
  const Finished divvy = run({.arguments = {"divvy", rules.path},
                              .environment = {{"PORT", "0"}, {"REDIS_CLUSTER", "yes"}}});
  EXPECT_NE(divvy.status, 0);
  EXPECT_NE(divvy.err.find("REDIS_CLUSTER: `yes` is neither 1 nor 0; set it to 1 where REDIS_HOST"),
            std::string::npos)
      << divvy.err;
  const Finished envoy = run(
      {.arguments = {"envoy"},
       .environment = {{"REDIS_SOCKET_TYPE", "tcp"}, {"REDIS_URL", "a:1"}, {"REDIS_TYPE", "x"}}});
  EXPECT_NE(envoy.status, 0);
  EXPECT_NE(envoy.err.find("REDIS_TYPE: `X` is not a type of Redis"), std::string::npos)
      << envoy.err;
}

TEST(Starts, BehindSentinelsByFile) {
  RedisSentinels all;
  for (size_t i = 0; i < 3; ++i)
    all.sentinel(i).client()({"ACL", "SETUSER", "watcher", "on", ">word", "allchannels", "+@all"});
  const Rules rules;
  const std::string nodes = "\"" + all.addresses()[0] + "\", \"" + all.addresses()[1] + "\"";
  const std::string file = rules.folder.write(
      "sluice.yaml",
      "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n"
      "store: { redis: { sentinel: { master: counters, nodes: [" +
          nodes + "], username: watcher, password: word } } }\npolicy: [{ divvy: rules.ini }]\n");
  const DivvyServer server({.arguments = {"serve", "--config", file}});
  EXPECT_EQ(decision(server), "OK true 999");
  EXPECT_EQ(all.node(0).client()({"GET", "divvy:::1000:600"}).text, "999");
  EXPECT_TRUE(all.is_used_by("watcher"));
}

// ---- Envoy's service ----

const std::string limits =
    "domain: shop\ndescriptors:\n"
    "  - key: year\n    rate_limit: { unit: year, requests_per_unit: 1000 }\n"
    "  - key: second\n    rate_limit: { unit: second, requests_per_unit: 1000000 }\n";

class Envoy {
 public:
  explicit Envoy(Variables redis) {
    folder_.write("current/config/shop.yaml", limits);
    redis.insert({{"RUNTIME_ROOT", folder_.path() + "/current"},
                  {"HOST", "127.0.0.1"},
                  {"PORT", "0"},
                  {"GRPC_HOST", "127.0.0.1"},
                  {"GRPC_PORT", "0"},
                  {"USE_STATSD", "false"},
                  {"REDIS_SOCKET_TYPE", "tcp"},
                  {"REDIS_TIMEOUT", "20s"}});
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"envoy"}, .environment = std::move(redis)});
    await_listening(*process_, "envoy");
    port_ = await_listening(*process_, "envoy");
  }
  // Takes one unit. Returns what remains of the limit, -1 if there was no decision in time.
  int ask(const std::string& key) const {
    const nlohmann::json entry{{"key", key}, {"value", "v"}};
    const nlohmann::json one{{"entries", nlohmann::json::array({entry})}};
    const nlohmann::json body{{"domain", "shop"}, {"descriptors", nlohmann::json::array({one})}};
    int left = -1;
    comes([&] {
      const HttpAnswer answer = http(port_, "POST", "/json", body.dump());
      if (answer.status != 200) return false;
      left = nlohmann::json::parse(answer.body)["statuses"][0].value("limitRemaining", 0);
      return true;
    });
    return left;
  }
  Process& process() const { return *process_; }

 private:
  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

// The number of counters of that limit.
size_t counters(RedisServer& node, const std::string& key) {
  return node.client()({"KEYS", "shop_" + key + "_*"}).list.size();
}
size_t counters(RedisCluster& cluster, const std::string& key) {
  size_t all = 0;
  for (size_t i = 0; i < cluster.size(); ++i) all += counters(cluster.node(i), key);
  return all;
}

TEST(EnvoyStarts, OnOneRedisWithAPassword) {
  RedisServer redis({"--requirepass", "secret"}),
      second({"--user", "app", "on", ">other", "~*", "+@all"});
  const Envoy envoy({{"REDIS_TYPE", "SINGLE"},
                     {"REDIS_URL", redis.address()},
                     {"REDIS_AUTH", "secret"},
                     {"REDIS_PERSECOND", "true"},
                     {"REDIS_PERSECOND_SOCKET_TYPE", "tcp"},
                     {"REDIS_PERSECOND_URL", second.address()},
                     {"REDIS_PERSECOND_AUTH", "app:other"}});
  EXPECT_EQ(envoy.ask("year"), 999);
  EXPECT_EQ(envoy.ask("year"), 998);
  EXPECT_GT(envoy.ask("second"), 999'990);
  auto client = redis.client();
  client({"AUTH", "secret"});
  EXPECT_EQ(client({"KEYS", "shop_*"}).list.size(), 1u);
  EXPECT_GE(counters(second, "second"), 1u);
  EXPECT_EQ(counters(second, "year"), 0u);
  EXPECT_NE(second.client()({"CLIENT", "LIST"}).text.find("user=app"), std::string::npos);
}

// One of two servers has TLS alone, the other none; then the other way round.
TEST(EnvoyStarts, OnTwoRedisOfWhichOneHasTls) {
  const Folder folder;
  const Authority authority(folder, "authority"), other(folder, "other");
  const Authority::Files files = authority.sign("IP:127.0.0.1"), shown = authority.sign("DNS:app");
  const uint16_t port = free_port();
  RedisServer secured({"--tls-port", std::to_string(port), "--tls-cert-file", files.certificate,
                       "--tls-key-file", files.key, "--tls-ca-cert-file", authority.certificate(),
                       "--tls-auth-clients", "yes"}),
      plain;
  const std::string by_tls = "127.0.0.1:" + std::to_string(port);
  Variables common{{"REDIS_PERSECOND", "true"},
                   {"REDIS_PERSECOND_SOCKET_TYPE", "tcp"},
                   {"REDIS_TLS_CACERT", authority.certificate()},
                   {"REDIS_TLS_CLIENT_CERT", shown.certificate},
                   {"REDIS_TLS_CLIENT_KEY", shown.key}};
  const auto with = [&](const Variables& more) {
    Variables all = common;
    for (const auto& [name, text] : more) all[name] = text;
    return all;
  };
  {
    const Envoy envoy(with({{"REDIS_URL", by_tls},
                            {"REDIS_TLS", "true"},
                            {"REDIS_PERSECOND_URL", plain.address()},
                            {"REDIS_PERSECOND_TLS", "false"}}));
    EXPECT_EQ(envoy.ask("year"), 999);
    EXPECT_GT(envoy.ask("second"), 999'990);
    EXPECT_EQ(counters(secured, "year"), 1u);
    EXPECT_EQ(counters(secured, "second"), 0u);
    EXPECT_EQ(counters(plain, "year"), 0u);
    EXPECT_GE(counters(plain, "second"), 1u);
  }
  secured.client()({"FLUSHALL"});
  plain.client()({"FLUSHALL"});
  {
    const Envoy envoy(with({{"REDIS_URL", plain.address()},
                            {"REDIS_PERSECOND_URL", by_tls},
                            {"REDIS_PERSECOND_TLS", "true"}}));
    EXPECT_EQ(envoy.ask("year"), 999);
    EXPECT_GT(envoy.ask("second"), 999'990);
    EXPECT_EQ(counters(plain, "year"), 1u);
    EXPECT_EQ(counters(plain, "second"), 0u);
    EXPECT_EQ(counters(secured, "year"), 0u);
    EXPECT_GE(counters(secured, "second"), 1u);
  }
  // The authority is that of both, so a second server by another one is not used.
  const Envoy envoy(with({{"REDIS_URL", plain.address()},
                          {"REDIS_PERSECOND_URL", by_tls},
                          {"REDIS_PERSECOND_TLS", "true"},
                          {"REDIS_TLS_CACERT", other.certificate()}}));
  EXPECT_TRUE(envoy.process().says("its certificate is not trusted"));
  EXPECT_EQ(envoy.ask("year"), 998);
}

// The first Redis is behind sentinels and the second is a cluster; then the first is a cluster and
// the second is behind sentinels.
TEST(EnvoyStarts, BehindSentinelsAndInACluster) {
  RedisSentinels all;
  for (size_t i = 0; i < 3; ++i)
    all.sentinel(i).client()({"ACL", "SETUSER", "watcher", "on", ">word", "allchannels", "+@all"});
  RedisCluster cluster;
  const std::string behind = "counters," + joined(all.addresses()),
                    nodes = joined(cluster.addresses());
  {
    const Envoy envoy({{"REDIS_TYPE", "SENTINEL"},
                       {"REDIS_URL", behind},
                       {"REDIS_SENTINEL_AUTH", "watcher:word"},
                       {"REDIS_PERSECOND", "true"},
                       {"REDIS_PERSECOND_SOCKET_TYPE", "tcp"},
                       {"REDIS_PERSECOND_TYPE", "CLUSTER"},
                       {"REDIS_PERSECOND_URL", nodes}});
    EXPECT_EQ(envoy.ask("year"), 999);
    EXPECT_EQ(envoy.ask("year"), 998);
    EXPECT_GT(envoy.ask("second"), 999'990);
  }
  EXPECT_EQ(counters(all.node(0), "year"), 1u);
  EXPECT_EQ(counters(all.node(0), "second"), 0u);
  EXPECT_EQ(counters(cluster, "year"), 0u);
  EXPECT_GE(counters(cluster, "second"), 1u);
  const Envoy envoy({{"REDIS_TYPE", "CLUSTER"},
                     {"REDIS_URL", nodes},
                     {"REDIS_PERSECOND", "true"},
                     {"REDIS_PERSECOND_SOCKET_TYPE", "tcp"},
                     {"REDIS_PERSECOND_TYPE", "SENTINEL"},
                     {"REDIS_PERSECOND_SENTINEL_AUTH", "watcher:word"},
                     {"REDIS_PERSECOND_URL", behind}});
  EXPECT_EQ(envoy.ask("year"), 999);
  EXPECT_GT(envoy.ask("second"), 999'990);
  EXPECT_EQ(counters(cluster, "year"), 1u);
  EXPECT_GE(counters(all.node(0), "second"), 1u);
  EXPECT_TRUE(all.is_used_by("watcher"));
}

}  // namespace
}  // namespace sluice::tests::starts_test
