// Replays the recorded metrics of Envoy's rate limit service (envoy.json) against the real `sluice
// envoy` over gRPC, with a statsd server of the test or with the page for Prometheus.
#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/line_sink.h"
#include "tests/support/paths.h"
#include "tests/support/redis_server.h"
#include "wire/http2_peer_test.h"

namespace sluice::tests::envoy_metrics_test {
namespace {

using nlohmann::json;
namespace peer = wire::http2_peer;
using Counts = std::map<std::string, double>;

const json& recording() {
  static const json all = [] {
    std::ifstream file(source_path("tests/conformance/envoy.json"));
    return json::parse(file);
  }();
  return all;
}

// Calls methods, one after another, on one connection.
class GrpcClient {
 public:
  struct Reply {
    int code = -1;  // gRPC's status
    std::string message, body;
  };

  explicit GrpcClient(uint16_t port) : socket_(*TcpClient::connect(port)) {
    socket_.send(peer::hello() + peer::settings_ack());
  }
  Reply call(const std::string& path, const std::string& message) {
    const uint32_t stream = std::exchange(next_, next_ + 2);
    socket_.send(peer_.request(stream, peer::Peer::grpc(path),
                               std::string(1, '\0') + peer::number(message.size(), 4) + message));
    while (!peer_.answers[stream].ended) {
      const auto head = socket_.read_bytes(9);
      if (!head) throw std::runtime_error("the server has ended the connection");
      const auto rest = socket_.read_bytes(peer::read_number(std::string_view(*head).substr(0, 3)));
      if (!rest) throw std::runtime_error("the server has ended the connection");
      peer_.read(*head + *rest);
    }
    const peer::Answer& answer = peer_.answers[stream];
    const auto field = [&](const char* name) {
      const std::string trailer = answer.trailer(name);
      return trailer.empty() ? answer.header(name) : trailer;
    };
    return {std::stoi(field("grpc-status")), field("grpc-message"),
            answer.body.size() < 5 ? "" : answer.body.substr(5)};
  }

 private:
  TcpClient socket_;
  peer::Peer peer_;
  uint32_t next_ = 1;
};

constexpr const char* should_rate_limit =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

std::string message_of(const json& call) {
  ::envoy::service::ratelimit::v3::RateLimitRequest message;
  const auto read = google::protobuf::util::JsonStringToMessage(call.dump(), &message);
  EXPECT_TRUE(read.ok()) << read.ToString() << call;
  return message.SerializeAsString();
}

// Removes the times until a window's end: envoy_socket_test.cc checks these.
void drop_times(json& answer) {
  if (!answer.is_structured()) return;
  for (auto& [key, value] : answer.items()) {
    if (answer.is_object() && key == "durationUntilReset")
      value = "some";
    else
      drop_times(value);
  }
}

json response_of(const std::string& body) {
  ::envoy::service::ratelimit::v3::RateLimitResponse message;
  EXPECT_TRUE(message.ParseFromString(body));
  std::string text;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &text).ok());
  return json::parse(text);
}

// `sluice envoy` with limits and an environment, on free ports.
struct Served {
  Served(const std::string& limits, std::map<std::string, std::string> environment) {
    folder.write("limits.yaml", limits);
    Process::Options options{.arguments = {"envoy", folder.path()}};
    options.environment = std::move(environment);
    const bool has_page = options.environment.contains("USE_PROMETHEUS");
    for (const char* name : {"HOST", "GRPC_HOST", "DEBUG_HOST"})
      options.environment[name] = "127.0.0.1";
    for (const char* name : {"PORT", "GRPC_PORT"}) options.environment[name] = "0";
    process = std::make_unique<Process>(options);
    port = await_listening(*process, "envoy");
    if (has_page) page_port = await_listening(*process, "envoy-metrics");
  }
  // The samples that the original has as well, without its response times.
  Counts page() const {
    Counts samples;
    std::istringstream lines(http_get(page_port, "/metrics").body);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("ratelimit_service_") ||
          line.find("_response_time_") != std::string::npos)
        continue;
      const size_t space = line.rfind(' ');
      samples[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
    return samples;
  }
  // Waits until a sample has that value. Returns its last value.
  double await(const std::string& series, double value) const {
    return comes([&] { return page()[series] == value; }) ? value : page()[series];
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0, page_port = 0;
};

struct Told {
  Counts counters;
  std::map<std::string, size_t> timers;  // name -> number of lines
};

Told told(const LineSink& statsd) {
  Told all;
  for (const std::string& piece : statsd.pieces()) {
    std::istringstream lines(piece);
    for (std::string line; std::getline(lines, line);) {
      const size_t colon = line.rfind(':');
      if (colon == std::string::npos) continue;
      const std::string name = line.substr(0, colon);
      if (line.ends_with("|c"))
        all.counters[name] += std::stod(line.substr(colon + 1));
      else if (line.ends_with("|ms"))
        ++all.timers[name];
    }
  }
  return all;
}

// The limits' windows begin at full hours: a case must not begin shortly before one.
void await_safe_time() {
  using std::chrono::system_clock;
  constexpr std::chrono::seconds enough{20};
  const auto now = system_clock::now();
  const auto end = std::chrono::ceil<std::chrono::hours>(now);
  if (end - now < enough) std::this_thread::sleep_until(end);
}

class EnvoyMetrics : public testing::TestWithParam<json> {
 protected:
  // Whether the case needs a Redis. Otherwise the counters are in memory.
  static bool takes_redis(const json& config) {
    if (config["env"].contains("LOCAL_CACHE_SIZE_IN_BYTES")) return true;
    const json& steps = GetParam()["steps"];
    return std::any_of(steps.begin(), steps.end(),
                       [](const json& step) { return step.contains("redis"); });
  }

  void play(const Served& served) {
    GrpcClient client(served.port);
    for (const json& step : GetParam()["steps"]) {
      SCOPED_TRACE(step.dump());
      if (step.contains("redis")) {
        const RedisReply reply = redis_->client()(step["redis"].get<std::vector<std::string>>());
        ASSERT_FALSE(reply.is_error()) << reply.text;
        continue;
      }
      ASSERT_TRUE(step.contains("call")) << "a step of another kind";
      GrpcClient::Reply reply;
      for (int n = step.value("times", 1); n > 0; --n)
        reply = client.call(should_rate_limit, message_of(step["call"]));
      if (step.contains("error")) {
        EXPECT_EQ(reply.code, step["error"]["code"].get<int>());
        // Sluice words an error of its Redis differently from the original.
        if (redis_ == nullptr || reply.message.starts_with("rate limit ")) {
          EXPECT_EQ(reply.message, step["error"]["message"].get<std::string>());
        }
        continue;
      }
      ASSERT_EQ(reply.code, 0) << reply.message;
      json expected = step["reply"], answer = response_of(reply.body);
      drop_times(expected);
      drop_times(answer);
      EXPECT_EQ(answer, expected);
    }
  }

  void play_with_statsd(const std::string& limits, std::map<std::string, std::string> environment) {
    LineSink statsd(LineSink::Kind::tcp);
    environment["STATSD_PORT"] = std::to_string(statsd.port());
    Served served(limits, std::move(environment));
    play(served);
    const auto expected = GetParam()["stats"].get<Counts>();
    // All counts arrive while the server runs, and its end adds none.
    EXPECT_TRUE(comes([&] { return told(statsd).counters == expected; }));
    served.process->signal(SIGTERM);
    EXPECT_EQ(served.process->wait(), 0);
    const Told all = told(statsd);
    EXPECT_EQ(all.counters, expected);
    for (const auto& [name, count] : expected) {
      const std::string requests = ".total_requests";
      const size_t at = name.find(requests);
      if (at == std::string::npos) continue;
      std::string timer = name;
      timer.replace(at, requests.size(), ".response_time");
      EXPECT_EQ(all.timers.at(timer), static_cast<size_t>(count));
    }
  }

  void play_with_page(const std::string& limits, std::map<std::string, std::string> environment) {
    environment["PROMETHEUS_ADDR"] = "127.0.0.1:0";
    const Served served(limits, std::move(environment));
    play(served);
    EXPECT_EQ(served.page(), GetParam()["prometheus"].get<Counts>());
  }

  std::unique_ptr<RedisServer> redis_;
};

TEST_P(EnvoyMetrics, AreAsRecorded) {
  const std::string name = GetParam()["config"];
  const json& config = recording()["configs"][name];
  auto environment = config["env"].get<std::map<std::string, std::string>>();
  if (takes_redis(config)) {
    redis_ = std::make_unique<RedisServer>();
    environment["REDIS_SOCKET_TYPE"] = "tcp";
    environment["REDIS_URL"] = redis_->address();
  }
  const std::string limits = config["files"]["limits.yaml"];
  ASSERT_EQ(config["files"].size(), 1u);
  await_safe_time();
  if (GetParam().contains("stats"))
    play_with_statsd(limits, environment);
  else
    play_with_page(limits, environment);
}

std::vector<json> cases() {
  std::vector<json> all;
  for (const json& recorded : recording()["cases"])
    if (recorded.contains("stats") || recorded.contains("prometheus")) all.push_back(recorded);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Recorded, EnvoyMetrics, testing::ValuesIn(cases()),
                         [](const auto& tested) {
                           std::string name = tested.param["name"];
                           for (char& c : name)
                             if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) c = '_';
                           return name;
                         });

TEST(EnvoyMetricsRecording, HasTheExpectedNumberOfCases) {
  EXPECT_EQ(cases().size(), 17u);
}

constexpr const char* limits_of_one =
    "domain: d\n"
    "descriptors:\n"
    "  - {key: a, rate_limit: {unit: year, requests_per_unit: 100}}\n";

std::string one_hit(const std::string& key) {
  return message_of(
      {{"domain", "d"}, {"descriptors", {{{"entries", {{{"key", key}, {"value", "x"}}}}}}}});
}

TEST(EnvoyPage, CountsLiveOnThroughReloads) {
  const Served served(limits_of_one,
                      {{"USE_PROMETHEUS", "true"}, {"PROMETHEUS_ADDR", "127.0.0.1:0"}});
  GrpcClient client(served.port);
  EXPECT_EQ(client.call(should_rate_limit, one_hit("a")).code, 0);
  const std::string success = "ratelimit_service_config_load_success",
                    error = "ratelimit_service_config_load_error",
                    hits = "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a\"}";
  served.folder.write("limits.yaml",
                      "domain: d\n"
                      "descriptors:\n"
                      "  - {key: b, rate_limit: {unit: year, requests_per_unit: 100}}\n"
                      "  - {key: a, rate_limit: {unit: year, requests_per_unit: 50}}\n");
  ASSERT_EQ(served.await(success, 2), 2);
  EXPECT_EQ(client.call(should_rate_limit, one_hit("a")).code, 0);
  EXPECT_EQ(client.call(should_rate_limit, one_hit("b")).code, 0);
  served.folder.write("limits.yaml", "domain:\n");
  ASSERT_EQ(served.await(error, 1), 1);
  Counts page = served.page();
  EXPECT_EQ(page[hits], 2);
  EXPECT_EQ(page["ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"b\"}"], 1);
  EXPECT_EQ(page[success], 2);
}

TEST(EnvoyPage, CountsHealthAsACallAndJsonNot) {
  const Served served(limits_of_one,
                      {{"USE_PROMETHEUS", "true"}, {"PROMETHEUS_ADDR", "127.0.0.1:0"}});
  const json hit = {{"domain", "d"},
                    {"descriptors", {{{"entries", {{{"key", "a"}, {"value", "x"}}}}}}}};
  EXPECT_EQ(http(served.port, "POST", "/json", hit.dump()).status, 200);
  EXPECT_EQ(http(served.port, "POST", "/json", "{\"domain\":\"d\"}").status, 400);
  GrpcClient client(served.port);
  EXPECT_EQ(client.call("/grpc.health.v1.Health/Check", "").code, 0);
  const Counts expected = {
      {"ratelimit_service_config_load_success", 1},
      {"ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a\"}", 1},
      {"ratelimit_service_rate_limit_within_limit{domain=\"d\",key1=\"a\"}", 1},
      {"ratelimit_service_should_rate_limit_error{err_type=\"service_error\"}", 1},
      {"ratelimit_service_total_requests{grpc_method=\"Check\"}", 1}};
  EXPECT_EQ(served.page(), expected);
}

TEST(EnvoyPage, CountsRequestsThatShadowModeAllows) {
  const Served served(
      "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year}}]\n",
      {{"USE_PROMETHEUS", "true"}, {"PROMETHEUS_ADDR", "127.0.0.1:0"}, {"SHADOW_MODE", "true"}});
  GrpcClient client(served.port);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.call(should_rate_limit, one_hit("a")).code, 0);
  EXPECT_EQ(served.page()["ratelimit_service_global_shadow_mode"], 3);
}

TEST(EnvoyDebugPort, ListsTheLimitsInTheirOrderAndServesNothingElse) {
  for (int tries = 0;; ++tries) {
    // This port was free a moment ago: another process may take it first.
    const uint16_t port = LineSink(LineSink::Kind::tcp).port();
    std::optional<Served> served;
    try {
      served.emplace(
          std::string(limits_of_one) + "  - {key: b, value: c, rate_limit: {unlimited: true}}\n",
          std::map<std::string, std::string>{{"DEBUG_PORT", std::to_string(port)},
                                             {"USE_STATSD", "false"}});
    } catch (const std::runtime_error&) {
      ASSERT_LT(tries, 5);
      continue;
    }
    EXPECT_EQ(http_get(port, "/rlconfig").body,
              "d.a: unit=YEAR requests_per_unit=100, shadow_mode: false, quota_mode: false\n"
              "d.b_c: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n");
    EXPECT_TRUE(http_get(port, "/").body.starts_with("/rlconfig: "));
    EXPECT_EQ(http_get(port, "/json").status, 404);
    EXPECT_EQ(http_get(port, "/healthcheck").status, 404);
    EXPECT_EQ(http_get(served->port, "/rlconfig").status, 404);
    EXPECT_EQ(http_get(served->port, "/healthcheck").status, 200);
    return;
  }
}

}  // namespace
}  // namespace sluice::tests::envoy_metrics_test
