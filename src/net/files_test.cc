// How many descriptors are reserved for what (net/files.h).
#include "net/files.h"

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace sluice::net {
namespace {

namespace bounds = base::bounds;

TEST(Files, ConnectionsGetTheRemainingDescriptors) {
  const FilesPlan bare = plan_files(48, 30, {});
  EXPECT_EQ(bare.kept + bare.connections, 48u);
  EXPECT_GE(bare.connections, 8u);
  EXPECT_EQ(bare.admin_connections, 0u);

  const FilesPlan full =
      plan_files(256, 60, {.store = 100, .redis = 8, .http = true, .statsd = true});
  EXPECT_EQ(full.kept + full.connections, 256u);
  EXPECT_GE(full.kept, 60 + 100 + 8 + full.admin_connections + bounds::admin_accepted_max +
                           bounds::admin_health_connections_max);
  EXPECT_GT(full.connections, 0u);
}

TEST(Files, TheAdminPortHasAllItsPlacesWithEnoughDescriptors) {
  EXPECT_EQ(plan_files(100'000, 60, {.http = true}).admin_connections,
            bounds::admin_connections_max);
  EXPECT_EQ(plan_files(256, 60, {.http = true}).admin_connections, 16u);
  EXPECT_EQ(plan_files(64, 30, {.http = true}).admin_connections, bounds::admin_connections_min);
}

TEST(Files, TooFewDescriptorsLeaveNoConnections) {
  EXPECT_EQ(plan_files(64, 60, {.store = 100}).connections, 0u);
  EXPECT_EQ(plan_files(0, 0, {}).connections, 0u);
}

}  // namespace
}  // namespace sluice::net
