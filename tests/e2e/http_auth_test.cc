// Forward-auth of the HTTP protocol, with the real program and a client that acts as the proxy.
// Answers are checked against docs/openapi-http.json. tests/clients/http tests it with real
// proxies.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/e2e/http_described.h"

namespace sluice::tests::http_e2e {
namespace {

constexpr const char* auth_rules =
    "rules:\n"
    "  - { name: per-client, match: { ip: \"*\", path: \"/page*\" }, actor: ip, limit: { quota: 2, "
    "window: 1h, algorithm: fixed_window } }\n"
    "  - { name: gold, match: { tier: gold, path: \"/page*\" }, unlimited: true }\n"
    "  - { name: never, match: { path: /never }, deny: true }\n";

constexpr const char* auth_settings =
    "{ auth: { profiles: { web: { proxy: nginx }, login: { proxy: nginx, deny: 401 }, edge: { "
    "proxy: caddy, ok: 204 }, busy: { proxy: traefik, deny: 503 }, default: { proxy: haproxy }, "
    "closed: { proxy: nginx, secret: sesame } } } }";

Asked of_nginx(const std::string& profile, const std::string& uri, const std::string& ip,
               HeaderLines more = {}) {
  more.insert(more.end(),
              {{"X-Original-URI", uri}, {"X-Original-Method", "GET"}, {"X-Real-IP", ip}});
  return get("/auth" + profile, std::move(more));
}
Asked of_caddy(const std::string& profile, const std::string& uri, const std::string& ip) {
  return get("/auth/" + profile, {{"X-Forwarded-Uri", uri},
                                  {"X-Forwarded-Method", "POST"},
                                  {"X-Forwarded-For", ip},
                                  {"X-Forwarded-Proto", "https"},
                                  {"X-Forwarded-Host", "shop.example"}});
}

class HttpAuth : public testing::Test {
 protected:
  // Takes all units of a client.
  void exhaust(HttpVersion version, const std::string& ip) const {
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(ask(version, door_.port(), of_nginx("/web", "/page", ip)).status, 200);
  }

  const Door door_{auth_settings, auth_rules};
};

TEST_F(HttpAuth, AnAllowedRequestHasNoBody) {
  for (const HttpVersion version : http_versions) {
    const std::string ip = version == HttpVersion::http1 ? "192.0.2.1" : "192.0.2.2";
    const HttpAnswer answer = ask(version, door_.port(), of_nginx("/web", "/page?x=1", ip));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(header_of(answer, "x-sluice-remaining"), "1");
    EXPECT_EQ(header_of(answer, "x-sluice-rule"), "per-client");
    EXPECT_EQ(header_of(answer, "ratelimit-policy"), "\"per-client\";q=2;w=3600");
    EXPECT_EQ(ask(version, door_.port(), of_caddy("edge", "/page", ip)).status, 204);
    // The client's two units are used up, whatever the profile.
    EXPECT_EQ(ask(version, door_.port(), of_nginx("", "/page", ip)).status, 429);
  }
}

TEST_F(HttpAuth, ADenialHasTheProfilesStatus) {
  for (const HttpVersion version : http_versions) {
    const std::string ip = version == HttpVersion::http1 ? "192.0.2.1" : "192.0.2.2";
    exhaust(version, ip);
    const std::pair<Asked, int> cases[] = {{of_nginx("/web", "/page", ip), 403},
                                           {of_nginx("/login", "/page", ip), 401},
                                           {of_caddy("edge", "/page", ip), 429},
                                           {of_caddy("busy", "/page", ip), 503},
                                           {of_nginx("", "/page", ip), 429}};
    for (const auto& [asked, status] : cases) {
      const HttpAnswer answer = ask(version, door_.port(), asked);
      EXPECT_EQ(answer.status, status);
      const Json told = json_body(answer);
      EXPECT_EQ(told.at("status"), 429) << "whatever `deny` says";
      EXPECT_EQ(problem_of(answer), "quota-exceeded");
      EXPECT_EQ(told.at("allowed"), false);
      const std::string retry_after = header_of(answer, "retry-after");
      EXPECT_TRUE(is_digits(retry_after) && std::stoi(retry_after) >= 3000) << retry_after;
      EXPECT_EQ(header_of(answer, "www-authenticate"), status == 401 ? "RateLimit" : "(none)");
      Asked head = asked;
      head.method = "HEAD";
      EXPECT_EQ(ask(version, door_.port(), head).status, status);
      Asked page = asked;
      page.headers.emplace_back("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
      const HttpAnswer text = ask(version, door_.port(), page);
      EXPECT_EQ(text.body, "rate limit exceeded\n");
      EXPECT_TRUE(header_of(text, "content-type").starts_with("text/plain"));
    }
  }
}

TEST_F(HttpAuth, AllowsARequestWithoutARule) {
  for (const HttpVersion version : http_versions)
    EXPECT_EQ(ask(version, door_.port(), of_nginx("/web", "/other", "192.0.2.9")).status, 200);
  const Door strict("{ unmatched: deny, auth: { profiles: { web: { proxy: nginx } } } }",
                    auth_rules);
  for (const HttpVersion version : http_versions)
    EXPECT_EQ(ask(version, strict.port(), of_nginx("/web", "/other", "192.0.2.9")).status, 403);
}

TEST_F(HttpAuth, AcceptsAnyMethodAndIgnoresHostOriginAndQuery) {
  for (const HttpVersion version : http_versions) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"}) {
      Asked asked = of_nginx("/web?n=0&deny=200", "/other", "192.0.2.9",
                             {{"Origin", "https://evil.example"},
                              {"Authorization", "Basic bm9ib2R5OngK"},
                              {"Content-Type", "text/plain"}});
      asked.method = method;
      asked.host = "shop.example";
      EXPECT_EQ(ask(version, door_.port(), asked).status, 200) << method;
    }
  }
}

TEST_F(HttpAuth, RejectsARequestThatIsNotTheProxys) {
  for (const HttpVersion version : http_versions) {
    const HttpAnswer none = ask(version, door_.port(), of_nginx("/nosuch", "/page", "192.0.2.9"));
    EXPECT_EQ(none.status, 404);
    EXPECT_EQ(problem_of(none), "no-such-profile");
    const HttpAnswer bare = ask(version, door_.port(), get("/auth/web"));
    EXPECT_EQ(bare.status, 400);
    EXPECT_EQ(problem_of(bare), "bad-request");
    EXPECT_EQ(ask(version, door_.port(), of_caddy("web", "/page", "192.0.2.9")).status, 400);
    const HttpAnswer open = ask(version, door_.port(), of_nginx("/closed", "/page", "192.0.2.8"));
    EXPECT_EQ(open.status, 403);
    EXPECT_EQ(problem_of(open), "forbidden");
    const Asked secret =
        of_nginx("/closed", "/other", "192.0.2.8", {{"X-Sluice-Secret", "sesame"}});
    EXPECT_EQ(ask(version, door_.port(), secret).status, 200);
  }
  EXPECT_TRUE(door_.process().says("/auth/nosuch"));
}

TEST_F(HttpAuth, NeverWaitsForABody) {
  Http1 client(door_.port());
  Asked asked = of_nginx("/web", "/other", "192.0.2.9", {{"Content-Length", "10000000"}});
  client.send(asked);
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(header_of(answer, "connection"), "close");
  EXPECT_EQ(client.socket().read_to_end(), "");
}

}  // namespace
}  // namespace sluice::tests::http_e2e
