// Limits by xDS: their settings, and the feed beside a control plane in this process, which a test
// scripts message by message.
#include "protocol/envoy/xds.h"

#include <discovery.pb.h>
#include <gtest/gtest.h>
#include <rls_conf.pb.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/config.h"
#include "policy/rule_set.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/environment.h"
#include "protocol/envoy/rules.h"
#include "protocol/protocol.h"
#include "request/space.h"
#include "testing/environment_of.h"
#include "testing/loopback_listener.h"
#include "tests/support/comes.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"
#include "wire/grpc_server.h"

namespace sluice::envoy::xds_test {
namespace {

using ::envoy::service::discovery::v3::DiscoveryRequest;
using ::envoy::service::discovery::v3::DiscoveryResponse;
using ratelimit::config::ratelimit::v3::RateLimitConfig;
using Texts = std::map<std::string, std::string>;

// ---- Settings ----

TEST(XdsTarget, IsReadAsGrpcReadsIt) {
  const auto read = [](std::string_view text) {
    const auto target = read_xds_target(text);
    return target ? target->host + ' ' + std::to_string(target->port) : "none";
  };
  EXPECT_EQ(read("gateway:18001"), "gateway 18001");
  EXPECT_EQ(read("dns:///gateway:18001"), "gateway 18001");
  EXPECT_EQ(read("passthrough:///127.0.0.1:1"), "127.0.0.1 1");
  EXPECT_EQ(read("[::1]:18001"), "::1 18001");
  EXPECT_EQ(read("gateway"), "gateway 443");
  EXPECT_EQ(read(":18001"), "localhost 18001");
  EXPECT_EQ(read("unix:/run/xds.sock"), "/run/xds.sock 0");
  EXPECT_EQ(read("unix:///run/xds.sock"), "/run/xds.sock 0");
  EXPECT_EQ(read("http://gateway:18001"), "none");
  EXPECT_EQ(read("gateway:18001/path"), "none");
  EXPECT_EQ(read("gateway:many"), "none");
  EXPECT_EQ(read("unix:relative"), "none");
}

TEST(XdsPair, EndsAtTheFirstSign) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(read_pair("a=b=c", '='), Pair("a", "b=c"));
  EXPECT_EQ(read_pair("a=", '='), Pair("a", ""));
  EXPECT_EQ(read_pair("X-Key: v:w ", ':'), Pair("x-key", "v:w"));
  EXPECT_FALSE(read_pair("plain", '='));
  EXPECT_FALSE(read_pair("=b", '='));
}

struct Read {
  std::unique_ptr<protocol::PolicyFiles> policy;
  std::string said;

  const XdsSettings& settings() const { return static_cast<XdsPolicy&>(*policy).settings; }
  const LimitsFiles& limits() const { return static_cast<XdsPolicy&>(*policy).limits; }
};
Read of_environment(Texts variables) {
  variables.try_emplace("CONFIG_TYPE", "GRPC_XDS_SOTW");
  std::ostringstream out, err;
  const config::CommandIo io{out, err, false, false, tests::environment_of(variables)};
  Read read;
  base::Diagnostics told;
  read.policy = xds_of_environment(io, told);
  for (const auto& d : told)
    read.said +=
        (d.severity == base::Diagnostic::Severity::error ? "error " : "warning ") + d.subject + ' ';
  return read;
}

TEST(XdsEnvironment, EachVariableAloneHasTheOriginalsMeaning) {
  const XdsSettings usual;
  EXPECT_EQ(of_environment({{"CONFIG_TYPE", "FILE"}}).policy, nullptr);
  EXPECT_EQ(of_environment({}).settings(), usual);
  const auto alone = [&](const char* name, const char* text) {
    const Read read = of_environment({{name, text}});
    EXPECT_EQ(read.said, "") << name << '=' << text;
    return read.settings();
  };
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_SERVER_URL", "gateway:18001").server, "gateway:18001");
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_SERVER_URL", ""), usual);
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_NODE_ID", "n").node, "n");
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_NODE_METADATA", "a=b,plain,,c=d=e").metadata,
            (XdsSettings::Pairs{{"a", "b"}, {"c", "d=e"}}));
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "A:b,x-c:d:e").headers,
            (XdsSettings::Pairs{{"a", "b"}, {"x-c", "d:e"}}));
  EXPECT_EQ(alone("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "500ms").wait.first,
            base::milliseconds(500));
  EXPECT_EQ(alone("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "2s").wait.longest, base::seconds(2));
  EXPECT_EQ(alone("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "2").wait.factor, 2);
  EXPECT_EQ(alone("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "0.5"), usual);
  EXPECT_FALSE(alone("XDS_CLIENT_BACKOFF_JITTER", "false").wait.jitter);
  EXPECT_EQ(alone("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "5000000").message_bytes_max, 5'000'000u);
  // Without TLS its files mean nothing.
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/ca"), usual);
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/crt"), usual);
  EXPECT_EQ(alone("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "7s"), usual);
  EXPECT_EQ(of_environment({{"CONFIG_GRPC_XDS_SERVER_URL", "http://g:1"}}).said,
            "error CONFIG_GRPC_XDS_SERVER_URL ");
  EXPECT_EQ(of_environment({{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "plain"}}).said,
            "error CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS ");
}

TEST(XdsEnvironment, TlsIsAsEnvoyGatewaySetsIt) {
  Texts variables{{"CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"},
                  {"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"},
                  {"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"},
                  {"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"},
                  {"FORCE_START_WITHOUT_INITIAL_CONFIG", "true"}};
  const Read read = of_environment(variables);
  EXPECT_EQ(read.said, "");
  ASSERT_TRUE(read.settings().tls);
  const XdsTls& tls = *read.settings().tls;
  EXPECT_EQ(tls.files.certificate + ' ' + tls.files.key + ' ' + tls.files.authority + tls.name,
            "/certs/tls.crt /certs/tls.key /certs/ca.crt");
  EXPECT_TRUE(tls.files.only_http2);
  EXPECT_TRUE(read.limits().start_without_limits);
  // One of the pair alone is ignored, as in the original, and told.
  variables.erase("CONFIG_GRPC_XDS_CLIENT_TLS_KEY");
  EXPECT_EQ(of_environment(variables).said, "warning CONFIG_GRPC_XDS_CLIENT_TLS_CERT ");
}

struct Configured {
  config::Config config;
  base::Diagnostics told;

  explicit Configured(const std::string& text) {
    config::read_config(text, "sluice.yaml", config, told);
  }
  std::string said() const {
    std::string all;
    for (const auto& d : told) all += to_string(d) + '\n';
    return all;
  }
};

TEST(XdsConfig, IsReadAndPrintedAndReadAgain) {
  const std::string text =
      "listen: [{ protocol: envoy, address: \"127.0.0.1:0\" }]\n"
      "policy:\n"
      "  - xds:\n"
      "      server: gateway:18001\n"
      "      node: me\n"
      "      metadata: [zone=a]\n"
      "      headers: [\"X-Key: secret\"]\n"
      "      tls: { ca: /ca.crt, certificate: /tls.crt, key: /tls.key, name: gateway.example }\n"
      "      first_wait: 500ms\n"
      "      longest_wait: 10s\n"
      "      message_max: 8MiB\n"
      "    merge_domains: true\n"
      "    start_without_limits: true\n";
  Configured first(text);
  EXPECT_EQ(first.said(), "");
  ASSERT_EQ(first.config.policy.size(), 1u);
  const auto& policy = static_cast<XdsPolicy&>(*first.config.policy[0].files);
  EXPECT_EQ(policy.settings.server, "gateway:18001");
  EXPECT_EQ(policy.settings.headers, (XdsSettings::Pairs{{"x-key", "secret"}}));
  EXPECT_EQ(policy.settings.message_bytes_max, size_t{8} << 20);
  EXPECT_TRUE(policy.limits.reading.merge_domains);
  const std::string printed = config::print_config(first.config);
  EXPECT_EQ(printed.find("secret"), std::string::npos) << printed;
  Configured again(printed);
  EXPECT_EQ(again.said(), "") << printed;
  ASSERT_EQ(again.config.policy.size(), 1u);
  XdsSettings wanted = policy.settings;
  wanted.headers.clear();  // which are never printed
  EXPECT_EQ(static_cast<XdsPolicy&>(*again.config.policy[0].files).settings, wanted);
  EXPECT_TRUE(static_cast<XdsPolicy&>(*again.config.policy[0].files).limits.start_without_limits);
  // `{}`: TLS with the system's authorities.
  Configured plain("policy: [{ xds: { server: \"a:1\", tls: {} } }]\n");
  EXPECT_EQ(plain.said(), "");
  EXPECT_TRUE(static_cast<XdsPolicy&>(*plain.config.policy[0].files).settings.tls);
}

TEST(XdsConfig, WhatIsWrongIsNamedWithItsPlace) {
  const auto said = [](const std::string& policy) {
    return Configured("policy: [" + policy + "]\n").said();
  };
  EXPECT_NE(said("{ xds: { server: \"http://a:1\" } }").find("is a URL"), std::string::npos);
  EXPECT_NE(said("{ xds: { sever: \"a:1\" } }").find("server"), std::string::npos);
  EXPECT_NE(said("{ xds: { server: \"a:1\", tls: { certificate: c } } }").find("write both"),
            std::string::npos);
  EXPECT_NE(said("{ xds: { headers: [plain] } }").find("is not NAME:VALUE"), std::string::npos);
  EXPECT_NE(said("{ envoy: limits, xds: { server: \"a:1\" } }").find("take one of them out"),
            std::string::npos);
  EXPECT_NE(said("{ envoy: limits }, { xds: { server: \"a:1\" } }").find("already"),
            std::string::npos);
}

TEST(XdsConfig, AReloadGoesOnWithTheRunningFeed) {
  XdsPolicy running, same, other;
  other.settings.node = "another";
  base::Diagnostics told;
  same.go_on_from(&running, "sluice.yaml", told);
  EXPECT_TRUE(told.empty());
  const auto feed = running.feed();
  EXPECT_EQ(same.feed(), feed);
  other.go_on_from(&running, "sluice.yaml", told);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(to_string(told[0]).find("a reload does not apply it"), std::string::npos);
  EXPECT_EQ(other.feed(), feed);
  XdsPolicy fresh;
  told.clear();
  fresh.go_on_from(nullptr, "sluice.yaml", told);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(to_string(told[0]).find("restart the server"), std::string::npos);
}

// ---- The feed ----

std::string response(const std::string& version, const std::vector<std::string>& resources) {
  DiscoveryResponse message;
  message.set_version_info(version);
  message.set_nonce("nonce " + version);
  for (const std::string& bytes : resources) {
    auto& any = *message.add_resources();
    any.set_type_url(std::string(limits_type));
    any.set_value(bytes);
  }
  return message.SerializeAsString();
}

std::string limits(const std::string& domain, uint32_t requests) {
  RateLimitConfig config;
  config.set_name(domain);
  config.set_domain(domain);
  auto& one = *config.add_descriptors();
  one.set_key("k");
  one.mutable_rate_limit()->set_unit(ratelimit::config::ratelimit::v3::DAY);
  one.mutable_rate_limit()->set_requests_per_unit(requests);
  return config.SerializeAsString();
}

// Serves one stream after the other.
class ControlPlane {
 public:
  ControlPlane() : thread_([this] { run(); }) {}
  ~ControlPlane() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = cut_ = true;
    }
    listener_.shut();
    thread_.join();
  }
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(listener_.port()); }
  void send(std::string message) {
    const std::lock_guard lock(mutex_);
    unsent_.push_back(std::move(message));
  }
  void cut() {
    const std::lock_guard lock(mutex_);
    cut_ = true;
  }
  // The requests so far, once there are that many.
  std::vector<DiscoveryRequest> requests(size_t count) {
    const bool came = tests::comes([&] {
      const std::lock_guard lock(mutex_);
      return requests_.size() >= count;
    });
    EXPECT_TRUE(came) << "no request " << count;
    const std::lock_guard lock(mutex_);
    return came ? requests_ : std::vector<DiscoveryRequest>(count);
  }

 private:
  void run() {
    for (int fd; (fd = listener_.accept()) >= 0;) {
      serve(fd);
      ::close(fd);
      const std::lock_guard lock(mutex_);
      if (ended_) return;
    }
  }

  void serve(int fd) {
    const timeval patience{0, 5'000};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    wire::GrpcWorker worker;
    wire::GrpcServerSession session(worker, {}, [](std::string_view) { return true; });
    base::Buffer out;
    std::string in;
    std::optional<uint32_t> stream;
    for (;;) {
      out.clear();
      session.http().write(out);
      if (!out.empty()) ::send(fd, out.view().data(), out.view().size(), MSG_NOSIGNAL);
      char bytes[4096];
      const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
      if (got == 0) return;
      if (got > 0) in.append(bytes, static_cast<size_t>(got));
      in.erase(0, session.receive(in, {}));
      for (const wire::Http2Event& event : session.events())
        if (event.kind == wire::Http2Event::Kind::begun) stream = event.request;
      const std::lock_guard lock(mutex_);
      if (std::exchange(cut_, false)) return;
      if (!stream) continue;
      for (std::string_view message; session.next(*stream, message) == wire::GrpcNext::message;)
        requests_.emplace_back().ParseFromArray(message.data(), static_cast<int>(message.size()));
      for (; !unsent_.empty(); unsent_.pop_front()) session.send(*stream, unsent_.front());
    }
  }

  const tests::LoopbackListener listener_;
  std::mutex mutex_;
  std::vector<DiscoveryRequest> requests_;
  std::deque<std::string> unsent_;
  bool cut_ = false, ended_ = false;
  std::thread thread_;
};

// A feed, and the rules that a server would serve by it.
struct World {
  explicit World(const std::string& server) {
    policy.settings.server = server;
    policy.settings.node = "me";
    policy.settings.wait = {.first = base::milliseconds(20), .longest = base::milliseconds(50)};
    feed = policy.feed();
  }
  ~World() { feed->stop(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void start() {
    feed->start([this] { return apply(); }, log);
  }
  std::optional<std::string> apply() {
    base::Diagnostics told;
    auto rules = std::make_unique<policy::RuleSet>(protocol::dialects());
    policy.read(protocol::Unusable::error, told)->add_rules(spaces, *rules, told);
    if (base::has_errors(told)) return "the policy was refused";
    const std::lock_guard lock(mutex);
    live = std::move(rules);
    return refusal;
  }
  std::string rlconfig() {
    const std::lock_guard lock(mutex);
    const LimitRules* const limits = LimitRules::of(*live);
    return limits == nullptr ? "nothing" : limits->set().rlconfig();
  }
  std::string said() {
    log->flush();
    return lines.str();
  }

  XdsPolicy policy;
  request::Spaces spaces;
  std::mutex mutex;
  std::unique_ptr<policy::RuleSet> live;
  std::optional<std::string> refusal;  // why nothing that is sound becomes live
  std::ostringstream lines;
  std::shared_ptr<spdlog::logger> log = std::make_shared<spdlog::logger>(
      "policy", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  std::shared_ptr<protocol::PolicyFeed> feed;
};

TEST(XdsFeed, TakesRefusesAndGoesOnOnANewStream) {
  ControlPlane plane;
  World world(plane.address());
  world.start();
  EXPECT_EQ(plane.requests(1)[0].node().id(), "me");
  EXPECT_EQ(world.feed->state().version, "");
  plane.send(response("1", {limits("a", 5)}));
  const DiscoveryRequest ack = plane.requests(2)[1];
  EXPECT_EQ(ack.version_info() + ' ' + ack.response_nonce(), "1 nonce 1");
  EXPECT_FALSE(ack.has_error_detail());
  const std::string five =
      "a.k: unit=DAY requests_per_unit=5, shadow_mode: false, quota_mode: false\n";
  EXPECT_EQ(world.rlconfig(), five);
  plane.send(response("2", {limits("", 6)}));
  const DiscoveryRequest nack = plane.requests(3)[2];
  EXPECT_EQ(nack.version_info() + ' ' + nack.response_nonce(), "1 nonce 2");
  EXPECT_EQ(nack.error_detail().message(), ": config file cannot have empty domain");
  EXPECT_EQ(world.rlconfig(), five);
  plane.cut();
  const DiscoveryRequest first = plane.requests(4)[3];
  EXPECT_EQ(first.version_info() + first.response_nonce(), "");
  EXPECT_EQ(world.rlconfig(), five);
  plane.send(response("1", {limits("a", 7)}));
  EXPECT_EQ(plane.requests(5)[4].version_info(), "1");
  EXPECT_EQ(world.rlconfig(),
            "a.k: unit=DAY requests_per_unit=7, shadow_mode: false, quota_mode: false\n");
  const auto state = world.feed->state();
  EXPECT_TRUE(state.is_connected);
  EXPECT_EQ(state.taken, 2u);
  EXPECT_EQ(state.refused, 1u);
  EXPECT_EQ(state.refusal, ": config file cannot have empty domain");
  world.feed->stop();
  const std::string said = world.said();
  EXPECT_NE(said.find("no stream of limits from " + plane.address() + ": it closed the connection"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("sends limits again"), std::string::npos) << said;
}

// What is sound by itself, and yet cannot be live: a file beside it is wrong, or the server knows
// too many limits. Then nothing of it is in force, also for reloads that come for another reason.
TEST(XdsFeed, WhatTheServerCannotServeIsRefusedWithItsReason) {
  ControlPlane plane;
  World world(plane.address());
  world.start();
  plane.send(response("1", {limits("a", 5)}));
  plane.requests(2);
  {
    const std::lock_guard lock(world.mutex);
    world.refusal = "the file beside it is wrong";
  }
  plane.send(response("2", {limits("a", 6)}));
  const DiscoveryRequest nack = plane.requests(3)[2];
  EXPECT_EQ(nack.error_detail().message(), "the file beside it is wrong");
  world.apply();
  EXPECT_NE(world.rlconfig().find("requests_per_unit=5"), std::string::npos);
}

TEST(XdsFeed, StopsWhateverItWaitsFor) {
  const auto stops_soon = [](World& world) {
    const auto begin = std::chrono::steady_clock::now();
    world.feed->stop();
    return std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
  };
  {
    ControlPlane silent;
    World world(silent.address());
    world.start();
    silent.requests(1);
    EXPECT_TRUE(stops_soon(world));
  }
  {
    World nobody("127.0.0.1:1");
    nobody.start();
    ASSERT_TRUE(tests::comes([&] { return !nobody.feed->state().problem.empty(); }));
    EXPECT_NE(nobody.feed->state().problem.find("Connection refused"), std::string::npos);
    EXPECT_TRUE(stops_soon(nobody));
  }
  {
    const tests::LoopbackListener mute;  // connects, and says nothing
    World world("127.0.0.1:" + std::to_string(mute.port()));
    world.start();
    const int connected = mute.accept();
    EXPECT_GE(connected, 0);
    EXPECT_TRUE(stops_soon(world));
    ::close(connected);
  }
  World missing("unix:/nosuch/socket");
  missing.start();
  ASSERT_TRUE(tests::comes([&] { return !missing.feed->state().problem.empty(); }));
}

TEST(XdsFeed, MetricsTellWhatItsStateTells) {
  ControlPlane plane;
  World world(plane.address());
  world.start();
  plane.send(response("v\"7", {limits("a", 5)}));
  plane.requests(2);
  ASSERT_TRUE(tests::comes([&] { return world.feed->state().taken == 1; }));
  metrics::Page page;
  world.feed->collect(page);
  const std::string text = page.text();
  const std::string server = "{server=\"" + plane.address() + "\"";
  for (const std::string& line :
       {"sluice_xds_connected" + server + "} 1", "sluice_xds_taken_total" + server + "} 1",
        "sluice_xds_refused_total" + server + "} 0",
        "sluice_xds_version_info" + server + ",version=\"v\\\"7\"} 1",
        std::string("sluice_xds_taken_timestamp_seconds")})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
  // The page names each family with its type, and no other.
  std::set<std::string> families, of_page;
  const std::regex type("# TYPE (\\w+) (\\w+)"), row("\\| (`sluice_.*`) \\| (gauge|counter)\\b.*"),
      name("`(\\w+)`");
  std::istringstream lines(text);
  std::smatch found;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, found, type)) families.insert(found.str(1) + " " + found.str(2));
  std::ifstream file(tests::source_path("docs/gateways.md"));
  for (std::string line; std::getline(file, line);) {
    if (!std::regex_match(line, found, row)) continue;
    const std::string names = found[1], kind = found[2];
    for (std::sregex_iterator at(names.begin(), names.end(), name), end; at != end; ++at)
      of_page.insert(at->str(1) + " " + kind);
  }
  EXPECT_EQ(families, of_page);
  EXPECT_EQ(families.size(), 5u);
}

}  // namespace
}  // namespace sluice::envoy::xds_test
