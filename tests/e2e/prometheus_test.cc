// The real server's metrics page, checked by Debian's promtool and scraped by its prometheus, with
// the alert rules and the dashboard of examples/.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/line_sink.h"
#include "tests/support/paths.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::prometheus_test {
namespace {

using Json = nlohmann::json;

const std::string examples = tests::source_path("examples/");

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The names of a page's families; for histograms also the names of their samples.
std::set<std::string> families_of(const std::string& page) {
  std::set<std::string> all;
  const std::regex type(R"(# TYPE (\S+) (\S+))");
  for (std::sregex_iterator at(page.begin(), page.end(), type), end; at != end; ++at) {
    all.insert((*at)[1]);
    if ((*at)[2] == "histogram")
      for (const char* suffix : {"_bucket", "_sum", "_count"}) all.insert((*at)[1].str() + suffix);
  }
  return all;
}

std::set<std::string> metrics_named(const std::string& text) {
  std::set<std::string> all;
  const std::regex name(R"(\b(sluice|process)_[a-z_]+\b)");
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
    all.insert(at->str());
  all.erase("sluice_dashboard");
  return all;
}

// A real server of three protocols with a statsd server. `store`: the section of its configuration.
struct Served {
  explicit Served(const std::string& store = "") {
    folder.write("rules.ini",
                 "[k=v]\ncreditLimit = 1\nresetSeconds = 60\nlabel = lab\n\n"
                 "[default]\ncreditLimit = 5\nresetSeconds = 60\n");
    folder.write("limitd.yaml",
                 "buckets: { ip: { size: 2, per_second: 1, override: { secret-user: { size: 1, "
                 "per_second: 1 } } } }\n");
    const std::string file =
        folder.write("sluice.yaml",
                     "listen:\n"
                     "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
                     "  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
                     "  - { protocol: droplet, address: \"127.0.0.1:0\" }\n"
                     "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                     "divvy: { statsd: { address: \"127.0.0.1:" +
                         std::to_string(statsd.port()) +
                         "\" } }\n"
                         "policy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]\n" +
                         store);
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", file}, .environment = {}});
    divvy = await_listening(*process);
    limitd = await_listening(*process, "limitd");
    await_listening(*process, "droplet");
    admin = await_listening(*process, "admin");
  }

  std::string page() const { return http_get(admin, "/metrics").body; }

  Folder folder;
  LineSink statsd{LineSink::Kind::udp};
  std::unique_ptr<Process> process;
  uint16_t divvy = 0, limitd = 0, admin = 0;
};

std::string pages_for_operators() {
  std::string text;
  for (const char* page : {"docs/operating.md", "docs/admin.md", "docs/metrics.md"})
    text += text_of(tests::source_path(page));
  return text;
}

TEST(Prometheus, PromtoolAcceptsThePage) {
  const Served served;
  auto client = TcpClient::connect(served.divvy);
  for (int i = 0; i < 3; ++i) client->ask("HIT k=v");
  client->ask("HIT k=w");
  EXPECT_EQ(TcpClient::connect(served.divvy)->ask("FOO").substr(0, 3), "ERR");
  const std::string page = served.page();
  const std::string file = served.folder.write("page", page);
  Process promtool({.arguments = {"-c", "exec promtool check metrics <" + file + " 2>&1"}},
                   "/bin/sh");
  EXPECT_EQ(promtool.wait(), 0) << promtool.out();
  EXPECT_EQ(promtool.out(), "");
  EXPECT_NE(page.find("sluice_decisions_total{protocol=\"divvy\",rule=\"lab\","
                      "outcome=\"denied\"} 2\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("sluice_parse_errors_total{protocol=\"divvy\"} 1\n"), std::string::npos);
}

TEST(Prometheus, NoKeyOfARequestOrOfAnOverrideIsALabel) {
  const Served served;
  for (int i = 0; i < 50; ++i)
    TcpClient::connect(served.divvy)->ask("HIT k=w" + std::to_string(i) + " who=actor");
  LimitdClient limitd(*TcpClient::connect(served.limitd));
  for (const char* key : {"secret-user", "other-user"}) limitd.take("ip", key);
  const std::string page = served.page();
  EXPECT_NE(page.find("rule=\"ip (overrides)\""), std::string::npos) << page;
  EXPECT_NE(page.find("rule=\"ip\""), std::string::npos);
  for (const char* key : {"secret-user", "other-user", "actor", "w49"})
    EXPECT_EQ(page.find(key), std::string::npos) << key;
}

// Servers with counters in memory, on disk, in Redis and in Redis Cluster have all families
// together.
TEST(Prometheus, AlertsAndDashboardNameExistingMetrics) {
  const RedisServer redis, second;
  RedisCluster cluster;
  std::string nodes;
  for (const std::string& address : cluster.addresses())
    nodes += (nodes.empty() ? "\"" : ", \"") + address + "\"";
  const Folder data;
  std::set<std::string> families;
  for (const std::string& store :
       {std::string(), "store: { path: \"" + data.path() + "\", durability: always }\n",
        "store: { redis: { nodes: [\"" + redis.address() + "\"], per_second: { nodes: [\"" +
            second.address() + "\"] } } }\n",
        "store: { redis: { cluster: true, nodes: [" + nodes +
            "], wait_replicas: 1, wait_timeout_ms: 10 } }\n"}) {
    const Served served(store);
    auto client = TcpClient::connect(served.divvy);
    for (int i = 0; i < 3; ++i) client->ask("HIT k=v");
    LimitdClient limitd(*TcpClient::connect(served.limitd));
    limitd.take("ip", "waits", 2);
    EXPECT_TRUE(limitd.ask({LimitdMethod::wait, "ip", "waits", 1}).conformant);
    const std::string page = served.page(), file = served.folder.write("page", page);
    Process promtool({.arguments = {"-c", "exec promtool check metrics <" + file + " 2>&1"}},
                     "/bin/sh");
    EXPECT_EQ(promtool.wait(), 0) << promtool.out();
    EXPECT_EQ(promtool.out(), "") << store;
    families.merge(families_of(page));
    // Bounds are as people write them: 0.0001, and not 9.999999999999999e-05.
    const std::regex bound("[{,]le=\"([^\"]*)\"");
    for (std::sregex_iterator at(page.begin(), page.end(), bound), end; at != end; ++at)
      EXPECT_LE((*at)[1].length(), 7) << at->str();
  }
  // Those of limits by xDS, of listeners with TLS and of a collector, which these servers do not
  // have, as the source names them.
  const std::regex own("\"(sluice_(?:xds|tls|otlp)_[a-z_]+)\"");
  for (const char* file :
       {"src/protocol/envoy/xds.cc", "src/server/tls_watch.cc", "src/otlp/exporter.cc"}) {
    const std::string source = text_of(tests::source_path(file));
    for (std::sregex_iterator at(source.begin(), source.end(), own), end; at != end; ++at)
      families.insert((*at)[1]);
  }
  const std::string operating = pages_for_operators();
  for (const char* family : {"sluice_commit_seconds", "sluice_commit_wait_seconds",
                             "sluice_redis_call_seconds", "sluice_redis_kept_age_seconds"}) {
    EXPECT_TRUE(families.contains(family)) << family;
    EXPECT_NE(operating.find(family), std::string::npos) << family;
  }
  const auto told = metrics_named(operating);
  for (const auto& name : told) EXPECT_TRUE(families.contains(name)) << name;
  for (const std::string& family : families) {
    const bool is_sample =
        family.ends_with("_bucket") || family.ends_with("_sum") || family.ends_with("_count");
    if (family.starts_with("sluice_") && !is_sample) {
      EXPECT_TRUE(told.contains(family)) << family << " is on no page";
    }
  }
  for (const char* file : {"prometheus/sluice-alerts.yml", "grafana/sluice.json"}) {
    const std::string text = text_of(examples + file);
    ASSERT_FALSE(text.empty()) << file;
    const auto named = metrics_named(text);
    EXPECT_GT(named.size(), 20u);
    for (const auto& name : named) EXPECT_TRUE(families.contains(name)) << file << ": " << name;
  }
  EXPECT_GT(Json::parse(text_of(examples + "grafana/sluice.json")).at("panels").size(), 15u);
}

TEST(Operating, NamesExistingPaths) {
  const std::string docs = tests::source_path("docs/");
  const std::string operating = pages_for_operators();
  const Json paths = Json::parse(text_of(docs + "openapi.json")).at("paths");
  std::set<std::string> named, known;
  const std::regex path("/(?:v1|health)/[a-z]+(?:/check|/live|/ready)?");
  for (std::sregex_iterator at(operating.begin(), operating.end(), path), end; at != end; ++at)
    named.insert(at->str());
  for (const auto& [name, methods] : paths.items()) known.insert(name);
  named.erase("/v1/openapi");  // .json, which describes itself
  EXPECT_GT(named.size(), 10u);
  // Lines of the log that the page shows name paths of requests.
  const Json asked = Json::parse(text_of(docs + "openapi-http.json")).at("paths");
  for (const std::string& name : named)
    EXPECT_TRUE(known.contains(name) || asked.contains(name)) << name;
  // The page also names each path.
  for (const std::string& name : known)
    EXPECT_TRUE(named.contains(name.substr(0, name.find("/{"))) ||
                operating.find(name) != operating.npos)
        << name;
}

// promtool's unit tests of the alerts: an unhealthy instance has every alert, any other has none.
TEST(Prometheus, EveryAlertFiresWhenItShould) {
  const std::string rules = examples + "prometheus/sluice-alerts.yml";
  const std::string tests = tests::source_path("tests/e2e/alerts.yml");
  for (const std::string& what : {"check rules '" + rules + "'", "test rules '" + tests + "'"}) {
    Process promtool({.arguments = {"-c", "exec promtool " + what + " 2>&1"}}, "/bin/sh");
    EXPECT_EQ(promtool.wait(), 0) << promtool.out();
  }
  const std::string expected = text_of(tests), all = text_of(rules);
  const std::regex alert(R"(alert: (\w+))");
  size_t count = 0;
  for (std::sregex_iterator at(all.begin(), all.end(), alert), end; at != end; ++at, ++count)
    EXPECT_NE(expected.find("alertname=\"" + (*at)[1].str() + "\""), std::string::npos) << (*at)[1];
  EXPECT_GT(count, 20u);
}

// The value of a query's first sample; "" if there is none yet.
std::string value_of(uint16_t port, const std::string& query) {
  const auto answer = http_get(port, "/api/v1/query?query=" + query);
  if (answer.status != 200) return std::to_string(answer.status) + ": " + answer.body;
  const Json result = Json::parse(answer.body).at("data").at("result");
  return result.empty() ? "" : result[0].at("value")[1].get<std::string>();
}

TEST(Prometheus, ARealOneScrapesTheServer) {
  const Served served;
  auto client = TcpClient::connect(served.divvy);
  for (int i = 0; i < 3; ++i) client->ask("HIT k=v");
  const uint16_t port = free_port();
  const std::string config = served.folder.write(
      "prometheus.yml",
      "global: { scrape_interval: 200ms, scrape_timeout: 200ms }\n"
      "rule_files: ['" +
          examples +
          "prometheus/sluice-alerts.yml']\n"
          "scrape_configs:\n  - job_name: sluice\n    static_configs: [{ targets: "
          "['127.0.0.1:" +
          std::to_string(served.admin) + "'] }]\n");
  Process prometheus({.arguments = {"--config.file=" + config,
                                    "--storage.tsdb.path=" + served.folder.path() + "/data",
                                    "--web.listen-address=127.0.0.1:" + std::to_string(port)}},
                     "/usr/bin/prometheus");
  std::string up;
  for (const auto limit = within(std::chrono::seconds(60));
       up != "1" && std::chrono::steady_clock::now() < limit; ::usleep(50'000)) {
    try {
      up = value_of(port, "up");
    } catch (const std::exception& e) {  // it does not listen yet
      up = e.what();
    }
  }
  ASSERT_EQ(up, "1") << prometheus.err();
  EXPECT_EQ(value_of(port, "sluice_requests_total%7Bprotocol=%22divvy%22,outcome=%22denied%22%7D"),
            "2");
  EXPECT_EQ(value_of(port, "sluice_build_info"), "1");
  const Json rules = Json::parse(http_get(port, "/api/v1/rules").body);
  EXPECT_GT(rules.at("data").at("groups")[0].at("rules").size(), 5u);
  prometheus.signal(SIGTERM);
  EXPECT_EQ(prometheus.wait(), 0);
}

}  // namespace
}  // namespace sluice::tests::prometheus_test
