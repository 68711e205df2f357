// A real server on each store, for tests of counters and explanations over its admin port. Each
// answer is checked against docs/openapi.json.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"
#include "tests/support/limitd_client.h"
#include "tests/support/paths.h"
#include "tests/support/process_stats.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::counters_test {

using Json = nlohmann::json;

enum class Kept { memory, interval, always, redis };

inline std::string name_of(const testing::TestParamInfo<Kept>& info) {
  return std::vector<std::string>{"Memory", "Interval", "Always",
                                  "Redis"}[static_cast<size_t>(info.param)];
}

struct Said {
  int status = 0;
  Json body;
  size_t bytes = 0;
};

// `described`: the path as docs/openapi.json writes it.
inline Said ask(uint16_t port, const std::string& method, const std::string& described,
                const std::string& target, const std::string& body = {}) {
  static const Json openapi = [] {
    std::ifstream file(tests::source_path("docs/openapi.json"));
    return Json::parse(file);
  }();
  const HttpAnswer answer = http(port, method, target, body);
  std::string verb = method;
  for (char& c : verb) c = static_cast<char>(std::tolower(c));
  const Json& responses = openapi.at("paths").at(described).at(verb).at("responses");
  const Json& content =
      resolved_in(openapi, responses.at(std::to_string(answer.status))).at("content");
  const Json json = Json::parse(answer.body);
  EXPECT_EQ(
      schema_problem(openapi, content.at(answer.headers.at("content-type")).at("schema"), json), "")
      << answer.body;
  return {answer.status, json, answer.body.size()};
}

class World {
 public:
  explicit World(Kept kept) : kept_(kept) {
    std::string store = "{ memory: 64MiB }";
    if (kept == Kept::interval) store = "{ path: \"" + folder_.path() + "/store\" }";
    if (kept == Kept::always)
      store = "{ path: \"" + folder_.path() + "/store\", durability: always }";
    if (kept == Kept::redis) {
      redis_ = std::make_unique<RedisServer>();
      store = "{ redis: { nodes: [\"" + redis_->address() +
              "\"], deadline_ms: 2000, patience_ms: 25000 } }";
    }
    // A canary that shares its counter with the rule after it, and a rule that cannot be evaluated.
    folder_.write("rules.json", R"({"overrides": [
      {"operation": {"k": "v"}, "creditLimit": 100, "resetSeconds": 600, "actorField": "who"},
      {"operation": {"shadowed": "1"}, "creditLimit": 2, "resetSeconds": 600,
       "matchPolicy": "canary"},
      {"operation": {"shadowed": "1"}, "creditLimit": 2, "resetSeconds": 600},
      {"operation": {"bad": "x", "path": "**"}, "creditLimit": 2, "resetSeconds": 600}],
      "default": {"operation": {}, "creditLimit": 0, "resetSeconds": 0}})");
    folder_.write("limitd.yaml",
                  "db: { inMemory: true }\nbuckets:\n  fixed:\n    size: 3\n    override:\n"
                  "      big: { size: 5 }\n  user:\n    size: 2\n    per_hour: 2\n");
    config_ = folder_.write("sluice.yaml",
                            "listen:\n"
                            "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
                            "  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
                            "  - { protocol: droplet, address: \"127.0.0.1:0\" }\n"
                            "workers: 2\n"
                            "store: " +
                                store +
                                "\npolicy:\n  - divvy: rules.json\n  - limitd: limitd.yaml\n"
                                "rules:\n"
                                "  - name: per-tenant\n"
                                "    match: { tenant: \"*\", api: \"*\" }\n"
                                "    actor: [tenant, api]\n"
                                "    limits:\n"
                                "      - { quota: 5, window: 1h, burst: 10 }\n"
                                "      - { quota: 20, window: 1d, algorithm: sliding_window }\n"
                                "  - name: shadow\n"
                                "    match: { k: \"*\" }\n"
                                "    limit: { quota: 2, window: 1h, algorithm: sliding_log }\n"
                                "    mode: shadow\n");
    start();
  }

  void start() {
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", config_, "--log-level", "info",
                                       "--admin", "127.0.0.1:0"}});
    divvy_ = await_listening(*process_, "divvy");
    limitd_ = await_listening(*process_, "limitd");
    droplet_ = await_listening(*process_, "droplet");
    admin_ = await_listening(*process_, "admin");
    if (kept_ != Kept::redis) return;
    const std::string up = "sluice_redis_connections{state=\"up\"}";
    for (const auto limit = soon(); sample(admin_, up) != "2";) {
      if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("no Redis");
      std::this_thread::sleep_for(Milliseconds(10));
    }
  }

  std::string hit(const std::string& line) { return client(divvy_).ask("HIT " + line); }
  LimitdClient limitd() { return LimitdClient(client(limitd_)); }
  DropletLeft drop(const DropletTake& take) { return DropletClient(droplet_).ask(take); }
  Said get(const std::string& path) { return one("GET", path); }
  Said put(const std::string& path, const std::string& body) { return one("PUT", path, body); }
  Said forget(const std::string& path) { return one("DELETE", path); }
  Said one(const std::string& method, const std::string& path, const std::string& body = {}) {
    return ask(admin_, method, "/v1/counters/{key}", "/v1/counters/" + path, body);
  }
  Said list(const std::string& query) {
    return ask(admin_, "GET", "/v1/counters", "/v1/counters" + query);
  }
  Said explain(const std::string& body) {
    return ask(admin_, "POST", "/v1/explain", "/v1/explain", body);
  }
  static TcpClient client(uint16_t port) {
    auto client = TcpClient::connect(port);
    if (!client) throw std::runtime_error("refused");
    return std::move(*client);
  }
  RedisServer& redis() { return *redis_; }
  Process& process() { return *process_; }
  uint16_t divvy_port() const { return divvy_; }
  uint16_t admin_port() const { return admin_; }

 private:
  const Kept kept_;
  Folder folder_;
  std::unique_ptr<RedisServer> redis_;
  std::string config_;
  std::unique_ptr<Process> process_;
  uint16_t divvy_ = 0, limitd_ = 0, droplet_ = 0, admin_ = 0;
};

// The counter of the policy's first rule for `k=v who=me`.
inline const std::string me = "divvy:k=v:me:100:600";

}  // namespace sluice::tests::counters_test
