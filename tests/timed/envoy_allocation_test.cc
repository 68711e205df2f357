// Finding the limit of an Envoy descriptor, its counter's key and its metrics' path allocates
// nothing, whatever the texts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/envoy/limits_file.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

TEST(EnvoyAllocation, finding_a_limit_allocates_nothing) {
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

  const std::string long_value(5000, 'b');
  const std::string wild = "a" + long_value + "c";
  const std::vector<std::vector<request::Entry>> descriptors = {
      {{"exact", "x"}},
      {{"wild", wild}, {"inner", "10.0.0.1"}},
      {{"any", long_value}},
      {{"none", long_value}},
      {{"any", ""}, {"more", ""}},
      {}};
  std::vector<uint32_t> limits(descriptors.size());
  std::string key, path;
  envoy::Replacing replacing;
  const auto decide = [&] {
    for (size_t i = 0; i < descriptors.size(); ++i) {
      policy::MatchSteps steps;
      const uint32_t domain = set->domain("d");
      const envoy::Walk walk = set->find(domain, descriptors[i], steps);
      limits[i] = walk.limit;
      key.clear();
      set->append_key(domain, descriptors[i], walk, key);
      path.clear();
      if (walk.limit != envoy::none)
        set->append_metric_path(domain, descriptors[i], walk, path);
      else
        set->append_override_metric_path(domain, descriptors[i], path);
    }
    replacing.apply(*set, limits);
  };
  decide();  // buffers grow
  EXPECT_EQ(limits[0], 0u);
  EXPECT_EQ(limits[1], envoy::none);  // replaced
  EXPECT_EQ(limits[2], 2u);
  Allocations allocations;
  for (int i = 0; i < 100; ++i) decide();
  EXPECT_EQ(allocations.count(), 0u);
}

}  // namespace
}  // namespace sluice::tests
