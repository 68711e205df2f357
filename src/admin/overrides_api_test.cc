// What the admin port answers about overrides, on the test's own clock.
#include "admin/overrides_api.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <string>
#include <utility>

#include "admin/admin_json.h"
#include "policy/read/native.h"

namespace sluice::admin::overrides_api_test {
namespace {

constexpr int64_t start_us = 1'800'000'000'000'000;
int64_t now_us = start_us;

struct World {
  World() {
    now_us = start_us;
    add_overrides(admin, registry, live);
  }
  std::shared_ptr<policy::RuleSet> rules() {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n- { name: api, match: { ip: '*' }, actor: ip, limit: { quota: 3, window: 1h } }\n"
        "- { name: office, match: { tenant: '*', ip: [cidr(10.0.0.0/8), '::1'] },\n"
        "    actor: [tenant, ip], limit: { quota: 3, window: 1h } }\n",
        "test.yaml", spaces, *set, diagnostics);
    return set;
  }
  std::pair<unsigned, Json> ask(const std::string& method, const std::string& path,
                                const std::string& body = "") {
    wire::HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    const auto response = admin.answer(request);
    return {response.status, Json::parse(response.body)};
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  live::Live live{live::LivePolicy{rules()}};
  live::OverrideRegistry registry{
      live::OverrideRegistry::Deps{spaces, live, clock, nullptr, [] {}, log}};
  ServerStats server_stats;
  metrics::Sources sources;
  Admin admin{{}, {live, server_stats, sources}};
};

// The time between the override's end and the housekeeping that forgets it.
TEST(OverridesApi, MarksAnExpiredOverrideAsEnded) {
  World world;
  const auto [status, made] =
      world.ask("POST", "/v1/overrides",
                R"({"rule": "api", "actor": "10.0.0.1", "limit": {"quota": 9, "window": "1h"},)"
                R"( "until": "2027-01-15T08:00:10Z"})");
  ASSERT_EQ(status, 201u) << made;
  const std::string path = "/v1/overrides/" + made.at("id").get<std::string>();
  now_us += 9'999'999;
  EXPECT_FALSE(world.ask("GET", path).second.contains("ended"));
  now_us += 1;
  EXPECT_EQ(world.ask("GET", path).second.at("ended"), true);
  EXPECT_EQ(world.ask("GET", "/v1/overrides").second.at("overrides").at(0).at("ended"), true);
  world.registry.housekeep();
  EXPECT_EQ(world.ask("GET", path).first, 404u);
}

TEST(OverridesApi, RefusesAnAddressThatTheRulesMatchKeepsOut) {
  World world;
  const auto set = [&](const std::string& actor) {
    return world.ask("POST", "/v1/overrides",
                     Json{{"rule", "office"}, {"actor", actor}, {"deny", true}}.dump());
  };
  const auto [status, refused] = set("acme|192.168.0.1");
  EXPECT_EQ(status, 422u) << refused;
  EXPECT_EQ(
      refused.at("detail"),
      "actor: `192.168.0.1` is not in `[cidr(10.0.0.0/8), ::1]`, which the rule's match wants "
      "of `ip`, so it would never hold; name an address in it, or another rule");
  for (const char* actor : {"acme|10.0.0.7", "acme|::1", "acme|192.*", "192.168.0.1|*"})
    EXPECT_EQ(set(actor).first, 201u) << actor;
}

}  // namespace
}  // namespace sluice::admin::overrides_api_test
