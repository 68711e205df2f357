// The guard against pages of other sites: which values of Host and Origin are accepted, and which
// cross-origin requests are answered.
#include "protocol/http/guard.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "protocol/http/http_text_test.h"

namespace sluice::http::guard_test {
namespace {

using namespace session_world;

TEST(HttpGuard, TakesAddressesLocalhostAndNamesThatAreConfigured) {
  const std::vector<std::string> hosts = {"limits.example.com", "limits"};
  for (const std::string host : {"",
                                 "localhost",
                                 "LocalHost",
                                 "localhost:8390",
                                 "127.0.0.1",
                                 "10.1.2.3:80",
                                 "192.168.0.1:",
                                 "[::1]",
                                 "[::1]:8390",
                                 "[2001:db8::1]:1",
                                 "[::ffff:10.0.0.1]",
                                 "limits.example.com",
                                 "LIMITS.example.COM:8390",
                                 "limits:0",
                                 "localhost.",
                                 "LOCALHOST.:8390",
                                 "app.localhost",
                                 "app.localhost.:1",
                                 "limits.",
                                 "limits.example.com.:80",
                                 "[0:0::1]:8390",
                                 "[FE80::1]"})
    EXPECT_TRUE(is_host_allowed(host, hosts)) << host;
}

// If another site points its name at this machine, requests of its pages still have that name as
// Host.
TEST(HttpGuard, RefusesOtherNames) {
  const std::vector<std::string> hosts = {"limits.example.com"};
  for (const std::string host : {"evil.com",
                                 "evil.com:8390",
                                 "localhost.evil.com",
                                 "127.0.0.1.evil.com",
                                 "127.0.0.1evil",
                                 "evil-127.0.0.1",
                                 "127.1",
                                 "0x7f.0.0.1",
                                 "2130706433",
                                 "1.2.3.4.5",
                                 "256.1.1.1",
                                 "localhost:8390:evil.com",
                                 "localhost:x",
                                 "localhost@evil.com",
                                 "localhost..",
                                 ".localhost",
                                 "notlocalhost",
                                 "limits.example.com..",
                                 ".",
                                 ".:80",
                                 ":8390",
                                 ":",
                                 "::1",
                                 "[::1",
                                 "[evil]",
                                 "[::1]evil.com",
                                 "[::1].evil.com",
                                 "[127.0.0.1]x",
                                 "example.com",
                                 "x.limits.example.com",
                                 "limits.example.com.evil.com",
                                 " localhost"})
    EXPECT_FALSE(is_host_allowed(host, hosts)) << host;
}

TEST(HttpGuard, RemembersNoHostThatItRefused) {
  AllowedHost host;
  const std::vector<std::string> hosts = {std::string(100, 'h')};
  EXPECT_FALSE(host.allows("evil.com", hosts));
  EXPECT_FALSE(host.allows("evil.com", hosts));
  EXPECT_TRUE(host.allows("localhost", hosts));
  EXPECT_FALSE(host.allows("evil.comm", hosts));
  EXPECT_TRUE(host.allows("localhost", hosts));
  EXPECT_TRUE(host.allows(hosts[0], hosts));
  EXPECT_TRUE(host.allows("", hosts));
  EXPECT_FALSE(host.allows("localhosT..", hosts));
}

RequestFields from(const std::string& origin, const std::string& site) {
  RequestFields fields;
  fields.has_origin = origin != "-";
  if (fields.has_origin) fields.origin = origin;
  fields.sec_fetch_site = site;
  return fields;
}

TEST(HttpGuard, AcceptsRequestsWithoutAnOriginOfTheSameAndOfListedOnes) {
  const std::vector<std::string> origins = {"https://app.example.com", "http://localhost:3000"};
  const std::string none = "-";
  for (const auto& [origin, site, fits] :
       {std::tuple<std::string, std::string, bool>{none, "", true},
        {none, "none", true},
        {none, "same-origin", true},
        {none, "same-site", false},
        {none, "cross-site", false},
        {none, "nonsense", false},
        {"https://app.example.com", "cross-site", true},
        {"HTTPS://APP.example.com", "", true},
        {"http://localhost:3000", "same-site", true},
        {"http://localhost:3001", "same-site", false},
        {"http://app.example.com", "", false},
        {"https://app.example.com.evil.com", "", false},
        {"https://evil.com", "same-origin", false},
        {"null", "", false},
        {"", "", false}}) {
    // The fields are views of the loop's texts.
    const RequestFields fields = from(origin, site);
    EXPECT_EQ(is_origin_allowed(fields, origins), fits) << origin << " " << site;
  }
}

// A peek with that Host.
std::string named(const std::string& host) {
  std::string request = post("/v1/peek", by_ip("a"));
  return request.replace(request.find("localhost"), 9, host);
}

TEST(HttpGuard, Answers421And403) {
  World world({.http = "{ hosts: [Limits.Example.com], origins: ['https://App.example.com'] }"});
  const auto status = [&](const std::string& host, const std::string& more) {
    std::string request = post("/v1/take", by_ip("a"), more);
    request.replace(request.find("localhost"), 9, host);
    return ask(world, request).status;
  };
  EXPECT_EQ(status("localhost:1", ""), 200);
  EXPECT_EQ(status("limits.example.com:8390", ""), 200);
  EXPECT_EQ(status("evil.com", ""), 421);
  EXPECT_EQ(status("evil.com", "Origin: https://app.example.com\r\n"), 421);
  EXPECT_EQ(status("localhost", "Origin: https://app.example.com\r\n"), 200);
  EXPECT_EQ(status("localhost", "Origin: http://evil.com\r\n"), 403);
  EXPECT_EQ(status("localhost", "Sec-Fetch-Site: cross-site\r\n"), 403);
  EXPECT_EQ(left(world, by_ip("a")), 0) << "three takes, and no other";
  Http2Client client(world);
  EXPECT_EQ(client.ask("/v1/peek", by_ip("a"), {{"origin", "http://evil.com"}}).status, 403);
}

// A listener that other machines reach: what a web page could send, they could as well.
TEST(HttpGuard, TakesAnyNameWhereOtherMachinesReachTheListener) {
  World world;
  world.listener.loopback = false;
  for (const char* host : {"sluice:8390", "SLUICE", "limits.example.com.", "evil.com"}) {
    EXPECT_EQ(ask(world, named(host)).status, 200) << host;
    Http2Client client(world);
    client.authority = host;
    EXPECT_EQ(client.ask("/v1/peek", by_ip("a")).status, 200) << host;
  }
  std::string page = named("sluice");
  page.insert(page.find("\r\n") + 2, "Origin: http://evil.com\r\n");
  EXPECT_EQ(ask(world, page).status, 403) << "a page is refused everywhere";
  EXPECT_TRUE(world.log.warned.empty());
}

// Only who shows a token can take anything then, and a web page cannot.
TEST(HttpGuard, TakesAnyNameOfAClientWithAToken) {
  World world({.users = std::make_shared<const access::Users>(std::vector<access::User>{
                   {"app", {access::Right::look}, access::digest_of("swordfish")}})});
  const auto status = [&](const std::string& more) {
    std::string request = named("sluice:8390");
    request.insert(request.find("\r\n") + 2, more);
    Connection connection(world);
    connection.send(request);
    std::string text = connection.take();
    return take_answer(text).status;
  };
  EXPECT_EQ(status("Authorization: Bearer swordfish\r\n"), 200);
  EXPECT_EQ(status("Authorization: Bearer wrong\r\n"), 401);
  EXPECT_EQ(status(""), 401);
}

TEST(HttpGuard, AnswersHealthByAnyName) {
  World world({.http = "{ twins: [throttlecrab] }"});
  for (const char* path : {"/v1/health", "/health"}) {
    std::string request = get(path);
    request.replace(request.find("localhost"), 9, "sluice:8390");
    EXPECT_EQ(ask(world, request).status, 200) << path;
  }
  EXPECT_TRUE(world.log.warned.empty());
}

// The log and the answer name what must be written, and metrics count it.
TEST(HttpGuard, SaysHowANameIsAllowed) {
  World world;
  const HttpAnswer answer = ask(world, named("Limits.Example.COM.:8390"));
  EXPECT_EQ(answer.status, 421);
  const std::string remedy =
      "write `http: { hosts: [limits.example.com] }` in its sluice.yaml, or give it --http-hosts "
      "limits.example.com";
  EXPECT_TRUE(answer.tells(remedy)) << answer.body;
  ASSERT_EQ(world.log.warned.size(), 1u);
  EXPECT_NE(world.log.warned[0].find(remedy), std::string::npos) << world.log.warned[0];
  EXPECT_EQ(world.listener.codes, std::vector<std::string>{"host"});
  EXPECT_EQ(world.listener.examples, std::vector<std::string>{""});
}

TEST(HttpGuard, ReportsRequestsThatItRefuses) {
  World world;
  const auto report = [&](const std::string& request) {
    world.listener.codes.clear();
    world.listener.examples.clear();
    ask(world, request);
    return world.listener.codes.empty()
               ? ""
               : world.listener.codes[0] + "|" + world.listener.examples[0];
  };
  EXPECT_EQ(report(post("/v1/take", R"({"entries": {"ip": "a"}, "quanity": 2})")),
            "malformed|/v1/take: unknown member `quanity`; known are `entries`, `key`, `limits`, "
            "`takes`, `n`, `mode`, `detail` (at `/quanity`)");
  EXPECT_EQ(report(get("/v1/tak")),
            "malformed|/v1/tak: there is nothing at this path; see /v1/openapi.json");
  EXPECT_EQ(report(get("/v1/take")), "malformed|/v1/take: this path takes POST, OPTIONS");
  EXPECT_EQ(report(post("/v1/take", by_ip("a"), "Origin: http://evil.com\r\n")).substr(0, 10),
            "forbidden|");
  EXPECT_EQ(report(post("/v1/take", by_ip("a"))), "") << "what is decided is not reported";
  EXPECT_EQ(report(post("/v1/take", R"({"entries": {"no": "rule"}})")), "")
      << "the engine logs what no rule matches";
}

// A preflight has no body and takes nothing. A page that is not allowed gets no fields for
// cross-origin requests.
TEST(HttpGuard, AllowsCrossOriginRequestsOnlyAsConfigured) {
  World world;
  Connection connection(world);
  const HttpAnswer refused =
      ask(connection,
          get("/v1/take", "Origin: http://evil.com\r\nAccess-Control-Request-Method: POST\r\n",
              "OPTIONS"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_FALSE(refused.has("access-control-allow-origin"));
}

}  // namespace
}  // namespace sluice::http::guard_test
