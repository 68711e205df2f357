// Divvy's metrics page and statsd lines of the real `sluice divvy`, compared byte by byte with the
// recording (divvy.json) except for durations.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/line_sink.h"
#include "tests/support/paths.h"

namespace sluice::tests::metrics_test {
namespace {

using Json = nlohmann::json;

Json recording() {
  std::ifstream file(tests::source_path("tests/conformance/divvy.json"));
  return Json::parse(file).at("metrics");
}

// Replaces durations by `_`: the values of timers, and the counts of the histogram's buckets.
std::string timeless(const std::string& text) {
  std::string out = std::regex_replace(text, std::regex(R"(hit:\d+\|ms)"), "hit:_|ms");
  out = std::regex_replace(out, std::regex(R"re((_bucket\{le="[0-9.]+"\}|_seconds_sum) [0-9.]+)re"),
                           "$1 _");
  return out;
}

// `sluice divvy` with the recording's policy and environment except for the ports. One worker,
// because Divvy has one thread.
struct Served {
  explicit Served(const Json& recorded, const LineSink& statsd,
                  std::map<std::string, std::string> more = {}) {
    Process::Options options{.arguments = {"--workers", "1"}};
    for (const auto& [key, value] : recorded.at("env").items())
      options.environment[key] = value.get<std::string>();
    options.environment["PORT"] = "0";
    options.environment["HTTP_SERVICE_PORT"] = "0";
    options.environment["STATSD_PORT"] = std::to_string(statsd.port());
    for (auto& [key, value] : more) options.environment[key] = value;
    options.environment["SLUICE_LOG_LEVEL"] = "warn";
    const std::string file = folder.write("m.ini", recorded.at("config_text").get<std::string>());
    options.arguments.insert(options.arguments.begin(), {"divvy", file});
    process = std::make_unique<Process>(options);
    for (int i = 0; i < 2; ++i) announced += process->read_line().value_or("(none)") + "\n";
    port = await_listening(*process);
    page_port = await_listening(*process, "divvy-metrics");
  }

  // Sends the recorded steps, the last one on a second connection.
  void replay(const Json& recorded) {
    const Json& steps = recorded.at("steps");
    std::optional<TcpClient> client;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i == 0 || i == steps.size() - 1) {
        if (client) {
          EXPECT_EQ(client->read_to_end(), "");
          client.reset();
          await_no_connection();
        }
        client = TcpClient::connect(port);
      }
      client->send(steps[i].at("send").get<std::string>());
      for (const auto& reply : steps[i].at("expect"))
        EXPECT_EQ(client->read_line(), reply.get<std::string>());
    }
    EXPECT_EQ(client->read_to_end(), "");
  }

  // Waits until the server has seen the last connection close.
  void await_no_connection() const {
    for (const auto limit = soon(); std::chrono::steady_clock::now() < limit;)
      if (page().find("\ndivvy_tcp_connections_total 0\n") != std::string::npos) return;
    ADD_FAILURE() << "the server does not see a connection close";
  }

  std::string page() const { return http_get(page_port, "/metrics").body; }

  Folder folder;
  std::string announced;
  uint16_t port = 0, page_port = 0;
  std::unique_ptr<Process> process;
};

TEST(DivvyMetrics, ThePageIsAsRecorded) {
  const Json recorded = recording();
  LineSink statsd(LineSink::Kind::udp);
  Served served(recorded, statsd);
  EXPECT_EQ(served.page(), recorded.at("prometheus_idle").get<std::string>());
  served.replay(recorded);
  const std::string after = timeless(recorded.at("prometheus_after").get<std::string>());
  std::string page;
  for (const auto limit = soon(); std::chrono::steady_clock::now() < limit && page != after;)
    page = timeless(served.page());  // the server may not have seen the last connection close yet
  EXPECT_EQ(page, after);
  EXPECT_NE(served.announced.find("\nServing prometheus metrics at http://127.0.0.1:" +
                                  std::to_string(served.page_port) + "/metrics\n"),
            std::string::npos)
      << served.announced;
}

TEST(DivvyMetrics, ThePageIsAtItsPathOnlyWithAnyMethodAndQuery) {
  const Json recorded = recording();
  LineSink statsd(LineSink::Kind::udp);
  // A configured path without its first slash gets one.
  const Served served(recorded, statsd, {{"PROMETHEUS_METRICS_PATH", "numbers"}});
  const auto get = http_get(served.page_port, "/numbers?x=y");
  EXPECT_EQ(get.status, 200);
  EXPECT_EQ(get.headers.at("content-type"), "text/plain; version=0.0.4");
  EXPECT_EQ(http(served.page_port, "POST", "/numbers", "body").body, get.body);
  for (const char* target : {"/numbers/", "/", "/metrics", "/v1/config"}) {
    const auto other = http_get(served.page_port, target);
    EXPECT_EQ(other.status, 404) << target;
    EXPECT_EQ(other.body, "");
  }
}

TEST(DivvyMetrics, InternalErrorsAreCountedOnThePageAndNotSentToStatsd) {
  Json recorded = recording();
  recorded["config_text"] =
      "[bad=1 p=**]\ncreditLimit = 1\nresetSeconds = 1\n\n[default]\ncreditLimit=1\n"
      "resetSeconds=60\n";
  LineSink statsd(LineSink::Kind::udp);
  Served served(recorded, statsd, {{"STATSD_PREFIX", ""}});
  {
    auto client = TcpClient::connect(served.port);
    EXPECT_TRUE(client->ask("HIT bad=1 p=x").starts_with("ERR Internal Error"))
        << "an invalid pattern";
  }
  EXPECT_NE(served.page().find("divvy_errors_total{code=\"internal\"} 1\n"), std::string::npos);
  ASSERT_EQ(http_get(served.page_port, "/metrics").status, 200);
  served.process->signal(SIGTERM);
  EXPECT_EQ(served.process->wait(), 0);
  EXPECT_EQ(statsd.all(), "connections:1|g\nconnections:0|g");
}

TEST(DivvyStatsd, DatagramsAreAsRecorded) {
  const Json recorded = recording();
  LineSink statsd(LineSink::Kind::udp);
  Served served(recorded, statsd);
  served.replay(recorded);
  const auto wanted = recorded.at("statsd_datagrams").get<std::vector<std::string>>();
  ASSERT_TRUE(statsd.await("error.unknown:1|c\npre.connections:0|g"));
  // Lines that are a second apart are in two datagrams; the lines are the same.
  std::string sent;
  for (const auto& datagram : statsd.pieces()) {
    EXPECT_LE(datagram.size(), 1200u);
    sent += (sent.empty() ? "" : "\n") + datagram;
  }
  EXPECT_EQ(timeless(sent), timeless(wanted.front()));
}

TEST(DivvyStatsd, ByTcpEachBatchEndsWithALineFeedAndAListenerMayComeBack) {
  const Json recorded = recording();
  auto statsd = std::make_unique<LineSink>(LineSink::Kind::tcp);
  const uint16_t port = statsd->port();
  // A prefix that ends with a dot gets no second one; the value `0` counts as set, as in
  // JavaScript.
  Served served(recorded, *statsd, {{"STATSD_USE_TCP", "0"}, {"STATSD_PREFIX", "pre."}});
  served.replay(recorded);
  ASSERT_TRUE(statsd->await("error.unknown:1|c\npre.connections:0|g\n"));
  EXPECT_EQ(timeless(statsd->all()),
            timeless(recorded.at("statsd_datagrams").front().get<std::string>()) + "\n");
  statsd.reset();
  auto client = TcpClient::connect(served.port);
  statsd = std::make_unique<LineSink>(LineSink::Kind::tcp, port);
  // What the server sends into the broken connection is lost; then it connects again.
  bool came = false;
  for (const auto limit = soon(); !came && std::chrono::steady_clock::now() < limit;) {
    EXPECT_TRUE(client->ask("HIT c=1").starts_with("OK "));
    came = statsd->await("pre.hit:", within(Milliseconds(100)));
  }
  EXPECT_TRUE(came);
}

TEST(DivvyStatsd, ManyLinesFillDatagramsWithoutLoss) {
  const Json recorded = recording();
  LineSink statsd(LineSink::Kind::udp);
  Served served(recorded, statsd);
  constexpr size_t hits = 2'000;
  auto client = TcpClient::connect(served.port);
  for (size_t i = 0; i < hits; ++i) ASSERT_EQ(client->ask("HIT other=1").substr(0, 3), "OK ");
  client->abort();
  ASSERT_TRUE(statsd.await("connections:0|g"));
  size_t counts = 0;
  const std::string all = statsd.all();
  for (size_t at = all.find("pre.hit:"); at != all.npos; at = all.find("pre.hit:", at + 1))
    ++counts;
  EXPECT_EQ(counts, hits);
  for (const auto& datagram : statsd.pieces()) EXPECT_LE(datagram.size(), 1200u);
}

}  // namespace
}  // namespace sluice::tests::metrics_test
