// Servers on one Redis tell each other which data of time zones they have.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing/zone_folder.h"
#include "tests/redis/world.h"
#include "tests/support/comes.h"
#include "tests/support/paths.h"

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

constexpr const char* daily =
    "rules:\n"
    "  - name: tokens\n"
    "    match: { tenant: \"*\" }\n"
    "    actor: tenant\n"
    "    limit: { quota: 5, window: day, time_zone: Europe/Berlin }\n";

Json status_of(const RedisWorld& world) {
  return Json::parse(http_get(world.admin_port(), "/v1/status").body);
}
Json elsewhere(const RedisWorld& world) {
  return status_of(world).at("store").at("time_zones_elsewhere");
}

TEST(RedisTimeZones, ServersTellEachOtherTheirVersion) {
  const RedisServer redis;
  const ZoneFolder zones;
  zones.put("tzdata.zi", "# version 1999x\n");
  zones.put("UTC", WrittenZone{.footer = "UTC0"}.text());
  zones.put("Europe/Berlin", WrittenZone{.offsets = {3600}, .footer = "CET-1"}.text());
  const RedisWorld one({redis.address()}, {.rules = daily});
  const std::string version = status_of(one).at("time_zones");
  EXPECT_EQ(elsewhere(one), nullptr);
  const RedisWorld same({redis.address()}, {.rules = daily});
  const RedisWorld other({redis.address()},
                         {.rules = daily, .environment = {{"TZDIR", zones.path()}}});
  EXPECT_TRUE(comes([&] { return elsewhere(one) == "1999x"; }));
  EXPECT_TRUE(comes([&] { return elsewhere(other).is_string(); }));
  EXPECT_TRUE(version.starts_with(elsewhere(other).get<std::string>() + ",")) << version;
  EXPECT_TRUE(comes([&] { return elsewhere(same) == "1999x"; }));
  for (const RedisWorld* world : {&one, &same, &other}) {
    const Json status = status_of(*world);
    EXPECT_EQ(status.at("degraded"), false) << status;
    EXPECT_EQ(status.at("reasons"), Json::array());
  }
  const Finished shown = run({.arguments = {"status", "--over", "0s", "--admin",
                                            "127.0.0.1:" + std::to_string(one.admin_port())}});
  EXPECT_NE(shown.out.find("another server on this Redis has the time zones 1999x: windows of the "
                           "calendar may differ there"),
            std::string::npos)
      << shown.out << shown.err;
  const int64_t left = redis.client()({"TTL", "sluice:kept:zones"}).number;
  EXPECT_TRUE(left > 0 && left <= 60) << left;
}

}  // namespace
}  // namespace sluice::tests
