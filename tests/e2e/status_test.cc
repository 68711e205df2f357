// GET /v1/status of the real binary with each store. Every answer is checked against
// docs/openapi.json.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::status_test {
namespace {

struct Served {
  explicit Served(std::map<std::string, std::string> environment = {}) {
    file = folder.write("rules.ini", hundred_policy);
    environment["PORT"] = "0";
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"divvy", file, "--admin", "127.0.0.1:0"},
                         .environment = std::move(environment)});
    divvy = await_listening(*process);
    admin = await_listening(*process, "admin");
  }
  Json status() const { return json_of(ask(admin, "GET", "/v1/status")); }
  // The first answer for which `wanted` holds. Fails the test if there is none in time.
  Json await(const std::function<bool(const Json&)>& wanted) const {
    Json last;
    for (const auto limit = soon(); std::chrono::steady_clock::now() < limit;) {
      last = status();
      if (wanted(last)) return last;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "does not come: " << last.dump();
    return last;
  }

  Folder folder;
  std::string file;
  std::unique_ptr<Process> process;
  uint16_t divvy = 0, admin = 0;
};

bool is_ready(const Json& status) {
  return status.at("ready") && !status.at("degraded");
}

// Adds the paths of all members, but not below members that may be null in one answer and an object
// in another.
void add_paths(const Json& json, const std::string& path, std::set<std::string>& paths) {
  paths.insert(path);
  if (!json.is_object() || path == ".store.connections" || path == ".store.failures" ||
      path == ".policy.last_reading")
    return;
  for (const auto& [name, below] : json.items()) add_paths(below, path + "." + name, paths);
}
std::set<std::string> paths_of(const Json& json) {
  std::set<std::string> paths;
  add_paths(json, "", paths);
  return paths;
}

// Sends 103 takes on one connection, of which 100 are allowed, and returns the status after them.
Json after_traffic(const Served& served) {
  served.await(is_ready);
  auto client = TcpClient::connect(served.divvy);
  for (int i = 0; i < 103; ++i) client->ask("HIT k=v who=a");
  const Json status = served.status();
  EXPECT_TRUE(is_ready(status)) << status.dump();
  EXPECT_EQ(status.at("connections").at("divvy"), 1);
  for (const Json& counts : {status.at("requests"), status.at("protocols").at("divvy")}) {
    EXPECT_EQ(
        counts.at("total"),
        Json({{"allowed", 100}, {"denied", 3}, {"unmatched", 0}, {"error", 0}, {"answered", 0}}));
    // While the server is young, its rates are over all its time.
    const double seconds = status.at("requests").at("over_seconds");
    if (status.at("up_seconds") < 8) {
      EXPECT_NEAR(counts.at("per_second").at("allowed").get<double>() * seconds, 100, 1e-6);
      EXPECT_NEAR(counts.at("per_second").at("denied").get<double>() * seconds, 3, 1e-6);
    }
  }
  EXPECT_EQ(status.at("protocols").at("divvy").at("connections_opened"), 1);
  EXPECT_EQ(status.at("protocols").at("divvy").at("received_bytes"), 103 * 14);
  EXPECT_GT(status.at("protocols").at("divvy").at("sent_bytes"), 103 * 10);
  EXPECT_EQ(status.at("errors").at("requests"), 0);
  EXPECT_EQ(status.at("policy").at("files"), Json::array({served.file}));
  EXPECT_EQ(status.at("policy").at("rules"), 2);
  EXPECT_EQ(status.at("policy").at("stale"), false);
  EXPECT_EQ(status.at("waiting"), 0);
  const Json& listeners = status.at("listeners");
  EXPECT_EQ(listeners.size(), 2u);
  EXPECT_EQ(listeners.at(0).at("service"), "divvy");
  EXPECT_EQ(listeners.at(0).at("kind"), "requests");
  EXPECT_EQ(listeners.at(1), Json({{"service", "admin"},
                                   {"kind", "admin"},
                                   {"address", "127.0.0.1:" + std::to_string(served.admin)},
                                   {"tls", nullptr},
                                   {"open", false}}));
  return status;
}

TEST(Status, HasTheSameMembersInMemoryOnDiskAndInRedis) {
  const Served memory;
  const Json in_memory = after_traffic(memory);
  EXPECT_EQ(in_memory.at("store").at("kind"), "memory");
  EXPECT_EQ(in_memory.at("store").at("commits"), Json());
  EXPECT_EQ(in_memory.at("counters").at("count"), 1);
  EXPECT_EQ(in_memory.at("overrides").at("persisted"), false);

  const Folder data;
  const Served disk({{"SLUICE_DATA", data.path() + "/store"}, {"SLUICE_DURABILITY", "always"}});
  const Json on_disk = after_traffic(disk);
  EXPECT_EQ(on_disk.at("store").at("kind"), "disk");
  EXPECT_EQ(on_disk.at("store").at("durability"), "always");
  EXPECT_GE(on_disk.at("store").at("commits"), 1);
  EXPECT_GE(on_disk.at("store").at("committed_counters"), 1);
  EXPECT_EQ(on_disk.at("counters").at("count"), 1);
  EXPECT_EQ(on_disk.at("overrides").at("persisted"), true);
  EXPECT_EQ(paths_of(on_disk), paths_of(in_memory));

  const RedisServer redis;
  const Served remote({{"SLUICE_REDIS", redis.address()}});
  const Json in_redis = after_traffic(remote);
  EXPECT_EQ(in_redis.at("store").at("kind"), "redis");
  EXPECT_GE(in_redis.at("store").at("connections").at("up"), 1);
  EXPECT_GE(in_redis.at("store").at("calls"), 1);
  EXPECT_EQ(in_redis.at("store").at("durability"), Json());
  EXPECT_EQ(paths_of(in_redis), paths_of(in_memory));
}

TEST(Status, ReportsDegradedWithTheReasonWithoutRedis) {
  RedisServer redis;
  const Served served({{"SLUICE_REDIS", redis.address()}});
  served.await(is_ready);
  redis.stop();
  const Json degraded = served.await([](const Json& status) { return status.at("degraded"); });
  EXPECT_EQ(degraded.at("ready"), true);
  EXPECT_EQ(degraded.at("reasons"), degraded.at("store").at("reasons"));
  const std::string why = degraded.at("reasons").at(0);
  EXPECT_TRUE(why.starts_with("Redis cannot be asked: none of ")) << why;
  EXPECT_EQ(degraded.at("store").at("connections").at("up"), 0);
  TcpClient::connect(served.divvy)->ask("HIT k=v who=a");
  served.await([](const Json& status) {
    uint64_t failures = 0;
    for (const auto& [reason, count] : status.at("store").at("failures").items())
      failures += count.get<uint64_t>();
    return failures >= 1;
  });
  redis.start();
  served.await(is_ready);
}

TEST(Status, ReportsAFailedReloadUntilTheFilesAreCorrected) {
  const Served served;
  served.await(is_ready);
  EXPECT_EQ(served.status().at("policy").at("stale"), false);
  served.folder.write("rules.ini", "[default]\ncreditLimit = x\n");
  EXPECT_EQ(http(served.admin, "POST", "/v1/reload", {}).status, 422);
  const Json policy = served.status().at("policy");
  EXPECT_EQ(policy.at("stale"), true);
  EXPECT_EQ(policy.at("generation"), 1);
  EXPECT_GE(policy.at("refused_total"), 1);
  EXPECT_EQ(policy.at("last_reading").at("outcome"), "refused");
  const Json& diagnostics = policy.at("last_reading").at("diagnostics");
  EXPECT_NE(diagnostics.dump().find("creditLimit"), std::string::npos) << diagnostics;
  served.folder.write("rules.ini", "[default]\ncreditLimit = 7\nresetSeconds = 60\n");
  EXPECT_EQ(http(served.admin, "POST", "/v1/reload", {}).status, 200);
  const Json now = served.status().at("policy");
  EXPECT_EQ(now.at("stale"), false);
  EXPECT_EQ(now.at("generation"), 2);
  EXPECT_GE(now.at("refused_total"), 1);
  EXPECT_EQ(now.at("rules"), 1);
}

TEST(Status, CountsOverridesErrorsAndBrokenConnections) {
  const Served served;
  served.await(is_ready);
  const auto set =
      http(served.admin, "POST", "/v1/overrides", R"({"rule": "k=v", "actor": "b", "deny": true})");
  ASSERT_EQ(set.status, 201) << set.body;
  const Json overrides = served.status().at("overrides");
  EXPECT_EQ(overrides.at("count"), 1);
  EXPECT_EQ(overrides.at("changes"), 1);
  auto client = TcpClient::connect(served.divvy);
  EXPECT_TRUE(denies(client->ask("HIT k=v who=b")));
  client->ask("NONSENSE");
  client->ask(std::string(100'000, 'x'));
  served.await([](const Json& status) { return status.at("errors").at("protocol") >= 1; });
}

}  // namespace
}  // namespace sluice::tests::status_test
