// The members of GET /v1/status, with made-up stores. tests/e2e/status_test.cc has the real ones.
#include "admin/status_api.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "request/space.h"

namespace sluice::admin::status_api_test {
namespace {

class MadeUp final : public store::Catalog {
 public:
  std::vector<std::string> list(const request::Space&, std::string_view, size_t) override {
    return {};
  }
  store::ScanPage scan_page(const request::SpaceIndex&, std::string_view, std::string_view, size_t,
                            std::string_view) override {
    return {};
  }
  void housekeep(base::Time) override {}
  size_t purge(base::Time) override { return 0; }
  store::Stats stats() const override { return its_stats; }
  store::KindFigures kind_figures() const override { return its_kind; }
  std::string why_not_ready() const override { return why_not; }
  std::string why_degraded() const override { return degraded; }

  store::Stats its_stats;
  store::KindFigures its_kind;
  std::string why_not, degraded;
};

struct World {
  World() : admin(options(), {live, server_stats, sources, nullptr, {"rules.ini"}}) {
    admin.add_check([this]() -> std::optional<std::string> {
      if (store.why_not.empty()) return {};
      return store.why_not;
    });
    admin.add_degraded_check([this]() -> std::optional<std::string> {
      if (store.degraded.empty()) return {};
      return store.degraded;
    });
    add_status(admin, {.live = live,
                       .history = &history,
                       .overrides = nullptr,
                       .store = store,
                       .server_stats = server_stats,
                       .rates = rates,
                       .listeners =
                           [] {
                             return std::vector<ListenerJson>{{"some", "requests", "127.0.0.1:1"},
                                                              {"admin", "admin", "/a.sock"}};
                           },
                       .connections_refused = [] { return uint64_t{11}; },
                       .collectors = [this] { return collectors; }});
  }
  static AdminOptions options() {
    AdminOptions options;
    options.version = "9.8.7";
    return options;
  }
  void read(live::Reading::Outcome outcome) {
    live::Reading reading;
    reading.outcome = outcome;
    history.put(std::move(reading));
  }
  Json status() {
    wire::HttpRequest request;
    request.method = "GET";
    request.path = "/v1/status";
    const auto response = admin.answer(request);
    EXPECT_EQ(response.status, 200u);
    return Json::parse(response.body);
  }

  live::Live live{live::LivePolicy{std::make_shared<policy::RuleSet>()}};
  live::ReloadHistory history;
  ServerStats server_stats;
  RequestRates rates;
  metrics::Sources sources;
  MadeUp store;
  std::vector<CollectorJson> collectors;
  Admin admin;
};

std::vector<std::string> names_of(const Json& json) {
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  return names;
}

Json members(std::string_view text) {
  return Json::parse(text);
}

TEST(StatusApi, ReportsEveryMemberOfAServerInMemory) {
  World world;
  world.store.its_stats = {.counters = 3,
                           .memory_bytes = 4096,
                           .memory_bytes_max = 8192,
                           .swept = 5,
                           .purged = 6,
                           .refused = 7,
                           .waiting = 2};
  Json status = world.status();
  EXPECT_EQ(names_of(status),
            (std::vector<std::string>{"version", "time_zones", "at", "up_seconds", "ready",
                                      "degraded", "reasons", "listeners", "policy", "store",
                                      "counters", "waiting", "overrides", "collectors",
                                      "connections", "requests", "protocols", "errors"}));
  EXPECT_EQ(status["version"], "9.8.7");
  EXPECT_EQ(status["at"].get<std::string>().size(), std::string("2026-01-02T03:04:05Z").size());
  EXPECT_GE(status["up_seconds"], 0);
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["degraded"], false);
  EXPECT_EQ(status["reasons"], Json::array());
  EXPECT_EQ(status["listeners"],
            members(R"([{"service": "some", "kind": "requests", "address": "127.0.0.1:1",
                         "tls": null, "open": false},
                        {"service": "admin", "kind": "admin", "address": "/a.sock",
                         "tls": null, "open": false}])"));
  EXPECT_EQ(status["store"],
            members(R"({"kind": "memory", "ready": true, "degraded": false, "reasons": [],
      "loading": false, "failing": false, "durability": null, "commit_interval_ms": null,
      "fsync": null, "commits": null, "commit_failures": null, "committed_counters": null,
      "committed_bytes": null, "snapshots": null, "log_bytes": null, "connections": null,
      "second_connections": null, "failures": null, "calls": null, "local_decisions": null,
      "time_zones_elsewhere": null})"));
  EXPECT_EQ(status["counters"],
            members(R"({"count": 3, "memory_bytes": 4096, "memory_bytes_max": 8192, "refused": 7,
                        "swept": 5, "purged": 6})"));
  EXPECT_EQ(status["waiting"], 2);
  EXPECT_EQ(status["overrides"], members(R"({"count": 0, "changes": 0, "persisted": false})"));
  EXPECT_EQ(status["errors"], members(R"({"requests": 0, "protocol": 0, "connections_refused": 11,
      "connections_closed": {"request_timeout": 0, "request_memory": 0, "send_timeout": 0,
                             "send_memory": 0, "idle_timeout": 0, "handshakes": 0},
      "matches_given_up": 0, "regexes_given_up": 0})"));
  world.store.its_stats.memory_bytes_max = 0;
  EXPECT_EQ(world.status()["counters"]["memory_bytes_max"], Json());
}

TEST(StatusApi, HasTheSameMembersWithEveryStore) {
  World world;
  const auto in_memory = names_of(world.status()["store"]);
  world.store.its_kind.disk =
      store::DiskFigures{.durability = "always", .interval = base::milliseconds(250), .sync = true};
  world.store.its_stats = {.loading = true,
                           .failing = true,
                           .commits = 1,
                           .commit_failures = 2,
                           .committed_counters = 3,
                           .committed_bytes = 4,
                           .snapshots = 6,
                           .log_bytes = 5};
  const Json disk = world.status()["store"];
  EXPECT_EQ(names_of(disk), in_memory);
  EXPECT_EQ(disk, members(R"({"kind": "disk", "ready": true, "degraded": false, "reasons": [],
      "loading": true, "failing": true, "durability": "always", "commit_interval_ms": 250,
      "fsync": true, "commits": 1, "commit_failures": 2, "committed_counters": 3,
      "committed_bytes": 4, "snapshots": 6, "log_bytes": 5, "connections": null,
      "second_connections": null, "failures": null, "calls": null, "local_decisions": null,
      "time_zones_elsewhere": null})"));

  world.store.its_stats = {};
  world.store.its_kind = {};
  world.store.its_kind.redis = store::RedisFigures{.connections = {{"down", 1}, {"up", 2}},
                                                   .failures = {{"late", 3}},
                                                   .calls = 4,
                                                   .local_decisions = 5,
                                                   .zones_elsewhere = "2024a"};
  const Json redis = world.status()["store"];
  EXPECT_EQ(names_of(redis), in_memory);
  EXPECT_EQ(redis, members(R"({"kind": "redis", "ready": true, "degraded": false, "reasons": [],
      "loading": false, "failing": false, "durability": null, "commit_interval_ms": null,
      "fsync": null, "commits": null, "commit_failures": null, "committed_counters": null,
      "committed_bytes": null, "snapshots": null, "log_bytes": null, "connections": {"down": 1, "up": 2},
      "second_connections": null, "failures": {"late": 3}, "calls": 4, "local_decisions": 5,
      "time_zones_elsewhere": "2024a"})"));
  world.store.its_kind.redis->second_connections = {{"up", 1}};
  EXPECT_EQ(world.status()["store"]["second_connections"], members(R"({"up": 1})"));
}

// What the store says of itself the server says of all.
TEST(StatusApi, ReportsWhyItIsNotReadyOrDegraded) {
  World world;
  const auto expect = [&](bool ready, bool degraded, const Json& reasons) {
    const Json status = world.status();
    for (const Json& its : {status, status["store"]}) {
      EXPECT_EQ(its["ready"], ready) << its;
      EXPECT_EQ(its["degraded"], degraded) << its;
      EXPECT_EQ(its["reasons"], reasons) << its;
    }
  };
  expect(true, false, Json::array());
  world.store.degraded = "the disk is full";
  expect(true, true, {"the disk is full"});
  world.store.why_not = "counters cannot be read";
  expect(false, false, {"counters cannot be read"});
}

TEST(StatusApi, ReportsThatAnOlderPolicyIsLive) {
  World world;
  Json policy = world.status()["policy"];
  EXPECT_EQ(names_of(policy),
            (std::vector<std::string>{"generation", "hash", "rules", "built_in_rules", "files",
                                      "live_since", "reloadable", "warnings", "last_reading",
                                      "stale", "refused_total", "sent"}));
  EXPECT_EQ(policy["sent"], Json::array());
  EXPECT_EQ(policy["files"], members(R"(["rules.ini"])"));
  EXPECT_EQ(policy["stale"], false);
  world.read(live::Reading::Outcome::refused);
  policy = world.status()["policy"];
  EXPECT_EQ(policy["stale"], true);
  EXPECT_EQ(policy["refused_total"], 1);
  world.read(live::Reading::Outcome::unchanged);
  policy = world.status()["policy"];
  EXPECT_EQ(policy["stale"], false);
  EXPECT_EQ(policy["refused_total"], 1);
}

TEST(StatusApi, CountsRequestsByProtocolAndOutcome) {
  World world;
  engine::WorkerStats& first = world.server_stats.add_worker();
  engine::WorkerStats& second = world.server_stats.add_worker();
  const auto protocols = protocol::numbers();
  const std::string one(protocol::name_of(protocols[0])), other(protocol::name_of(protocols[1]));
  first.connected(protocols[0]);
  second.connected(protocols[0]);
  second.disconnected(protocols[0]);
  first.received(protocols[0], 100);
  second.sent(protocols[1], 7);
  second.fault(protocols[1], "");
  request::Verdict verdict;
  first.begin(protocols[0], {1}, {1});
  first.answered(protocols[0], request::Verb::take, verdict);
  first.end();
  second.closed(protocols[1], engine::Closed::send_timeout);

  const Json status = world.status();
  EXPECT_EQ(status["connections"].size(), protocols.size());
  EXPECT_EQ(status["protocols"].size(), protocols.size());
  EXPECT_EQ(status["connections"][one], 1);
  EXPECT_EQ(status["connections"][other], 0);
  EXPECT_EQ(status["protocols"][one]["connections_opened"], 2);
  EXPECT_EQ(status["protocols"][one]["received_bytes"], 100);
  EXPECT_EQ(status["protocols"][other]["sent_bytes"], 7);
  EXPECT_EQ(status["protocols"][other]["protocol_errors"], 1);
  EXPECT_EQ(status["errors"]["protocol"], 1);
  EXPECT_EQ(status["errors"]["connections_closed"]["send_timeout"], 1);
  uint64_t sum = 0;
  for (const auto& [outcome, count] : status["requests"]["total"].items()) {
    sum += count.get<uint64_t>();
    EXPECT_EQ(status["protocols"][one]["total"][outcome], count) << outcome;
    EXPECT_EQ(status["requests"]["per_second"][outcome].get<double>() > 0,
              count.get<uint64_t>() > 0)
        << outcome;
    EXPECT_EQ(status["protocols"][other]["total"][outcome], 0) << outcome;
  }
  EXPECT_EQ(sum, 1u);
  EXPECT_GT(status["requests"]["over_seconds"], 0.0);
}

TEST(StatusApi, TellsWhatCollectorsHaveTaken) {
  World world;
  EXPECT_EQ(world.status()["collectors"], Json::array());
  world.collectors = {{"traces", "http://a:4318", 7, 2, 1, "it answered with status 503"},
                      {"metrics", "http://b:4318", 3, 0, 0, ""}};
  EXPECT_EQ(world.status()["collectors"], members(R"([
      {"signal": "traces", "endpoint": "http://a:4318", "sent": 7, "failed": 2, "dropped": 1,
       "problem": "it answered with status 503"},
      {"signal": "metrics", "endpoint": "http://b:4318", "sent": 3, "failed": 0, "dropped": 0,
       "problem": null}])"));
}

}  // namespace
}  // namespace sluice::admin::status_api_test
