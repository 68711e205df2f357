// Rules that the list of protocols (protocol/list.def) must keep, whichever protocols are in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "protocol/metrics.h"
#include "protocol/protocol.h"

namespace sluice::protocol {
namespace {

TEST(Protocols, AreFoundByNumberAndName) {
  ASSERT_EQ(numbers().size(), all().size());
  for (size_t i = 0; i < all().size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(numbers()[i]), i);
    EXPECT_EQ(&describe(numbers()[i]), all()[i]);
    EXPECT_EQ(find(all()[i]->name), numbers()[i]);
  }
  EXPECT_EQ(find(""), std::nullopt);
  EXPECT_EQ(find("native"), std::nullopt);
}

TEST(Protocols, HaveUniqueNamesAndDialects) {
  std::set<std::string_view> names, dialect_names{policy::native_dialect.name};
  std::vector<const policy::Dialect*> in_order;
  std::string joined;
  for (const Description* one : all()) {
    EXPECT_TRUE(names.insert(one->name).second) << one->name;
    joined += (joined.empty() ? "" : ", ") + std::string(one->name);
    if (one->dialect == nullptr) continue;
    in_order.push_back(one->dialect);
    EXPECT_TRUE(dialect_names.insert(one->dialect->name).second) << one->dialect->name;
    EXPECT_EQ(find_dialect(one->dialect->name), one->dialect);
  }
  EXPECT_TRUE(std::equal(in_order.begin(), in_order.end(), dialects().begin(), dialects().end()));
  EXPECT_EQ(find_dialect("native"), &policy::native_dialect);
  EXPECT_EQ(find_dialect("nativ"), nullptr);
  EXPECT_EQ(joined_names(), joined);
  if (const size_t last = joined.rfind(", "); last != joined.npos) {
    joined.replace(last, 2, " or ");
    EXPECT_EQ(joined_names(" or "), joined);
  }
}

TEST(Protocols, HaveMetricsWithinTheirBounds) {
  std::set<std::string_view> pages;
  for (const Description* one : all()) {
    const Metrics* const metrics = one->metrics;
    if (metrics == nullptr) continue;
    const auto bounds = metrics->latency_bounds_ms;
    EXPECT_LE(bounds.size(), Metrics::latency_bounds_max);
    EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
    EXPECT_LE(metrics->error_codes.size(), Metrics::error_codes_max);
    if (metrics->is_counted_by_engine) {
      EXPECT_LT(metrics->other_error, metrics->error_codes.size());
      EXPECT_LT(metrics->failed_error, metrics->error_codes.size());
    }
    EXPECT_FALSE(find(metrics->page_name)) << "a listener of either would be called alike";
    EXPECT_TRUE(pages.insert(metrics->page_name).second);
  }
}

}  // namespace
}  // namespace sluice::protocol
