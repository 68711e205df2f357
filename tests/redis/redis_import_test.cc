// `sluice store import-redis` from a real Redis into a real Redis Cluster, and real servers on
// both.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "redis/slots.h"
#include "tests/redis/certificates.h"
#include "tests/redis/import_world.h"

namespace sluice::tests::redis_import_test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class RedisImport : public ImportWorld {};

TEST_F(RedisImport, DecisionsContinueAfterTheImport) {
  auto before = old_server();
  std::map<std::string, int> taken;
  for (int i = 0; i < 12; ++i) {
    const std::string actor = "a:{" + std::to_string(i);
    for (int n = 0; n <= i % 4; ++n) EXPECT_EQ(before->hit("r=" + actor).substr(0, 7), "OK true");
    taken[actor] = i % 4 + 1;
  }
  for (int n = 0; n < 5; ++n) before->hit("");
  EXPECT_EQ(before->limitd().take("fixed", "k", 2).remaining, 1);
  EXPECT_TRUE(before->drop({.bucket = "b", .count = 2, .limits = {{"lh", 5}}}).accept);
  const auto set = http(before->admin_port(), "POST", "/v1/overrides",
                        R"({"rule":"api","actor":"a:{1","limit":{"quota":40,"window":"1h"}})");
  EXPECT_EQ(set.status, 201) << set.body;
  const json told = import_json(*before);
  EXPECT_EQ(told["imported"], 15) << told;
  EXPECT_EQ(told["overrides"], 1);
  EXPECT_EQ(told["foreign"]["keys"], 0) << told;
  EXPECT_EQ(told["keys"], 15) << "the keys of overrides are not counters";

  auto after = new_server();
  EXPECT_EQ(after->await_hit("", "OK true 994"), "");
  for (const auto& [actor, units] : taken) {
    const std::string left = std::to_string((actor == "a:{1" ? 40 : 20) - units - 1);
    EXPECT_EQ(after->hit("r=" + actor).substr(0, 8 + left.size()), "OK true " + left) << actor;
  }
  EXPECT_FALSE(after->limitd().take("fixed", "k", 2).conformant);
  EXPECT_EQ(after->limitd().take("fixed", "k", 1).remaining, 0);
  EXPECT_FALSE(after->drop({.bucket = "b", .count = 4, .limits = {{"lh", 5}}}).accept);
  EXPECT_TRUE(after->drop({.bucket = "b", .count = 3, .limits = {{"lh", 5}}}).accept);
}

TEST_F(RedisImport, ValuesAndEndsAreTheSame) {
  auto before = old_server();
  for (const char* actor : {"x", "y", "z"}) before->hit(std::string("r=") + actor);
  before->hit("");
  std::set<std::string> found;
  import_json(*before);
  const auto compare = [&](const std::string& key, const std::string& there) {
    found.insert(there);
    EXPECT_EQ(at({"GET", there}).text, client({"GET", key}).text);
    const int64_t ends = client({"PEXPIRETIME", key}).number;
    EXPECT_NEAR(static_cast<double>(at({"PEXPIRETIME", there}).number), static_cast<double>(ends),
                2);
  };
  for (const char* actor : {"x", "y", "z"}) {
    const std::string pattern = std::string("sluice:native:api:") + actor + ":*";
    const auto keys = client({"KEYS", pattern}).list;
    ASSERT_EQ(keys.size(), 1u);
    compare(keys[0].text, clustered(keys[0].text, actor));
  }
  compare("divvy:::1000:600", "divvy:::1000:600");
  EXPECT_EQ(keys_in_cluster(), found.size());
}

// As after an interrupted pass, and while servers still count on both sides.
TEST_F(RedisImport, AnotherPassLosesNoChargeAndRepeatsNone) {
  auto before = old_server();
  for (int i = 0; i < 40; ++i) before->hit("r=n" + std::to_string(i));
  EXPECT_EQ(import_json(*before)["imported"], 40);
  json again = import_json(*before);
  EXPECT_EQ(again["imported"], 0);
  EXPECT_EQ(again["replaced"], 0);
  EXPECT_EQ(again["kept"], 40);
  // Servers continue to count: `n1` at the old Redis, `n2` at the cluster.
  for (int n = 0; n < 2; ++n) before->hit("r=n1");
  auto after = new_server();
  EXPECT_EQ(after->await_hit("r=n2", "OK true 18"), "");
  EXPECT_EQ(after->hit("r=n2").substr(0, 10), "OK true 17");
  const std::string lost = client({"KEYS", "sluice:native:api:n3:*"}).list.at(0).text;
  EXPECT_EQ(at({"DEL", clustered(lost, "n3")}).number, 1);
  again = import_json(*before);
  EXPECT_EQ(again["imported"], 1) << again;
  EXPECT_EQ(again["replaced"], 1) << again;
  EXPECT_EQ(again["kept"], 38) << again;
  EXPECT_EQ(after->hit("r=n1").substr(0, 10), "OK true 16");
  EXPECT_EQ(after->hit("r=n2").substr(0, 10), "OK true 16");
  EXPECT_EQ(after->hit("r=n3").substr(0, 10), "OK true 18");
  // With --overwrite a counter that has fewer used units replaces one that has more.
  again = import_json(*before, {"--overwrite"});
  EXPECT_EQ(after->hit("r=n2").substr(0, 10), "OK true 18") << again;
}

TEST_F(RedisImport, SkipsForeignKeys) {
  auto before = old_server();
  before->hit("r=x");
  client({"SET", "order_17", "5", "PX", "100000"});
  client({"SET", "sluice:native:api:y:r:odd", "hello"});
  client({"RPUSH", "sluice:limitd:fixed:list", "1"});
  client({"SET", "divvy:other", "5"});
  client({"HSET", "hash", "a", "1"});
  const Finished dry = import(*before, {"--dry-run"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_TRUE(
      dry.out.starts_with("6 keys found, 1 counter to import, 0 overrides to import; "
                          "nothing is written\n"))
      << dry.out;
  EXPECT_EQ(keys_in_cluster(), 0u);
  const json told = import_json(*before);
  EXPECT_EQ(told["imported"], 1);
  EXPECT_EQ(told["foreign"]["keys"], 5) << told;
  EXPECT_EQ(told["foreign"]["with_prefix"], 2) << told;
  EXPECT_EQ(keys_in_cluster(), 1u);
  EXPECT_EQ(client({"DBSIZE"}).number, 6);
  // A value of another type has the counter's name in the cluster. It is not overwritten.
  const std::string key = client({"KEYS", "sluice:native:api:x:*"}).list.at(0).text;
  at({"DEL", clustered(key, "x")});
  at({"RPUSH", clustered(key, "x"), "1"});
  const Finished failed = import(*before);
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.err.find("WRONGTYPE"), std::string::npos) << failed.err;
  EXPECT_EQ(failed.err.find("run it again"), std::string::npos) << failed.err;
  EXPECT_EQ(at({"LLEN", clustered(key, "x")}).number, 1);
}

TEST_F(RedisImport, ReportsAWrongPrefixAndAWrongCluster) {
  auto before = old_server();
  before->hit("r=x");
  const Finished other = import(*before, {"--key-prefix", "other:"});
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("no key is a counter of these rules"), std::string::npos) << other.err;
  EXPECT_EQ(keys_in_cluster(), 0u);
  const std::string file = before->folder().path() + "/sluice.yaml";
  const auto between = [&](const std::string& from, const std::string& to) {
    return run({.arguments = {"store", "import-redis", "--from", from, "--to-cluster", to,
                              "--config", file}});
  };
  const std::string node = cluster.node(0).address();
  const Finished swapped = between(node, single.address());
  EXPECT_EQ(swapped.status, 1);
  EXPECT_NE(swapped.err.find("--from is a node of a Redis Cluster"), std::string::npos)
      << swapped.err;
  const Finished single_twice = between(single.address(), single.address());
  EXPECT_EQ(single_twice.status, 1);
  EXPECT_NE(single_twice.err.find("--to-cluster: no node"), std::string::npos) << single_twice.err;
  const Finished nowhere = between("127.0.0.1:1", node);
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_NE(nowhere.err.find("cannot connect"), std::string::npos) << nowhere.err;
  // Nothing was copied, so there is no rest.
  for (const Finished& finished : {swapped, single_twice, nowhere})
    EXPECT_EQ(finished.err.find("run it again"), std::string::npos) << finished.err;
}

// Overrides are found with any file, counters only with that of the servers.
TEST_F(RedisImport, AWrongFileIsSaidThoughThereAreOverrides) {
  auto before = old_server();
  before->hit("r=x");
  const auto set = http(before->admin_port(), "POST", "/v1/overrides",
                        R"({"rule":"api","actor":"x","limit":{"quota":40,"window":"1h"}})");
  ASSERT_EQ(set.status, 201) << set.body;
  const std::string other = before->folder().write(
      "other.yaml", "rules: [{ name: other, match: { q: a }, limit: { quota: 5, window: 1m } }]\n");
  const Finished wrong =
      run({.arguments = {"store", "import-redis", "--from", single.address(), "--to-cluster",
                         cluster.addresses()[0], "--config", other}});
  EXPECT_EQ(wrong.status, 1) << wrong.out;
  EXPECT_NE(wrong.err.find("no key is a counter of these rules"), std::string::npos) << wrong.err;
  EXPECT_EQ(import_json(*before)["imported"], 1);
}

// Rules that a single Redis settles together, and that a cluster's servers refuse at their start.
TEST_F(RedisImport, RulesThatTheClusterRefusesAreWarnedOf) {
  rules =
      "rules:\n"
      "  - { name: u, match: { u: \"*\" }, actor: u, limit: { quota: 5, window: 1h }, then: "
      "continue }\n"
      "  - { name: t, match: { t: \"*\" }, actor: t, limit: { quota: 5, window: 1h } }\n";
  auto before = old_server();
  EXPECT_EQ(before->hit("u=x t=y").substr(0, 7), "OK true");
  const Finished warned = import(*before);
  EXPECT_EQ(warned.status, 0) << warned.err;
  EXPECT_NE(warned.err.find("warning: rule u (line "), std::string::npos) << warned.err;
  EXPECT_NE(warned.err.find("`store.redis.across_slots: settle`"), std::string::npos) << warned.err;
  const std::string settles = before->folder().write(
      "cluster.yaml", rules + "store: { redis: { cluster: true, across_slots: settle, nodes: [\"" +
                          cluster.addresses()[0] + "\"] } }\n");
  EXPECT_EQ(run({.arguments = {"check", settles}}).status, 0);
  const Finished again =
      run({.arguments = {"store", "import-redis", "--from", single.address(), "--to-cluster",
                         cluster.addresses()[0], "--config", settles}});
  EXPECT_EQ(again.status, 0);
  EXPECT_EQ(again.err, "");
  EXPECT_TRUE(again.out.starts_with("2 keys found, 0 counters imported")) << again.out;
}

// A pass that is killed in the middle leaves the rest to the next one.
TEST_F(RedisImport, AKillInTheMiddleLosesNothing) {
  auto before = old_server();
  constexpr int count = 20'000;
  before->hit("r=seed");
  const std::string seed = client({"KEYS", "sluice:native:api:seed:*"}).list.at(0).text;
  const std::string value = client({"GET", seed}).text, tail = seed.substr(22);
  const std::string made = client({"EVAL",
                                   "for i = 1, tonumber(ARGV[2]) do redis.call('SET', "
                                   "'sluice:native:api:k' .. i .. ARGV[3], ARGV[1], 'PX', "
                                   "3000000 + i) end return 'made'",
                                   "0", value, std::to_string(count), tail})
                               .text;
  ASSERT_EQ(made, "made");
  std::string nodes = cluster.addresses()[0];
  Process killed({.arguments = {"store", "import-redis", "--from", single.address(), "--to-cluster",
                                nodes, "--config", before->folder().path() + "/sluice.yaml"}});
  const auto deadline = soon();
  while (keys_in_cluster() == 0 && std::chrono::steady_clock::now() < deadline) {
  }
  killed.signal(SIGKILL);
  killed.wait();
  const size_t there = keys_in_cluster();
  EXPECT_GT(there, 0u);
  EXPECT_LT(there, static_cast<size_t>(count)) << "it had ended already";
  const json told = import_json(*before);
  EXPECT_EQ(told["imported"], count + 1 - there) << told;
  EXPECT_EQ(told["kept"], there) << told;
  EXPECT_EQ(told["replaced"], 0) << told;
  EXPECT_EQ(keys_in_cluster(), static_cast<size_t>(count) + 1);
  for (const int i : {1, 77, count}) {
    const std::string actor = "k" + std::to_string(i), key = "sluice:native:api:" + actor + tail;
    EXPECT_EQ(at({"GET", clustered(key, actor)}).text, value) << key;
    EXPECT_NEAR(static_cast<double>(at({"PEXPIRETIME", clustered(key, actor)}).number),
                static_cast<double>(client({"PEXPIRETIME", key}).number), 2);
  }
}

// The single Redis speaks TLS, and at both ends the user has only the rights that docs/redis.md
// names.
TEST_F(RedisImport, WorksByTlsAndAsAUserWithFewRights) {
  const Folder folder;
  const Authority authority(folder, "authority");
  const Authority::Files files = authority.sign("IP:127.0.0.1");
  const uint16_t port = free_port();
  RedisServer secured({"--tls-port", std::to_string(port), "--tls-cert-file", files.certificate,
                       "--tls-key-file", files.key, "--tls-auth-clients", "no"});
  const auto add_user = [](RedisServer& node) {
    const Words rights{"ACL",           "SETUSER",     "limiter",         "on",
                       ">pass",         "~*",          "-@all",           "+@read",
                       "+@write",       "+@scripting", "+@connection",    "+time",
                       "+info",         "+dbsize",     "+cluster|shards", "+cluster|slots",
                       "+cluster|info", "+asking"};
    EXPECT_FALSE(node.client()(rights).is_error());
  };
  add_user(secured);
  for (size_t i = 0; i < cluster.size(); ++i) add_user(cluster.node(i));
  auto before = old_server();
  secured.client()({"SET", "divvy:::1000:600", "17", "PX", "500000"});
  const std::string password = folder.write("password", "pass\n");
  const auto import_as = [&](const std::string& user) {
    return run(
        {.arguments = {"store", "import-redis", "--from", "127.0.0.1:" + std::to_string(port),
                       "--to-cluster", cluster.addresses()[1], "--config",
                       before->folder().path() + "/sluice.yaml", "--from-tls", "--from-user",
                       "limiter", "--from-password-file", password, "--to-user", user,
                       "--to-password-file", password},
         .environment = {{"SSL_CERT_FILE", authority.certificate()}}});
  };
  EXPECT_EQ(import_as("other").status, 1);
  EXPECT_EQ(keys_in_cluster(), 0u);
  const Finished done = import_as("limiter");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(at({"GET", "divvy:::1000:600"}).text, "17");
  EXPECT_TRUE(secured.client()({"ACL", "LOG"}).list.empty());
}

// While a slot moves to another primary, a key that is no longer at the old one is at the new one.
TEST_F(RedisImport, SlotsMayMove) {
  auto before = old_server();
  before->hit("r=x");
  before->hit("r=x");
  const std::string key = client({"KEYS", "sluice:native:api:x:*"}).list.at(0).text;
  const uint16_t slot = redis::slot_of(clustered(key, "x"));
  const size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
  cluster.begin_move(slot, from, to);
  EXPECT_EQ(import_json(*before)["imported"], 1);
  before->hit("r=x");
  EXPECT_EQ(import_json(*before)["replaced"], 1);
  cluster.move_keys(slot, from, to);
  cluster.end_move(slot, from, to);
  auto after = new_server();
  EXPECT_EQ(after->await_hit("r=x", "OK true 16"), "");
}

}  // namespace
}  // namespace sluice::tests::redis_import_test
