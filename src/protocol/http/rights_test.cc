// What each path answers to each kind of client where the server has users. Every route of the
// protocol needs a line here.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users_by_rights_test.h"
#include "protocol/http/exchange.h"
#include "protocol/http/http_text_test.h"

namespace sluice::http::rights_test {
namespace {

using namespace session_world;
using access::Right;
using access::right_names;
using tests::every_right;
using tests::users_by_rights;

// The request by which a route is asked, and its answer to a client that may ask it.
struct Line {
  std::string body;
  int status = 200;
  bool touches = true;  // a counter, so that a limited right counts
  std::string method = "POST";
};

const std::map<std::string_view, Line> lines = {
    {"/v1/take", {by_ip("a")}},
    {"/v1/batch", {R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "a1"}}]})"}},
    {"/v1/charge", {by_ip("a")}},
    {"/v1/peek", {by_ip("a")}},
    {"/v1/put", {by_ip("a")}},
    {"/v1/wait", {by_ip("a")}},
    {"/v1/reset", {by_ip("a")}},
    {"/v1/explain", {by_ip("a"), 200, false}},
    {"/v1/health", {"", 200, false, "GET"}},
    {"/v1/openapi.json", {"", 200, false, "GET"}},
    {"/v1/reserve", {by_ip("a")}},
    {"/v1/extend", {R"({"id": "hold-0000-0000-1", "n": 1})", 404, false}},
    {"/v1/renew", {R"({"id": "hold-0000-0000-1"})", 404, false}},
    {"/v1/commit", {by_ip("a", R"(, "id": "hold-0000-0000-2", "n": 1)")}},
    {"/v1/release", {R"({"id": "hold-0000-0000-1"})", 404, false}},
    {"/v1/acquire", {by_ip("a"), 400}},
    {"*", {"", 204, false, "OPTIONS"}},
    {"/throttle", {R"({"key": "a", "max_burst": 9, "count_per_period": 9, "period": 60})"}},
    {"/health", {"", 200, false, "GET"}},
};

access::User user(const std::string& name, access::Rights rights, const std::string& pattern = {},
                  bool by_certificate = false) {
  access::User one{name, rights, by_certificate ? access::Digest{} : access::digest_of(name)};
  if (by_certificate) one.certificate = name;
  if (!pattern.empty())
    for (const Right right : {Right::take, Right::put, Right::look})
      one.reach[static_cast<size_t>(right)] = access::Reach({pattern, "throttle:0|" + pattern});
  return one;
}

// `only-R`, `without-R`, and with all rights `elsewhere`, `here` and `by-certificate`.
std::shared_ptr<const access::Users> users() {
  std::vector<access::User> all = {user("elsewhere", every_right, "by-ip:z*"),
                                   user("here", every_right, "by-ip:a*"),
                                   user("throttles", every_right, "throttle:0|a"),
                                   user("by-certificate", every_right, {}, true)};
  return users_by_rights(std::move(all));
}

int status_of(World& world, const Route& route, const Line& line, const std::string& token,
              const std::string& certificate = {}) {
  const std::string authorization = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
  Connection connection(world, "127.0.0.1:41000", certificate);
  return ask(connection, line.method == "POST" ? post(route.path, line.body, authorization)
                                               : get(route.path, authorization, line.method))
      .status;
}

TEST(HttpRights, EachRouteAnswersEachClientAsItsLineSays) {
  World world({.rules = "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: 1000, "
                        "window: 1m, algorithm: fixed_window } }\n",
               .http = "{ twins: [throttlecrab] }",
               .users = users()});
  for (const Route& route : all_routes()) {
    const auto found = lines.find(route.path);
    ASSERT_NE(found, lines.end()) << route.path << " has no line in this test";
    const Line& line = found->second;
    const bool needs_user = route.right.has_value();
    const auto expect = [&](int status, const std::string& token,
                            const std::string& certificate = {}) {
      EXPECT_EQ(status_of(world, route, line, token, certificate), status)
          << route.path << " by " << (certificate.empty() ? token : certificate);
    };
    expect(needs_user ? 401 : line.status, "");
    expect(needs_user ? 401 : line.status, "wrong");
    expect(needs_user ? 401 : line.status, "", "unknown");
    expect(line.status, "", "by-certificate");
    expect(needs_user ? 401 : line.status, "wrong", "by-certificate");
    for (size_t i = 0; i < access::right_names.size(); ++i) {
      const std::string name(access::right_names[i]);
      const bool is_its = route.right == static_cast<Right>(i);
      expect(needs_user && is_its ? 403 : line.status, "without-" + name);
      expect(needs_user && !is_its ? 403 : line.status, "only-" + name);
    }
    const bool is_throttle = route.action == Action::throttle;
    expect(line.touches ? 403 : line.status, "elsewhere");
    expect(line.touches && is_throttle ? 403 : line.status, "here");
    expect(line.touches && !is_throttle ? 403 : line.status, "throttles");
  }
  for (const auto& [path, line] : lines) EXPECT_NE(find_route(path), nullptr) << path;
}

// A proxy asks it for its own clients, whom it knows; it shows a secret, and no token.
TEST(HttpRights, AuthIsForNoUser) {
  World world({.users = users()});
  const int without = ask(world, get("/auth/p")).status;
  for (const char* token : {"wrong", "only-look", "elsewhere", "here"})
    EXPECT_EQ(
        ask(world, get("/auth/p", "Authorization: Bearer " + std::string(token) + "\r\n")).status,
        without);
  EXPECT_NE(without, 401);
  EXPECT_NE(without, 403);
  EXPECT_EQ(find_route("/auth/p")->right, std::nullopt);
}

// ---- Limited rights ----

const std::string two_rules =
    "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: 3, window: 30s, algorithm: "
    "fixed_window }, then: continue }\n"
    "- { match: { tenant: '*' }, actor: tenant, name: by-tenant, limit: { quota: 3, window: 30s, "
    "algorithm: fixed_window } }\n"
    "- { match: { trial: '*' }, actor: trial, name: trial, mode: shadow, limit: { quota: 3, "
    "window: 30s, algorithm: fixed_window } }\n";

access::User limited(const std::string& name, const std::vector<std::string>& patterns) {
  access::User one{name, {Right::take, Right::put, Right::look}, access::digest_of(name)};
  one.reach[static_cast<size_t>(Right::take)] = access::Reach(patterns);
  one.reach[static_cast<size_t>(Right::put)] = access::Reach(patterns);
  return one;
}

struct Limited : World {
  explicit Limited(const std::vector<std::string>& patterns)
      : World({.rules = two_rules,
               .users = std::make_shared<const access::Users>(std::vector<access::User>{
                   limited("app", patterns), user("ops", every_right)})}) {}
  int ask(std::string_view path, const std::string& body, const std::string& token = "app") {
    return session_world::ask(*this, post(path, body, "Authorization: Bearer " + token + "\r\n"))
        .status;
  }
  // The units left by `ops`, whose rights are not limited.
  int64_t left(const std::string& entries) {
    const HttpAnswer answer =
        session_world::ask(*this, post("/v1/peek", R"({"n": 0, "entries": {)" + entries + "}}",
                                       "Authorization: Bearer ops\r\n"));
    const size_t at = answer.body.find("\"remaining\": ");
    return at == std::string::npos ? -1 : std::stoll(answer.body.substr(at + 13));
  }
};

TEST(HttpRights, EveryRuleThatAppliesMustBeInReach) {
  Limited world({"by-ip:10.*"});
  EXPECT_EQ(world.ask("/v1/take", by_ip("10.1")), 200);
  EXPECT_EQ(world.ask("/v1/take", by_ip("11.1")), 403);
  EXPECT_EQ(world.ask("/v1/take", R"({"entries": {"ip": "10.1", "tenant": "t"}})"), 403);
  EXPECT_EQ(world.left(R"("ip": "10.1")"), 2) << "the rule in reach was not charged either";
  EXPECT_EQ(world.left(R"("tenant": "t")"), 3);
  EXPECT_EQ(world.ask("/v1/take", R"({"entries": {"ip": "10.1", "trial": "t"}})"), 200)
      << "a rule in shadow refuses nothing";
  EXPECT_EQ(world.ask("/v1/take", R"({"entries": {"other": "x"}})"), 404)
      << "no rule applies, so nothing is touched";
  EXPECT_EQ(world.ask("/v1/peek", by_ip("11.1")), 200) << "`look` is not limited";
}

TEST(HttpRights, ANameIsAllCountersOfTheRuleAndNoOther) {
  Limited world({"by-ip", "by-tenant:t"});
  EXPECT_EQ(world.ask("/v1/take", by_ip("anything")), 200);
  EXPECT_EQ(world.ask("/v1/take", R"({"entries": {"ip": "a", "tenant": "t"}})"), 200);
  EXPECT_EQ(world.ask("/v1/take", R"({"entries": {"ip": "a", "tenant": "t2"}})"), 403);
}

TEST(HttpRights, OnePartThatIsNotAllowedRefusesTheWhole) {
  for (const std::string mode : {R"("mode": "each")", R"("mode": "all")"}) {
    Limited world({"by-ip:a*"});
    const std::string takes =
        R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}], )" + mode + "}";
    EXPECT_EQ(world.ask("/v1/take", takes), 403) << mode;
    EXPECT_EQ(world.ask("/v1/take", takes, "ops"), 200) << mode;
    EXPECT_EQ(world.left(R"("ip": "a")"), 2) << mode;
  }
  Limited world({"by-ip:a*"});
  const std::string takes = R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}]})";
  for (const char* path : {"/v1/batch", "/v1/charge", "/v1/put"}) {
    EXPECT_EQ(world.ask(path, takes), 403) << path;
    EXPECT_EQ(world.left(R"("ip": "a")"), 3) << path;
  }
  std::string many = R"({"takes": [)";
  for (int i = 0; i < 100; ++i) many += R"({"entries": {"ip": "a"}}, )";
  EXPECT_EQ(world.ask("/v1/batch", many + R"({"entries": {"ip": "b"}}]})"), 403);
  EXPECT_EQ(world.left(R"("ip": "a")"), 3);
  EXPECT_EQ(world.ask("/v1/batch", many + R"({"entries": {"ip": "a"}}]})"), 200);
  EXPECT_EQ(world.left(R"("ip": "a")"), 0);
}

TEST(HttpRights, LimitsThatComeWithARequestAreTheRuleInline) {
  Limited world({"inline:a*", "by-ip:a*"});
  EXPECT_EQ(world.ask("/v1/take", by_key("abc", 3)), 200);
  EXPECT_EQ(world.ask("/v1/take", by_key("bc", 3)), 403);
  EXPECT_EQ(world.ask("/v1/reset", by_key("abc", 3)), 200);
  EXPECT_EQ(world.ask("/v1/reset", by_key("bc", 3)), 403);
  EXPECT_EQ(world.ask("/v1/put", by_ip("b", R"(, "all": true)")), 403);
  EXPECT_EQ(world.ask("/v1/reset", by_ip("b")), 403);
}

TEST(HttpRights, ARefusalIsReportedOnceWithTheCounter) {
  Limited world({"by-ip:a*"});
  EXPECT_EQ(
      world.ask("/v1/batch", R"({"takes": [{"entries": {"ip": "b"}}, {"entries": {"ip": "c"}}]})"),
      403);
  EXPECT_EQ(world.listener.codes, std::vector<std::string>{"forbidden"});
  EXPECT_EQ(world.listener.examples.back(), "the right `take` of user app does not reach by-ip:b");
}

TEST(HttpRights, ReloadsChangePatternsButNotWaitsThatWereTaken) {
  Limited world({"by-ip:a*"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.ask("/v1/take", by_ip("a")), 200);
  Connection waiter(world);
  EXPECT_EQ(waiter.ask(post("/v1/wait", by_ip("a", R"(, "timeout": 60)"),
                            "Authorization: Bearer app\r\n")),
            "");
  world.access.set(std::make_shared<const access::Users>(
      std::vector<access::User>{limited("app", {"by-ip:b*"}), user("ops", every_right)}));
  EXPECT_EQ(world.ask("/v1/take", by_ip("a")), 403);
  EXPECT_EQ(world.ask("/v1/take", by_ip("b")), 200);
  EXPECT_EQ(world.ask("/v1/wait", by_ip("a")), 403);
  world.pass(31 * second);
  EXPECT_EQ(statuses_of(waiter.take()), std::vector<int>{200});
}

TEST(HttpRights, AChargeThatIsSentAgainNeedsTheRightAgain) {
  Limited world({"by-ip:a*"});
  const std::string body = by_ip("a", R"(, "id": "charge-0000-0001")");
  EXPECT_EQ(world.ask("/v1/charge", by_ip("b", R"(, "id": "charge-0000-0001")")), 403);
  EXPECT_EQ(world.ask("/v1/charge", body), 200) << "the refused one has left no id";
  EXPECT_EQ(world.ask("/v1/charge", body), 200);
  world.access.set(std::make_shared<const access::Users>(
      std::vector<access::User>{limited("app", {"by-ip:b*"}), user("ops", every_right)}));
  EXPECT_EQ(world.ask("/v1/charge", body), 403);
  EXPECT_EQ(world.left(R"("ip": "a")"), 2);
}

}  // namespace
}  // namespace sluice::http::rights_test
