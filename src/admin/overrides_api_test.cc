// What the admin port answers about overrides, on the test's own clock.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <string>
#include <utility>

#include "admin/admin_json.h"
#include "admin/routes.h"
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
        "    actor: [tenant, ip], limit: { quota: 3, window: 1h } }\n"
        "- { name: staff, match: { plan: free, user: 'staff-*' },\n"
        "    actor: [plan, user], limit: { quota: 3, window: 1h } }\n"
        "- { name: each, actor: user, limit: { quota: 3, window: 1h } }\n",
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

TEST(OverridesApi, RefusesAnActorThatTheRulesMatchNeverLetsThrough) {
  World world;
  const auto set = [&](const std::string& rule, const Json& actor) {
    return world.ask("POST", "/v1/overrides",
                     Json{{"rule", rule}, {"actor", actor}, {"deny", true}}.dump());
  };
  const auto [status, refused] = set("staff", "free|[staff-1, bob-*]");
  EXPECT_EQ(status, 422u) << refused;
  EXPECT_EQ(refused.at("field"), "actor");
  EXPECT_EQ(refused.at("detail"),
            "actor: `bob-*` never fits `staff-*`, which the rule's match wants of `user`, so it "
            "would never hold; write a value that fits, or name another rule");
  for (const char* actor : {"free|bob", "free|", "free|cidr(10.0.0.0/8)", "free|exact(staff*)",
                            "paid|staff-1", "paid|*", "pro*|staff-1"})
    EXPECT_EQ(set("staff", actor).first, 422u) << actor;
  for (const char* actor :
       {"free|staff-1", "*|*", "f*|*-1", "free|st*", "free|[staff-1, staff-2*]"})
    EXPECT_EQ(set("staff", actor).first, 201u) << actor;
  for (const char* actor : {"acme|cidr(11.0.0.0/8)", "acme|cidr(2001:db8::/32)", "acme|bob-*",
                            "acme|[10.0.0.1, 11.0.0.1]"})
    EXPECT_EQ(set("office", actor).first, 422u) << actor;
  for (const char* actor : {"acme|cidr(10.1.0.0/16)", "acme|cidr(0.0.0.0/0)", "acme|*"})
    EXPECT_EQ(set("office", actor).first, 201u) << actor;
  // Of a list nothing is set; and a rule without a `match` of its actor takes each.
  const Json list = {{{"rule", "api"}, {"actor", "x"}, {"deny", true}},
                     {{"rule", "staff"}, {"actor", "free|x"}, {"deny", true}}};
  const auto all = world.ask("POST", "/v1/overrides", list.dump());
  EXPECT_EQ(all.first, 422u);
  EXPECT_EQ(all.second.at("field"), "[1].actor");
  EXPECT_EQ(world.ask("GET", "/v1/overrides").second.at("total"), 8);
  EXPECT_EQ(set("each", "").first, 201u);
}

}  // namespace
}  // namespace sluice::admin::overrides_api_test
