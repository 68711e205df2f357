// Stores on disk that released versions wrote (tests/kept/VERSION): this one reads each of them,
// and decides on from there. What released versions wrote into Redis is in tests/redis/recorded.
//
// A release whose format is another adds a folder, with SLUICE_RECORD_STORE=FOLDER; those that are
// there stay as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/resp_client.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::kept_stores_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Windows of a hundred years, so that nothing comes back. Counters of droplet are full again after
// a month at most, so none is among them.
constexpr const char* config = R"(listen:
  - { protocol: divvy, address: "127.0.0.1:0" }
  - { protocol: limitd, address: "127.0.0.1:0" }
  - { protocol: resp, address: "127.0.0.1:0" }
  - { protocol: http, address: "127.0.0.1:0" }
  - { protocol: admin, address: "127.0.0.1:0" }
policy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]
rules:
  - { name: window, match: { w: "*" }, actor: w, limit: { quota: 1, window: 876000h, burst: 9 } }
  - { name: fixed, match: { x: "*" }, actor: x, limit: { algorithm: fixed_window, quota: 9, window: 876000h } }
  - { name: sliding, match: { s: "*" }, actor: s, limit: { algorithm: sliding_window, quota: 9, window: 876000h } }
  - { name: log, match: { l: "*" }, actor: l, limit: { algorithm: sliding_log, quota: 9, window: 876000h } }
  - { name: bucket, match: { g: "*" }, actor: g, limit: { algorithm: token_bucket, quota: 1, window: 876000h, burst: 9 } }
  - { name: seats, match: { f: "*" }, actor: f, limit: { algorithm: fixed_bucket, quota: 9 } }
  - name: two
    match: { t: "*", u: "*" }
    actor: [t, u]
    limits: [{ quota: 1, window: 876000h, burst: 9 }, { algorithm: fixed_bucket, quota: 5 }]
)";
constexpr const char* divvy_rules =
    "[method=GET ip=*]\ncreditLimit = 9\nresetSeconds = 3153600000\nactorField = ip\n\n"
    "[default]\ncreditLimit = 1\nresetSeconds = 3153600000\n";
constexpr const char* limitd_types = "db: { inMemory: true }\nbuckets: { seats: { size: 9 } }\n";

class KeptStores : public testing::Test {
 protected:
  KeptStores() {
    std::ofstream(folder_.path() + "/sluice.yaml") << config;
    std::ofstream(folder_.path() + "/rules.ini") << divvy_rules;
    std::ofstream(folder_.path() + "/limitd.yaml") << limitd_types;
  }

  std::string store() const { return folder_.path() + "/store"; }
  std::unique_ptr<Process> serve() const {
    return std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder_.path() + "/sluice.yaml",
                                       "--data", store(), "--durability", "always"}});
  }

  // What the tool says of the store, less what depends on the time of day.
  std::vector<Json> dumped(const std::string& path) const {
    const Finished done = run({.arguments = {"store", "dump", path}});
    EXPECT_EQ(done.status, 0) << done.err;
    std::vector<Json> lines;
    std::istringstream out(done.out);
    for (std::string line; std::getline(out, line);) {
      Json json = Json::parse(line);
      if (json.contains("limits"))
        for (Json& limit : json["limits"])
          for (const char* key : {"reset_after_us", "says"}) limit.erase(key);
      lines.push_back(std::move(json));
    }
    std::ranges::sort(lines, {}, [](const Json& line) { return line.dump(); });
    return lines;
  }

  // The units that each counter has left, and the overrides.
  static Json live(uint16_t admin) {
    std::map<std::string, std::vector<int64_t>> left;
    const Json counters = Json::parse(http_get(admin, "/v1/counters?limit=1000").body);
    for (const Json& counter : counters.at("counters"))
      for (const Json& limit : counter.at("limits"))
        left[counter.at("counter")].push_back(limit.at("remaining"));
    Json overrides = Json::parse(http_get(admin, "/v1/overrides").body).at("overrides");
    return {{"left", left}, {"overrides", overrides}};
  }

  void record(const fs::path& to) const;

  Folder folder_;
};

void KeptStores::record(const fs::path& to) const {
  Json expected;
  {
    const auto server = serve();
    const uint16_t divvy = await_listening(*server, "divvy"),
                   limitd = await_listening(*server, "limitd"),
                   resp = await_listening(*server, "resp"),
                   http_port = await_listening(*server, "http"),
                   admin = await_listening(*server, "admin");
    const std::string type = "Content-Type: application/json\r\n";
    const auto post = [&](uint16_t port, const std::string& path, const std::string& body) {
      const HttpAnswer answer = http(port, "POST", path, body, type);
      ASSERT_LT(answer.status, 300) << path << " " << body << ": " << answer.body;
    };
    const auto take = [&](const std::string& what, int units) {
      post(http_port, "/v1/take", "{" + what + R"(, "n": )" + std::to_string(units) + "}");
    };
    for (const char* entry : {"w", "x", "s", "l", "g"})
      for (int i = 1; i <= 3; ++i)
        take(R"("entries": {")" + std::string(entry) + R"(": "a)" + std::to_string(i) + "\"}", i);
    take(R"("entries": {"f": "a"})", 7);
    take(R"("entries": {"t": "a", "u": "ü b"})", 4);
    take(R"("key": "user:1", "limits": [{"quota": 1, "window": "876000h", "burst": 9}])", 3);
    post(http_port, "/v1/charge",
         R"({"id": "charge-0000000001", "takes": [{"entries": {"f": "b"}, "n": 2}]})");
    post(
        admin, "/v1/overrides",
        R"({"dialect": "native", "rule": "seats", "actor": "vip", "limits": [{"algorithm": "fixed_bucket", "quota": 100}]})");
    TcpClient hits = TcpClient::connect(divvy).value();
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(hits.ask("HIT method=GET ip=10.0.0.7").starts_with("OK"));
    for (const auto& [program, port, words] :
         std::vector<std::tuple<std::string, uint16_t, std::vector<std::string>>>{
             {"limitd", limitd, {"take", "seats", "a", "5"}},
             {"resp", resp, {"CL.THROTTLE", "k", "1", "1", "3153600000", "1"}}}) {
      std::vector<std::string> all{"ask", program, "--server", "127.0.0.1:" + std::to_string(port)};
      all.insert(all.end(), words.begin(), words.end());
      const Finished asked = run({.arguments = all});
      EXPECT_EQ(asked.status, 0) << asked.out << asked.err;
    }
    expected["live"] = live(admin);
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait(), 0);
  }
  expected["dump"] = dumped(store());
  fs::create_directories(to);
  fs::copy(store(), to / "log", fs::copy_options::recursive);
  // Each start begins a log, and of many logs the server makes a snapshot.
  const auto has_snapshot = [&] {
    for (const auto& file : fs::directory_iterator(store() + "/sluice"))
      if (file.path().filename().string().starts_with("snapshot-")) return true;
    return false;
  };
  for (int starts = 0; starts < 12; ++starts) {
    const auto server = serve();
    await_listening(*server, "admin");
    for (const Deadline end = soon(); starts == 11 && !has_snapshot() && left_ms(end) > 0;)
      std::this_thread::sleep_for(Milliseconds(10));
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait(), 0);
  }
  EXPECT_TRUE(has_snapshot());
  fs::copy(store(), to / "snapshot", fs::copy_options::recursive);
  std::ofstream(to / "expected.json") << expected.dump(1) << "\n";
}

TEST_F(KeptStores, OfEveryReleaseAreReadAndGoOn) {
  if (const char* const to = std::getenv("SLUICE_RECORD_STORE")) return record(to);
  size_t read = 0;
  for (const auto& release : fs::directory_iterator(source_path("tests/kept"))) {
    Json expected;
    std::ifstream(release.path() / "expected.json") >> expected;
    for (const std::string kind : {"log", "snapshot"}) {
      SCOPED_TRACE(release.path().filename().string() + " " + kind);
      fs::remove_all(store());
      fs::copy(release.path() / kind, store(), fs::copy_options::recursive);
      EXPECT_EQ(run({.arguments = {"store", "check", store()}}).status, 0);
      EXPECT_EQ(Json(dumped(store())), expected.at("dump"));
      Json now;
      {
        const auto server = serve();
        const uint16_t http_port = await_listening(*server, "http"),
                       admin = await_listening(*server, "admin");
        now = live(admin);
        EXPECT_EQ(now.dump(1), expected.at("live").dump(1));
        // The counters go on, and the override holds: 9 of the rule, of which 2 are left.
        const std::string type = "Content-Type: application/json\r\n";
        const auto take = [&](const std::string& entry, int units) {
          return http(http_port, "POST", "/v1/take",
                      R"({"entries": {)" + entry + R"(}, "n": )" + std::to_string(units) + "}",
                      type)
              .status;
        };
        EXPECT_EQ(take(R"("f": "a")", 3), 429);
        EXPECT_EQ(take(R"("f": "a")", 2), 200);
        EXPECT_EQ(take(R"("f": "a")", 1), 429);
        EXPECT_EQ(take(R"("f": "vip")", 90), 200);
        server->signal(SIGTERM);
        EXPECT_EQ(server->wait(), 0);
      }
      EXPECT_EQ(run({.arguments = {"store", "check", store()}}).status, 0);
      ++read;
    }
  }
  EXPECT_GE(read, 2u);
}

}  // namespace
}  // namespace sluice::tests::kept_stores_test
