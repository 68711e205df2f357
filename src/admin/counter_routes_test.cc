// What the admin port answers about counters in the hard cases: limits that change between the
// steps of a query, a store that does not search all names at once, long names, many bytes, and the
// server's end.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "admin/admin_json.h"
#include "admin/counters.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/lists.h"
#include "protocol/droplet/rules.h"
#include "protocol/limitd/rules.h"
#include "store/embedded_store.h"
#include "tests/support/patience.h"
#include "wire/shown_name.h"

namespace sluice::admin::counter_routes_test {
namespace {

constexpr int64_t now_us = 1'700'000'000'000'000;

// A store of which one search covers a third of the names. `behind` runs after each batch.
class Meddling final : public store::Store, public store::Catalog {
 public:
  explicit Meddling(const request::Spaces& spaces)
      : Store(*this, nullptr), inner_(0, base::Hash(1), spaces) {}

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    const auto applied = inner_.apply(batch, now, completions, pin, ticket);
    if (behind) behind();
    return applied;
  }
  store::ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                            std::string_view after, size_t max, std::string_view from) override {
    store::ScanPage stored;
    stored.failed = fails;
    stored.unknown = from.find_first_not_of("0123456789.") != from.npos;
    if (stored.unknown) return stored;
    const size_t part = from.empty() ? 0 : std::stoul(std::string(from));
    EXPECT_EQ(after.empty(), !from.ends_with("."));
    stored.again = std::to_string(part) + ".";
    for (std::string& name : inner_.scan_page(spaces, prefix, "", 10'000, "").keys)
      if (std::hash<std::string>()(name) % parts == part && name > after &&
          stored.keys.size() < max)
        stored.keys.push_back(std::move(name));
    if (part + 1 < parts) stored.rest = std::to_string(part + 1);
    return stored;
  }
  std::optional<base::Time> advance(store::CompletionQueue& completions, base::Time now) override {
    return inner_.advance(completions, now);
  }
  bool cancel(store::CompletionQueue& completions, request::Ticket ticket,
              base::Time now) override {
    return inner_.cancel(completions, ticket, now);
  }
  std::vector<std::string> list(const request::Space&, std::string_view, size_t) override {
    return {};
  }
  void housekeep(base::Time) override {}
  size_t purge(base::Time) override { return 0; }
  store::Stats stats() const override { return inner_.stats(); }

  std::string why_degraded() const override { return degraded; }

  std::function<void()> behind;
  bool fails = false;
  std::string degraded;
  static constexpr size_t parts = 3;

 private:
  store::EmbeddedStore inner_;
};

struct World {
  World() {
    queries.set_post([this](auto query) {
      ++posted;
      engine.run_query(std::move(query));
    });
    routes.add_to(admin);
  }
  std::shared_ptr<policy::RuleSet> rules() {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    limitd::LimitdConfig config;
    const limitd::NamedText file{"l", "db: { inMemory: true }\nbuckets:\n  user:\n    size: 10\n"};
    limitd::read_limitd({&file, 1}, {}, spaces, *set, config, diagnostics);
    droplet::add_droplet_rule(spaces, *set);
    EXPECT_FALSE(base::has_errors(diagnostics));
    return set;
  }

  std::pair<unsigned, Json> ask(const std::string& method, const std::string& path,
                                const std::string& query = "", const std::string& body = "") {
    wire::HttpRequest request;
    request.method = method;
    request.path = path;
    request.query = query;
    request.body = body;
    const auto response = admin.answer(request);
    return {response.status, Json::parse(response.body)};
  }
  std::pair<unsigned, Json> put(const std::string& key, int64_t used) {
    return ask("PUT", "/v1/counters/" + key, "", "{\"used\": " + std::to_string(used) + "}");
  }
  int64_t remaining(const std::string& key) {
    return ask("GET", "/v1/counters/" + key).second.at("limits").at(0).at("remaining");
  }
  void set_override(const std::string& actor, limit::Limit limit) {
    policy::Override one;
    one.rule = live.current()->rules->rules(&limitd::dialect).front().id;
    one.actor = {actor};
    one.terms.limits_id = spaces.intern_limits({&limit, 1});
    one.terms.limits = spaces.limits(one.terms.limits_id);
    one.terms.id = 1;
    EXPECT_TRUE(overrides.set(one));
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  Meddling store{spaces};
  live::Live live{live::LivePolicy{rules()}};
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  ServerStats server_stats;
  metrics::Sources sources;
  Admin admin{{}, {live, server_stats, sources}};
  policy::Overrides overrides;
  engine::Engine engine{
      engine::Engine::Deps{.store = store, .clock = clock, .live = live, .overrides = &overrides},
      log};
  engine::TableScanner scanner{store};
  engine::AdminQueries queries{store, scanner};
  CounterRoutes routes{{live, queries, clock, store, &overrides}};
  int posted = 0;
};

limit::Limit bucket(int64_t quota) {
  return {limit::Algorithm::fixed_bucket, quota, {}, quota};
}

TEST(CounterRoutes, ReportsAChangeThatAnOverrideDenies) {
  World world;
  ASSERT_EQ(world.put("limitd:user:k", 3).first, 200u);
  world.set_override("k", bucket(10));
  // The limits change after the query has read them, and the units fit the old ones.
  world.store.behind = [&] {
    world.store.behind = nullptr;
    world.set_override("k", bucket(2));
  };
  const auto [status, said] = world.put("limitd:user:k", 9);
  EXPECT_EQ(status, 409u) << said;
  EXPECT_EQ(said.at("detail"), "the limits of this counter changed meanwhile; ask again");
  EXPECT_EQ(world.put("limitd:user:k", 9).first, 422u);
  EXPECT_EQ(world.put("limitd:user:k", 2).first, 200u);
  EXPECT_EQ(world.remaining("limitd:user:k"), 0);
}

TEST(CounterRoutes, DoesNotChangeTheCounterOfABannedActor) {
  World world;
  ASSERT_EQ(world.put("limitd:user:k", 3).first, 200u);
  world.set_override("k", {limit::Algorithm::deny, 0, {}, 0});
  for (const auto& [status, said] :
       {world.put("limitd:user:k", 0), world.ask("DELETE", "/v1/counters/limitd:user:k")}) {
    EXPECT_EQ(status, 409u) << said;
    EXPECT_NE(said.at("detail").get<std::string>().find("denied whatever"), std::string::npos);
  }
  EXPECT_TRUE(
      world.overrides.remove(world.live.current()->rules->rules(&limitd::dialect).front().id,
                             std::vector<std::string>{"k"}));
  EXPECT_EQ(world.remaining("limitd:user:k"), 7) << "as it was";
}

TEST(CounterRoutes, AStoreThatCannotBeSearchedSaysWhy) {
  World world;
  world.store.fails = true;
  for (const auto& [degraded, why] :
       {std::pair("", ""), std::pair("a:1 is not reached", ": a:1 is not reached")}) {
    world.store.degraded = degraded;
    const auto [status, said] = world.ask("GET", "/v1/counters");
    EXPECT_EQ(status, 503u);
    EXPECT_EQ(said.at("detail"), "the store of the counters cannot be searched now" +
                                     std::string(why) + "; try again, and see `sluice status`");
  }
}

TEST(CounterRoutes, ATruncatedPageSaysWhereTheNextOneStarts) {
  World world;
  std::set<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "limitd:user:" + std::to_string(i);
    ASSERT_EQ(world.put(name, 1).first, 200u);
    expected.insert(name);
  }
  for (const size_t limit : {size_t{1}, size_t{7}, size_t{100}}) {
    std::set<std::string> all;
    std::string query = "limit=" + std::to_string(limit), last;
    size_t listed = 0, cut = 0, parts = 1;
    for (int pages = 0; pages < 100; ++pages) {
      const auto [status, page] = world.ask("GET", "/v1/counters", query);
      ASSERT_EQ(status, 200u) << page;
      const bool behind =
          query.find('-') != std::string::npos && query.find("after=-") == std::string::npos;
      if (query.find("after=-") != std::string::npos) {
        last.clear();
        ++parts;
      }
      for (const Json& one : page.at("counters")) {
        const std::string name = one.at("counter");
        EXPECT_GT(name, last) << behind;
        last = name;
        all.insert(name);
        ++listed;
      }
      cut += page.value("cut", false) ? 1u : 0u;
      if (!page.contains("next")) break;
      query = "limit=" + std::to_string(limit) + "&after=" + page.at("next").get<std::string>();
    }
    EXPECT_EQ(all, expected) << limit;
    EXPECT_EQ(listed, expected.size()) << limit;
    EXPECT_EQ(parts, Meddling::parts);
    EXPECT_GE(cut, Meddling::parts - 1);
  }
  // The last one is well-formed, but no store names such a place.
  for (const char* wrong :
       {"after=-", "after=61-", "after=61-6", "after=6-61", "after=61-zz", "after=-30780d0a"})
    EXPECT_EQ(world.ask("GET", "/v1/counters", wrong).first, 400u) << wrong;
}

// Each page of a part of the names ends when it is full, and names the place of the next.
TEST(CounterRoutes, BoundsAPageInBytes) {
  World world;
  constexpr size_t count = 2400;
  for (size_t i = 0; i < count; ++i) {
    // Three bytes each in a path: '/' is percent-encoded.
    const std::string name = "limitd:user:" + std::string(230, '/') + std::to_string(i);
    ASSERT_EQ(world.put(wire::percent_encoded(name), 1).first, 200u);
  }
  std::set<std::string> all;
  std::string query = "limit=1000";
  size_t listed = 0, pages = 0;
  for (; pages < 100; ++pages) {
    wire::HttpRequest request;
    request.method = "GET";
    request.path = "/v1/counters";
    request.query = query;
    const auto response = world.admin.answer(request);
    ASSERT_EQ(response.status, 200u);
    EXPECT_LE(response.body.size(), base::bounds::admin_page_bytes_max * 5 / 4);
    const Json page = Json::parse(response.body);
    for (const Json& one : page.at("counters")) all.insert(one.at("path").get<std::string>());
    listed += page.at("counters").size();
    if (!page.contains("next")) break;
    query = "limit=1000&after=" + page.at("next").get<std::string>();
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(listed, count);
  EXPECT_GT(pages, Meddling::parts - 1) << "of its own";
}

TEST(CounterRoutes, ShortensALongNameAndAddressesItByItsDigest) {
  World world;
  const std::string alike = "limitd:user:" + std::string(5'000, 'x');
  std::set<std::string> paths;
  for (int i = 0; i < 5; ++i) {
    const std::string name = alike + std::to_string(i);
    ASSERT_EQ(world.put(wire::percent_encoded(name), i + 1).first, 200u);
    paths.insert(wire::path_of_name(name));
  }
  std::set<std::string> found;
  std::string query = "limit=2";
  for (int pages = 0; pages < 30; ++pages) {
    const auto [status, page] = world.ask("GET", "/v1/counters", query);
    ASSERT_EQ(status, 200u) << page;
    for (const Json& one : page.at("counters")) {
      found.insert(one.at("path").get<std::string>());
      EXPECT_EQ(one.at("bytes"), alike.size() + 1);
      EXPECT_EQ(one.at("counter"), alike.substr(0, base::bounds::shown_name_bytes_max));
      EXPECT_EQ(one.at("actor_bytes"), 5'001);
    }
    if (!page.contains("next")) break;
    EXPECT_LT(page.at("next").get<std::string>().size(), base::bounds::http_head_bytes_max - 1000);
    query = "limit=2&after=" + page.at("next").get<std::string>();
  }
  EXPECT_EQ(found, paths);

  const std::string path = wire::path_of_name(alike + "3");
  const size_t cut = path.find('?');
  const std::string target = "/v1/counters/" + path.substr(0, cut), mark = path.substr(cut + 1);
  EXPECT_EQ(world.ask("GET", target, mark).second.at("limits").at(0).at("remaining"), 6);
  EXPECT_EQ(world.ask("PUT", target, mark, "{\"used\": 9}").first, 200u);
  EXPECT_EQ(world.ask("GET", target, mark).second.at("limits").at(0).at("remaining"), 1);
  EXPECT_EQ(world.remaining(wire::percent_encoded(alike + "2")), 7)
      << "the others are as they were";
  EXPECT_EQ(world.ask("DELETE", target, mark).first, 200u);
  EXPECT_EQ(world.remaining(wire::percent_encoded(alike + "3")), 10);
  std::string other = mark;
  other.back() = other.back() == '0' ? '1' : '0';
  EXPECT_EQ(world.ask("GET", target, other).first, 404u);
  EXPECT_EQ(world.ask("GET", target, "bytes=7").first, 400u);
  EXPECT_EQ(world.ask("GET", target, "bytes=7&digest=x").first, 400u);
}

TEST(CounterRoutes, AnExplanationIsBoundedInBytes) {
  World world;
  const std::string key(900'000, 'x');
  const auto [status, said] =
      world.ask("POST", "/v1/explain", "",
                R"({"protocol": "limitd", "descriptor": {"type": "user", "key": ")" + key + "\"}}");
  ASSERT_EQ(status, 200u) << said;
  EXPECT_LT(said.dump().size(), 10'000u);
  const Json& rule = said.at("rules").at(0);
  EXPECT_EQ(rule.at("path"), wire::path_of_name("limitd:user:" + key));
}

// Slow routes wait for others, of which there may be too many: the document must list 503.
TEST(CounterRoutes, OpenApiLists503ForEverySlowRoute) {
  World world;
  const Json paths = Json::parse(openapi_document).at("paths");
  for (const Admin::Route& route : world.admin.routes()) {
    if (!route.slow) continue;
    std::string verb = route.method;
    for (char& c : verb) c = static_cast<char>(c | 32);
    EXPECT_TRUE(paths.at(route.path).at(verb).at("responses").contains("503"))
        << verb << " " << route.path;
  }
}

TEST(CounterRoutes, AnswersWithoutTheStoreAfterTheEnd) {
  World world;
  world.queries.end();
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [status, said] :
       {world.put("limitd:user:k", 1), world.ask("GET", "/v1/counters"),
        world.ask("POST", "/v1/explain", "",
                  R"({"protocol": "limitd", "descriptor": {"type": "user", "key": "k"}})")}) {
    EXPECT_EQ(status, 503u);
    EXPECT_EQ(said.at("detail"), "the server is stopping");
  }
  EXPECT_EQ(world.posted, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, tests::promised(std::chrono::seconds(4)));
}

TEST(CounterRoutes, RejectsACostBeyond64Bits) {
  World world;
  const auto explain = [&](const std::string& cost) {
    return world
        .ask("POST", "/v1/explain", "",
             R"({"protocol": "droplet", "descriptor": {"bucket": "b"}, "cost": )" + cost + "}")
        .first;
  };
  for (const char* wrong : {"18446744073709551615", "9223372036854775808", "9007199254740992",
                            "-9007199254740992", "-9223372036854775808", "1e3", "1.5"})
    EXPECT_EQ(explain(wrong), 422u) << wrong;
  for (const char* right : {"0", "-9007199254740991", "9007199254740991"})
    EXPECT_EQ(explain(right), 200u) << right;
}

}  // namespace
}  // namespace sluice::admin::counter_routes_test
