// Finding the limit of an Envoy descriptor, its counter's key and its metrics' path allocates
// nothing, whatever the texts are. Nor does counting hits, nor a whole call.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/rule_set.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/rules.h"
#include "protocol/envoy/service_world_test.h"
#include "request/space.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

TEST(EnvoyAllocation, FindingALimitAllocatesNothing) {
  constexpr std::string_view text = R"(
domain: d
descriptors:
  - key: exact
    value: x
    rate_limit: {unit: hour, requests_per_unit: 5, name: a, replaces: [{name: b}]}
  - key: wild
    value: "a*b*c"
    share_threshold: true
    descriptors:
      - key: inner
        value_to_metric: true
        rate_limit: {unit: hour, requests_per_unit: 5, name: b}
  - key: any
    detailed_metric: true
    rate_limit: {unit: hour, requests_per_unit: 5}
)";
  const envoy::LimitsText file{"limits.yaml", text};
  base::Diagnostics diagnostics;
  const auto set = envoy::read_limits({&file, 1}, {}, diagnostics);
  ASSERT_TRUE(set);

  // Shorter than a block of base::Arena (4 KiB), which allocates for longer keys.
  const std::string long_value(1'500, 'b');
  const std::string wild = "a" + long_value + "c";
  const std::vector<std::vector<request::Entry>> descriptors = {
      {{"exact", "x"}},
      {{"wild", wild}, {"inner", "10.0.0.1"}},
      {{"any", long_value}},
      {{"none", long_value}},
      {{"any", ""}, {"more", ""}},
      {}};
  std::vector<uint32_t> limits(descriptors.size());
  base::Arena arena;
  std::string path;
  const auto decide = [&] {
    for (size_t i = 0; i < descriptors.size(); ++i) {
      policy::MatchSteps steps;
      const uint32_t domain = set->domain("d");
      const envoy::Walk walk = set->find(domain, descriptors[i], steps);
      limits[i] = walk.limit;
      arena.clear();
      set->key(domain, descriptors[i], walk, arena);
      path.clear();
      if (walk.limit != envoy::absent)
        set->append_metric_path(domain, descriptors[i], walk, path);
      else
        set->append_override_metric_path(domain, descriptors[i], path);
    }
    for (uint32_t& limit : limits)
      if (limit != envoy::absent && limit != limits[0] && set->replaces(limits[0], limit))
        limit = envoy::absent;
  };
  decide();  // buffers grow
  EXPECT_EQ(limits[0], 0u);
  EXPECT_EQ(limits[1], envoy::absent);  // replaced
  EXPECT_EQ(limits[2], 2u);
  Allocations allocations;
  for (int i = 0; i < 100; ++i) decide();
  EXPECT_EQ(allocations.count(), 0u);
}

// From a connection's bytes to its answers: 16 calls at a time, each with two descriptors of the
// file and one that brings its own limit.
TEST(EnvoyAllocation, CallsThatAreDecidedAllocateNothing) {
  using envoy::service_world::World;
  World world;
  world.table.keeps_account = false;
  ASSERT_TRUE(world.load({{"limits.yaml",
                           "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, "
                           "requests_per_unit: 1000000, name: a}}]"}}));
  envoy::EnvoySession session(world.peer());
  wire::http2_peer::Peer peer;
  std::string message =
      "\x0A\x01"
      "d";
  for (const std::string value : {"one", "two"})
    message += "\x12\x0A\x0A\x08\x0A\x01k\x12\x03" + value;
  message += "\x12\x10\x0A\x08\x0A\x01k\x12\x03one\x12\x04\x08\x09\x10\x03";
  std::vector<std::string> inputs;
  uint32_t stream = 1;
  for (int n = 0; n < 200; ++n) {
    std::string& input = inputs.emplace_back();
    if (n == 0)
      input = wire::http2_peer::join({wire::http2_peer::hello(), wire::http2_peer::settings_ack()});
    for (int call = 0; call < 16; ++call, stream += 2)
      input += peer.request(
          stream, wire::http2_peer::Peer::grpc(envoy::service_world::GrpcClient::should_rate_limit),
          envoy::service_world::framed(message));
    input += wire::http2_peer::window_update(0, 16 * 128);
  }
  base::Buffer out;
  uint64_t sent = 0;
  const auto ask = [&](const std::string& input) {
    out.clear();
    for (size_t at = 0; at < input.size();) {
      engine::Batch& batch = world.engine().next_batch();
      at +=
          session.receive(std::string_view(input).substr(at), false, batch.requests, out).consumed;
      if (batch.requests.size() > 0)
        world.engine().serve(batch, envoy::service_world::self(), session, out);
    }
    sent += out.size();
  };
  for (size_t n = 0; n < 100; ++n) ask(inputs[n]);  // buffers grow
  sent = 0;
  Allocations allocations;
  for (size_t n = 100; n < 200; ++n) ask(inputs[n]);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_GT(sent, 100u * 16 * 60);
}

// For requests that were decided: the path of a limit is known, or is found by its text.
TEST(EnvoyAllocation, CountingHitsAllocatesNothingOnceThePathsAreKnown) {
  constexpr std::string_view text = R"(
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: wild, value: "a*", rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: any, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}}
)";
  const envoy::LimitsText file{"limits.yaml", text};
  base::Diagnostics diagnostics;
  auto set = envoy::read_limits({&file, 1}, {}, diagnostics);
  ASSERT_TRUE(set);
  request::Spaces spaces;
  policy::RuleSet rules;
  envoy::LimitRules::add(*std::move(set), {}, spaces, rules);
  const envoy::LimitRules& limits = *envoy::LimitRules::of(rules);

  envoy::LimitMetrics metrics({.paths_max = 3});
  envoy::WorkerMetrics& worker = metrics.add_worker();
  const std::vector<std::vector<request::Entry>> descriptors = {
      {{"plain", "x"}}, {{"wild", "abc"}}, {{"any", "1"}}, {{"any", "2"}},
      {{"any", "3"}},   {{"any", "4"}},    {{"any", "5"}}};
  const auto count = [&] {
    for (size_t i = 0; i < descriptors.size(); ++i) {
      const auto limit = static_cast<uint32_t>(std::min<size_t>(i, 2));
      worker.count({limits, limit, "d", descriptors[i]}, {.total_hits = 1, .within_limit = 1});
    }
    worker.count_unknown_domain("e", 1);
    worker.count(envoy::ServiceStat::service_error);
    worker.count(envoy::Method::should_rate_limit);
    worker.took(envoy::Method::should_rate_limit, base::seconds(1));
  };
  count();
  EXPECT_TRUE(metrics.paths().is_full());
  count();  // the worker learns all paths that are known
  Allocations allocations;
  for (int i = 0; i < 100; ++i) count();
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_EQ(worker.requests(envoy::Method::should_rate_limit), 102u);
}

}  // namespace
}  // namespace sluice::tests
