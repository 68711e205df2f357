// The metrics of Envoy's rate limit service, as statsd and Prometheus receive them.
#include "protocol/envoy/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "admin/http_server.h"
#include "admin/server_stats.h"
#include "policy/rule_set.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/rules.h"
#include "request/space.h"

namespace sluice::envoy::metrics_test {
namespace {

constexpr std::string_view text = R"(
domain: d
descriptors:
  - {key: k, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}
)";

struct World {
  explicit World(LimitMetrics::Options counting = {}, bool loaded = true) {
    options.metrics = std::make_shared<LimitMetrics>(std::move(counting));
    const LimitsText file{"limits.yaml", text};
    base::Diagnostics diagnostics;
    LimitRules::add(*read_limits({&file, 1}, {}, diagnostics), {.not_loaded = !loaded}, spaces,
                    rules);
    worker = &options.metrics->add_worker();
  }

  protocol::MetricsDeps deps() {
    return {stats, {}, &options, [this] { return loads; }, rules};
  }
  // Counts hits of a limit that came with a request; the entry determines the path of its metrics.
  void hit(const std::string& key, const HitCounts& hits, WorkerMetrics& by) {
    const request::Entry entry{key, ""};
    by.count({*LimitRules::of(rules), absent, "d", {&entry, 1}}, hits);
  }
  void hit(const std::string& key, const HitCounts& hits) { hit(key, hits, *worker); }
  std::string page() {
    const auto handler = own_metrics.make_page(deps(), "/m");
    wire::HttpRequest request;
    request.path = "/m";
    return handler->answer(request).body;
  }

  admin::ServerStats stats;
  EnvoyOptions options;
  request::Spaces spaces;
  policy::RuleSet rules;
  protocol::PolicyLoads loads{.good = 1, .refused = 0};
  WorkerMetrics* worker = nullptr;
};

std::vector<std::string> lines_of(const metrics::StatsdSender::Feed& feed) {
  std::vector<std::string> lines;
  feed([&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

using Lines = std::vector<std::string>;

TEST(EnvoyStatsd, SendsTheChangesSinceTheLastReport) {
  World world;
  WorkerMetrics& other = world.options.metrics->add_worker();
  const auto feed = own_metrics.make_statsd_feed(world.deps(), "");
  EXPECT_EQ(lines_of(feed), (Lines{"ratelimit.service.config_load_success:1|c"}));
  EXPECT_EQ(lines_of(feed), Lines());
  world.hit("k", {.total_hits = 3, .over_limit = 1, .near_limit = 1, .within_limit = 2});
  world.hit("k", {.total_hits = 2, .within_limit = 2}, other);
  other.count(ServiceStat::redis_error);
  other.count(ServiceStat::global_shadow_mode);
  world.worker->count(ServiceStat::service_error);
  world.worker->count(Method::should_rate_limit);
  other.count(Method::should_rate_limit);
  other.count(Method::check);
  world.loads = {.good = 3, .refused = 2};
  EXPECT_EQ(lines_of(feed), (Lines{"ratelimit.service.rate_limit.d.k.total_hits:5|c",
                                   "ratelimit.service.rate_limit.d.k.over_limit:1|c",
                                   "ratelimit.service.rate_limit.d.k.near_limit:1|c",
                                   "ratelimit.service.rate_limit.d.k.within_limit:4|c",
                                   "ratelimit.service.call.should_rate_limit.redis_error:1|c",
                                   "ratelimit.service.call.should_rate_limit.service_error:1|c",
                                   "ratelimit.service.global_shadow_mode:1|c",
                                   "ratelimit.service.config_load_success:2|c",
                                   "ratelimit.service.config_load_error:2|c",
                                   "ratelimit_server.ShouldRateLimit.total_requests:2|c",
                                   "ratelimit_server.Check.total_requests:1|c"}));
  world.hit("k", {.total_hits = 4});
  EXPECT_EQ(lines_of(feed), (Lines{"ratelimit.service.rate_limit.d.k.total_hits:4|c"}));
  EXPECT_EQ(lines_of(feed), Lines());
}

TEST(EnvoyStatsd, AppendsTagsToEachName) {
  World world({.tags = {{"a", "1"}, {"b", "2"}}});
  world.worker->count(Method::check);
  world.worker->took(Method::check, {2'500});
  const auto feed = own_metrics.make_statsd_feed(world.deps(), "pre");
  EXPECT_EQ(lines_of(feed), (Lines{"pre.ratelimit.service.config_load_success.__a=1.__b=2:1|c",
                                   "pre.ratelimit_server.Check.total_requests.__a=1.__b=2:1|c",
                                   "pre.ratelimit_server.Check.response_time.__a=1.__b=2:2|ms"}));
}

TEST(EnvoyStatsd, SamplesManyTimesAndSendsTheRate) {
  World world;
  const auto feed = own_metrics.make_statsd_feed(world.deps(), "");
  lines_of(feed);
  for (int i = 0; i < 1'000; ++i) world.worker->took(Method::check, {i < 900 ? 0 : 7'000});
  EXPECT_EQ(lines_of(feed).size(), 1'000u);
  for (int i = 0; i < 400'000; ++i) world.worker->took(Method::check, {i < 300'000 ? 0 : 7'000});
  std::map<std::string, size_t> lines;
  for (const auto& line : lines_of(feed)) ++lines[line];
  const std::map<std::string, size_t> expected = {
      {"ratelimit_server.Check.response_time:0|ms|@0.0025", 750},
      {"ratelimit_server.Check.response_time:7|ms|@0.0025", 250}};
  EXPECT_EQ(lines, expected);
}

TEST(EnvoyStatsd, LimitsThatCouldNotBeUsedAtTheStartAreAnError) {
  World world({}, false);
  const auto feed = own_metrics.make_statsd_feed(world.deps(), "");
  EXPECT_EQ(lines_of(feed), (Lines{"ratelimit.service.config_load_error:1|c"}));
  world.loads = {.good = 2, .refused = 0};
  EXPECT_EQ(lines_of(feed), (Lines{"ratelimit.service.config_load_success:1|c"}));
}

// The samples of a page by their names; comments are skipped.
std::map<std::string, double> samples_of(const std::string& page) {
  std::map<std::string, double> samples;
  size_t at = 0;
  while (at < page.size()) {
    const size_t end = page.find('\n', at);
    const std::string line = page.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    const std::string name = line.substr(0, space);
    EXPECT_FALSE(samples.contains(name)) << "twice: " << name;
    samples[name] = std::stod(line.substr(space + 1));
  }
  return samples;
}

TEST(EnvoyPrometheus, SumsLevelsBelowTheSecond) {
  World world;
  world.hit("k", {.total_hits = 1, .over_limit_with_local_cache = 2, .shadow_mode = 3});
  world.hit("a.b", {.total_hits = 10});
  world.hit("a.b.c", {.total_hits = 20});
  world.hit("a.b.d.e", {.total_hits = 40});
  world.hit("q\"\\", {.total_hits = 5});
  world.worker->count_unknown_domain("no-one", 1);
  world.worker->count_unknown_domain("no_one", 2);
  world.worker->count(ServiceStat::redis_error);
  world.worker->count(Method::should_rate_limit);
  world.loads.refused = 4;
  const std::string hits = "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=";
  const std::map<std::string, double> expected = {
      {hits + "\"k\"}", 1},
      {hits + "\"a\",key2=\"b\"}", 70},
      {hits + "\"q\\\"\\\\\"}", 5},
      {"ratelimit_service_rate_limit_shadow_mode{domain=\"d\",key1=\"k\"}", 3},
      {"ratelimit_service_rate_limit_d_k_over_limit_with_local_cache", 2},
      {"ratelimit_service_rate_limit_no_one_domain_not_found", 3},
      {"ratelimit_service_config_load_success", 1},
      {"ratelimit_service_config_load_error", 4},
      {"ratelimit_service_should_rate_limit_error{err_type=\"redis_error\"}", 1},
      {"ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"}", 1}};
  EXPECT_EQ(samples_of(world.page()), expected);
}

TEST(EnvoyPrometheus, TheSumOfWorkersStopsAtTheLargestNumber) {
  World world;
  WorkerMetrics& other = world.options.metrics->add_worker();
  world.hit("k", {UINT64_MAX - 1});
  world.hit("k", {7}, other);
  EXPECT_NE(world.page().find("{domain=\"d\",key1=\"k\"} 1.844674407370955e+19\n"),
            std::string::npos)
      << world.page();
}

TEST(EnvoyPrometheus, TimesAreInSecondsOrMillisecondsAsConfigured) {
  const std::string name = "ratelimit_service_response_time_seconds";
  const auto labels = [](const std::string& bound) {
    return "{grpc_method=\"Check\"" + (bound.empty() ? "" : ",le=\"" + bound + "\"") + "}";
  };
  for (const bool milliseconds : {false, true}) {
    World world({.milliseconds = milliseconds});
    for (const int64_t ms : {0, 5, 6, 100, 2'000, 20'000})
      world.worker->took(Method::check, {ms * 1'000});
    auto samples = samples_of(world.page());
    EXPECT_EQ(samples[name + "_count" + labels("")], 6);
    EXPECT_EQ(samples[name + "_bucket" + labels("0.005")], milliseconds ? 1 : 2);
    EXPECT_EQ(samples[name + "_bucket" + labels("0.1")], milliseconds ? 1 : 4);
    EXPECT_EQ(samples[name + "_bucket" + labels("5")], milliseconds ? 2 : 5);
    EXPECT_EQ(samples[name + "_bucket" + labels("10")], milliseconds ? 3 : 6);
    EXPECT_EQ(samples[name + "_bucket" + labels("+Inf")], 6);
    // A call that took more than ten seconds counts as ten.
    EXPECT_DOUBLE_EQ(samples[name + "_sum" + labels("")], milliseconds ? 12'111 : 12.111);
  }
}

}  // namespace
}  // namespace sluice::envoy::metrics_test
