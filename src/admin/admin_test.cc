// Which requests the admin port refuses, by token, origin and size. The answers are tested in
// tests/e2e.
#include "admin/admin.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "access/users.h"
#include "admin/admin_json.h"
#include "base/bounds.h"

namespace sluice::admin::admin_test {
namespace {

AdminOptions with(const std::string& token) {
  AdminOptions options;
  options.token = token;
  return options;
}

struct World {
  explicit World(const std::string& token) : World(with(token)) {}
  explicit World(AdminOptions options) : admin(std::move(options), {live, server_stats, sources}) {
    admin.add({.method = "PUT",
               .path = "/v1/small",
               .body_bytes_max = base::bounds::admin_small_body_bytes_max,
               .handler = [](const Admin::Call&) { return json_response(200, Json::object()); }});
  }
  // The status of the refusal; 0: the request is not refused.
  unsigned refused(const wire::HttpRequest& request) const {
    const auto refusal = admin.refuse(request);
    if (!refusal) return 0;
    EXPECT_EQ(refusal->content_type, "application/problem+json");
    return refusal->status;
  }

  live::Live live{live::LivePolicy{std::make_shared<policy::RuleSet>()}};
  ServerStats server_stats;
  metrics::Sources sources;
  Admin admin;
};

wire::HttpRequest get(const std::string& path) {
  wire::HttpRequest request;
  request.method = "GET";
  request.path = path;
  request.host = "localhost";
  return request;
}

TEST(Admin, RejectsWebPagesWhenNoTokenIsConfigured) {
  const World world("");
  wire::HttpRequest request = get("/v1/config");
  EXPECT_EQ(world.refused(request), 0u);
  request.origin = "null";
  EXPECT_EQ(world.refused(request), 403u);
  request.origin.clear();
  // Browsers send no Origin for <img> and <script>.
  for (const char* from : {"cross-site", "same-site"}) {
    request.sec_fetch_site = from;
    EXPECT_EQ(world.refused(request), 403u) << from;
  }
  for (const char* from : {"none", "same-origin", ""}) {
    request.sec_fetch_site = from;
    EXPECT_EQ(world.refused(request), 0u) << from;
  }
  for (const char* host : {"evil.example", "evil.example:8380", "localhost.evil.example",
                           "xlocalhost", "127.0.0.1.evil.example", "a:b@evil"}) {
    request.host = host;
    EXPECT_EQ(world.refused(request), 403u) << host;
  }
  for (const char* host : {"", "localhost", "LocalHost:8380", "a.LOCALHOST", "127.0.0.1:8380",
                           "[::1]:8380", "10.0.0.1"}) {
    request.host = host;
    EXPECT_EQ(world.refused(request), 0u) << host;
  }
}

// A link, for example from a wiki or a dashboard.
TEST(Admin, AllowsANavigationFromAnotherSite) {
  const World world("");
  wire::HttpRequest visit = get("/metrics");
  visit.sec_fetch_site = "cross-site";
  visit.sec_fetch_mode = "navigate";
  visit.sec_fetch_dest = "document";
  EXPECT_EQ(world.refused(visit), 0u);
  visit.method = "HEAD";
  EXPECT_EQ(world.refused(visit), 0u);
  // Not links: forms, frames, scripts, and a page whose hostname resolves to this machine.
  using Change = std::pair<std::string wire::HttpRequest::*, const char*>;
  for (const auto& [field, value] :
       {Change{&wire::HttpRequest::method, "POST"}, Change{&wire::HttpRequest::method, "DELETE"},
        Change{&wire::HttpRequest::sec_fetch_dest, "iframe"},
        Change{&wire::HttpRequest::sec_fetch_dest, ""},
        Change{&wire::HttpRequest::sec_fetch_mode, "no-cors"},
        Change{&wire::HttpRequest::sec_fetch_mode, ""}, Change{&wire::HttpRequest::origin, "null"},
        Change{&wire::HttpRequest::host, "evil.example"}}) {
    wire::HttpRequest other = visit;
    other.*field = value;
    EXPECT_EQ(world.refused(other), 403u) << value;
  }
}

TEST(Admin, ComparesTheWholeToken) {
  const World world("0123456789-token");
  wire::HttpRequest request = get("/v1/config");
  for (const char* given :
       {"", "Bearer", "Bearer ", "Bearer 0123456789-toke", "Bearer 0123456789-token1",
        "Bearer 0123456789-tokeN", "Basic 0123456789-token", "0123456789-token"}) {
    request.authorization = given;
    EXPECT_EQ(world.refused(request), 401u) << given;
  }
  // The scheme's case does not matter (RFC 9110, 11.1).
  for (const char* scheme : {"Bearer", "bearer", "BEARER"}) {
    request.authorization = std::string(scheme) + " 0123456789-token";
    EXPECT_EQ(world.refused(request), 0u) << scheme;
  }
  // With a token the host may be any, and so may the origin.
  request.host = "sluice.example";
  request.origin = "https://sluice.example";
  EXPECT_EQ(world.refused(request), 0u);
}

std::string by_of(World& world, const wire::HttpRequest& request) {
  std::string by;
  world.admin.add({.method = "GET", .path = "/v1/by", .handler = [&](const Admin::Call& call) {
                     by = call.by;
                     return json_response(200, Json::object());
                   }});
  wire::HttpRequest other = request;
  other.path = "/v1/by";
  EXPECT_EQ(world.admin.answer(other).status, 200u);
  return by;
}

TEST(Admin, TakesTheTokenOfAUserWithTheRight) {
  using access::Right;
  World world("0123456789-token");
  world.live.exchange(std::make_shared<live::LivePolicy>(live::LivePolicy{
      .rules = std::make_shared<policy::RuleSet>(),
      .users = std::make_shared<const access::Users>(std::vector<access::User>{
          {"ops", {Right::admin}, access::digest_of("of ops")},
          {"app", {Right::take, Right::put, Right::look}, access::digest_of("of app")}})}));
  wire::HttpRequest request = get("/v1/config");
  EXPECT_EQ(world.refused(request), 401u);
  // "ops:of ops" and "app:of ops".
  for (const auto& [shown, status, by] :
       std::vector<std::tuple<const char*, unsigned, const char*>>{
           {"Bearer 0123456789-token", 0, "admin token, the admin port"},
           {"Bearer of ops", 0, "ops, the admin port"},
           {"Basic b3BzOm9mIG9wcw==", 0, "ops, the admin port"},
           {"Basic YXBwOm9mIG9wcw==", 401, nullptr},
           {"Bearer of app", 403, nullptr},
           {"Bearer of", 401, nullptr}}) {
    request.authorization = shown;
    EXPECT_EQ(world.refused(request), status) << shown;
    if (by == nullptr) continue;
    EXPECT_EQ(by_of(world, request), by);
  }
}

// Every path that the document has, in the order of clients: none, unknown, each other right, the
// right. A certificate stands in for no token here, and the right is never limited.
TEST(Admin, EachPathAnswersEachClient) {
  using access::Right;
  World world("0123456789-token");
  world.live.exchange(std::make_shared<live::LivePolicy>(live::LivePolicy{
      .rules = std::make_shared<policy::RuleSet>(),
      .users = std::make_shared<const access::Users>(std::vector<access::User>{
          {"take", {Right::take}, access::digest_of("take")},
          {"put", {Right::put}, access::digest_of("put")},
          {"look", {Right::look}, access::digest_of("look")},
          {"others", {Right::take, Right::put, Right::look}, access::digest_of("others")},
          {"admin", {Right::admin}, access::digest_of("admin")}})}));
  const Json paths = Json::parse(openapi_of_program())["paths"];
  EXPECT_GT(paths.size(), 15u);
  for (const auto& [path, methods] : paths.items()) {
    const bool is_open = path == "/health/live" || path == "/health/ready";
    for (const auto& [method, its] : methods.items()) {
      if (method == "parameters") continue;
      wire::HttpRequest request = get(path);
      std::transform(method.begin(), method.end(), std::back_inserter(request.method = {}),
                     [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
      for (const auto& [token, status] :
           std::vector<std::pair<std::string, unsigned>>{{"", 401},
                                                         {"wrong", 401},
                                                         {"take", 403},
                                                         {"put", 403},
                                                         {"look", 403},
                                                         {"others", 403},
                                                         {"admin", 0}}) {
        request.authorization = token.empty() ? "" : "Bearer " + token;
        EXPECT_EQ(world.refused(request), is_open ? 0u : status)
            << request.method << " " << path << " by " << token;
      }
    }
  }
}

TEST(Admin, RequiresAUsersTokenIfOthersReachItAndItHasNone) {
  AdminOptions options;
  options.is_reached_by_others = true;
  const World world(options);
  wire::HttpRequest request = get("/v1/config");
  for (const char* shown : {"", "Bearer ", "Bearer x"}) {
    request.authorization = shown;
    EXPECT_EQ(world.refused(request), 401u) << shown;
  }
}

TEST(Admin, BoundsABodyByRouteAndRejectsALargerOneWith413) {
  const World world("0123456789-token");
  constexpr uint64_t small = base::bounds::admin_small_body_bytes_max,
                     large = base::bounds::admin_body_bytes_max;
  const auto refused = [&](const std::string& method, const std::string& path, uint64_t bytes) {
    wire::HttpRequest request = get(path);
    request.method = method;
    request.authorization = "Bearer 0123456789-token";
    request.body_bytes = bytes;
    return world.refused(request);
  };
  EXPECT_EQ(refused("POST", "/v1/config/check", large), 0u);
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"GET", "/health/live"},
                                                        {"HEAD", "/v1/config"},
                                                        {"PUT", "/v1/small"},
                                                        {"POST", "/v1/reload"},
                                                        {"POST", "/health/live"},
                                                        {"POST", "/nothing"}}) {
    EXPECT_EQ(refused(method, path, small), 0u) << path;
    EXPECT_EQ(refused(method, path, small + 1), 413u) << path;
  }
  // Paths that need no token have the same bound.
  wire::HttpRequest request = get("/health/ready");
  request.body_bytes = small + 1;
  EXPECT_EQ(world.refused(request), 413u);
}

TEST(Admin, RejectsAMalformedQueryWith400) {
  World world("");
  wire::HttpRequest request = get("/v1/rules");
  for (const char* query : {"limit=%zz", "after=1&%4", "%"}) {
    request.query = query;
    EXPECT_EQ(world.admin.answer(request).status, 400u) << query;
  }
  request.query = "limit=%31&x=%25";
  EXPECT_EQ(world.admin.answer(request).status, 200u);
}

// Unbounded, the JSON library would never return from the first text, and after hours from the
// second.
TEST(Admin, RejectsTooDeepJson) {
  World world("");
  wire::HttpRequest request = get("/v1/parsed");
  request.method = "POST";
  world.admin.add({.method = "POST", .path = "/v1/parsed", .handler = [](const Admin::Call& call) {
                     const Json json = Json::parse(call.request.body, nullptr, false);
                     return json_response(json.is_discarded() ? 422 : 200, Json::object());
                   }});
  const auto answered = [&](const std::string& body) {
    request.body = body;
    return world.admin.answer(request).status;
  };
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  const auto object = [](size_t members) {
    std::string text = "{";
    for (size_t i = 0; i < members; ++i)
      text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  EXPECT_EQ(answered(R"({"a": )" + nested(1'000'000) + R"(, "b": 1})"), 400u);
  EXPECT_EQ(answered(object(1'500'000)), 400u);
  EXPECT_EQ(answered("[" + object(base::bounds::admin_json_members_max + 1) + "]"), 400u);
  EXPECT_EQ(answered(nested(base::bounds::admin_json_depth_max + 1)), 400u);
  EXPECT_EQ(answered(nested(base::bounds::admin_json_depth_max)), 200u);
  EXPECT_EQ(answered("[" + object(base::bounds::admin_json_members_max) + "," +
                     object(base::bounds::admin_json_members_max) + "]"),
            200u);
  EXPECT_EQ(answered("\"\\\"" + nested(100) + "\\\\\""), 200u) << "in a text";
  EXPECT_EQ(answered("]]]}}}"), 422u);
  EXPECT_EQ(answered(""), 422u);
}

TEST(Admin, BoundsDiagnosticsAndCountsTheRest) {
  base::Diagnostics all;
  for (int i = 0; i < 100'000; ++i) {
    base::Diagnostic d;
    d.message = "line " + std::to_string(i) + " is wrong";
    d.severity = base::Diagnostic::Severity::warning;
    all.push_back(d);
  }
  all.back().severity = base::Diagnostic::Severity::error;
  const Json json = to_json(all);
  const auto response = json_response(200, json);
  EXPECT_LT(response.body.size(), base::bounds::admin_page_bytes_max * 3 / 2);
  ASSERT_GT(json.size(), 1000u);
  EXPECT_EQ(json.back().at("message"),
            std::to_string(all.size() - (json.size() - 1)) + " more are not shown here");
  EXPECT_EQ(json.back().at("severity"), "error") << "as one of them is";
  all.resize(1000);
  EXPECT_EQ(to_json(all).size(), 1000u);
}

TEST(Admin, BoundsAPageInBytesButAlwaysHoldsOneItem) {
  Items items;
  EXPECT_TRUE(items.add(std::string(2 * base::bounds::admin_page_bytes_max, 'x')));
  EXPECT_FALSE(items.is_full());
  EXPECT_FALSE(items.add("one more"));
  EXPECT_TRUE(items.is_full());
  EXPECT_FALSE(items.add("and one more"));
  EXPECT_EQ(items.take().size(), 1u);
}

}  // namespace
}  // namespace sluice::admin::admin_test
