// What the admin port answers about holds, on the test's own clock.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <memory>
#include <string>
#include <utility>

#include "admin/admin_json.h"
#include "admin/routes.h"
#include "policy/rule_set.h"
#include "store/embedded_store.h"
#include "store/holds.h"

namespace sluice::admin::holds_api_test {
namespace {

int64_t now_us = 0;

struct World {
  World() {
    now_us = 1'800'000'000'000'000;
    add_holds(admin, holds, clock, changes);
  }
  // Returns the reservation's id.
  std::string reserve(std::string_view key, std::string_view user, std::string_view id,
                      std::string_view holder) {
    request::Charge charge{.space = space.get(),
                           .key = key,
                           .verb = request::Verb::reserve,
                           .cost = 10,
                           .limits = {&limit, 1},
                           .limits_id = limits.id()};
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    const store::Holds::Share share{1, "tokens"};
    const int64_t units = 10;
    request::HoldCall call{.user = user, .id = id, .holder = holder};
    EXPECT_TRUE(holds.reserve(call, {}, {{&group, 1}, {&charge, 1}, {&decision, 1}}, {&share, 1},
                              {&units, 1}, clock.now(), {}));
    EXPECT_EQ(call.outcome, request::HoldOutcome::done);
    return call.made_id;
  }
  std::pair<unsigned, Json> ask(const std::string& method, const std::string& path,
                                const std::string& query = "", const std::string& body = "") {
    wire::HttpRequest request;
    request.method = method;
    request.path = path;
    request.query = query;
    request.body = body;
    if (!body.empty()) request.content_type = "application/json";
    const auto response = admin.answer(request);
    return {response.status, Json::parse(response.body)};
  }
  size_t listed(const std::string& query) {
    const auto [status, json] = ask("GET", "/v1/holds", query);
    EXPECT_EQ(status, 200u) << json;
    EXPECT_EQ(json["total"], json["holds"].size());
    return json["holds"].size();
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  const limit::Limit limit{limit::Algorithm::fixed_bucket, 100, {}, 100};
  request::Spaces spaces;
  store::EmbeddedStore store{16 << 20, base::Hash(1), spaces};
  store::Holds holds{store, spaces, {}};
  request::SpaceRef space = spaces.hold("native:tokens:", ":tenant", {});
  request::LimitsRef limits = spaces.hold_limits({&limit, 1});
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  live::ChangeLog changes{log};
  live::Live live{live::LivePolicy{std::make_shared<policy::RuleSet>()}};
  ServerStats server_stats;
  metrics::Sources sources;
  Admin admin{{}, {live, server_stats, sources}};
};

TEST(HoldsApi, ListsWhatIsHeldAndReleasesIt) {
  World world;
  const std::string id = world.reserve("acme", "", "", "worker-7");
  world.reserve("other", "", "", "worker-8");
  now_us += 1'500'000;
  const auto [status, json] = world.ask("GET", "/v1/holds", "actor=acme");
  ASSERT_EQ(status, 200u);
  EXPECT_EQ(json, Json::parse(R"({"total": 1, "holds": [{"id": ")" + id + R"(",
      "kind": "reservation", "rule": "tokens", "actor": "acme",
      "counter": "native:tokens:acme:tenant", "n": 10, "holder": "worker-7", "age": 1.5,
      "expires_in": 58.5}]})"));
  EXPECT_EQ(world.listed(""), 2u);
  EXPECT_EQ(world.listed("rule=tokens&kind=reservation"), 2u);
  EXPECT_EQ(world.listed("kind=place"), 0u);
  EXPECT_EQ(world.listed("holder=worker-8"), 1u);
  EXPECT_EQ(world.listed("counter=native:tokens:other:tenant"), 1u);
  EXPECT_EQ(world.listed("rule=token"), 0u);
  EXPECT_EQ(world.ask("GET", "/v1/holds", "limit=1").second["total"], 2);
  EXPECT_EQ(world.ask("GET", "/v1/holds", "limit=1").second["holds"].size(), 1u);
  for (const char* wrong : {"limit=0", "limit=1001", "limit=x", "kind=places"})
    EXPECT_EQ(world.ask("GET", "/v1/holds", wrong).first, 400u) << wrong;
  EXPECT_EQ(world.ask("DELETE", "/v1/holds/" + id),
            (std::pair{200u, Json{{"state", "released"}, {"returned", 10}}}));
  EXPECT_EQ(world.ask("DELETE", "/v1/holds/" + id).first, 404u);
  EXPECT_EQ(world.listed(""), 1u);
  const live::ChangeLog::Page changes = world.changes.page(0, 10);
  ASSERT_EQ(changes.changes.size(), 1u);
  EXPECT_EQ(changes.changes[0].what, "hold released");
  EXPECT_EQ(changes.changes[0].about["id"], id);
}

TEST(HoldsApi, AnIdBelongsToAUser) {
  World world;
  const std::string id = "0123456789abcdef";
  world.reserve("acme", "ann", id, "");
  world.reserve("acme", "bob", id, "");
  EXPECT_EQ(world.listed("user=ann"), 1u);
  EXPECT_EQ(world.ask("DELETE", "/v1/holds/" + id).first, 409u);
  EXPECT_EQ(world.ask("DELETE", "/v1/holds/" + id, "user=eve").first, 404u);
  EXPECT_EQ(world.ask("DELETE", "/v1/holds/" + id, "user=ann").first, 200u);
  EXPECT_EQ(world.ask("DELETE", "/v1/holds/" + id).first, 200u);
  EXPECT_EQ(world.listed(""), 0u);
}

TEST(HoldsApi, ShowsOneAndSetsItsEnd) {
  World world;
  const std::string id = "0123456789abcdef", path = "/v1/holds/" + id;
  world.reserve("acme", "ann", id, "worker-7");
  const auto put = [&](const std::string& body, const std::string& query = "") {
    return world.ask("PUT", path, query, body);
  };
  const auto ends_in = [&] { return world.ask("GET", path).second["expires_in"]; };
  EXPECT_EQ(world.ask("GET", path).second["holder"], "worker-7");
  const auto [status, json] = put(R"({"ttl": 90.5})");
  EXPECT_EQ(status, 200u) << json;
  EXPECT_EQ(json["expires_in"], 90.5);
  EXPECT_EQ(ends_in(), 90.5);
  EXPECT_EQ(put(R"({"ttl": 86400})").second["expires_in"], 600) << "the most of its rule";
  EXPECT_EQ(put(R"({"ttl": 1})", "user=ann").second["expires_in"], 1) << "also an earlier one";
  for (const char* wrong :
       {"[]", "1", "x", R"({"ttl": 0})", R"({"ttl": -1})", R"({"ttl": 86400.1})",
        R"({"ttl": "60"})", R"({"ttl": 60, "n": 1})", R"({"ttl": null})"})
    EXPECT_EQ(put(wrong).first, 400u) << wrong;
  now_us += 900'000;
  EXPECT_EQ(put("{}").second["expires_in"], 1) << "the length that it had last";
  EXPECT_EQ(put(R"({"ttl": 9})", "user=bob").first, 404u);
  EXPECT_EQ(ends_in(), 1);
  const live::ChangeLog::Page changes = world.changes.page(0, 10);
  ASSERT_EQ(changes.changes.size(), 4u);
  EXPECT_EQ(changes.changes[0].what, "hold renewed");
  world.reserve("acme", "bob", id, "");
  EXPECT_EQ(put(R"({"ttl": 9})").first, 409u);
  EXPECT_EQ(world.ask("GET", path).first, 409u);
  now_us += 1'000'000;
  world.holds.end_due(world.clock.now());
  EXPECT_EQ(put(R"({"ttl": 9})", "user=ann").first, 404u) << "it has ended";
}

}  // namespace
}  // namespace sluice::admin::holds_api_test
