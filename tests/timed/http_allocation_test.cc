// From the bytes of an HTTP connection to its answers, through rules and store, without a socket.
// After warming up, neither takes nor a proxy's questions allocate.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "access/users.h"
#include "protocol/http/http_text_test.h"
#include "protocol/http/session_world_test.h"
#include "tests/timed/allocations.h"
#include "wire/http1_reader.h"
#include "wire/http2_peer_test.h"

namespace sluice::tests {
namespace {

namespace http = http::session_world;

const http::Setup setup = {
    .rules =
        "- { match: { path: '/page*' }, actor: [path, header.x-api-key], name: pages, limit: { "
        "quota: 500, window: 1m, algorithm: sliding_window } }\n"
        "- { match: { tenant: '*' }, actor: tenant, name: api-per-tenant, limits: [{ quota: "
        "100, window: 1s, burst: 200 }, { quota: 1000, window: 1d, algorithm: aligned_window "
        "}], then: continue }\n"
        "- { match: { user: '*' }, actor: user, name: by-user, limit: { quota: 1000, window: "
        "1m, algorithm: fixed_window } }\n",
    .http =
        "{ auth: { profiles: { web: { proxy: nginx, deny: 403, headers: [x-api-key], entries: { "
        "tier: gold } } } } }"};

// Serves input as a connection does, and allocates nothing itself, unlike the tools of other tests.
class HttpLoop {
 public:
  explicit HttpLoop(http::World& world)
      : world_(world), session_(world.peer("127.0.0.1:41000")), protocol_(http::self()) {}

  // Returns the number of bytes of the answers, 0 if something failed. `bytes` arrive in one piece.
  size_t serve(std::string_view bytes) {
    out_.clear();
    while (!bytes.empty()) {
      engine::Batch& batch = world_.engine().next_batch();
      const request::Received received = session_.receive(bytes, false, batch.requests, out_);
      if (received.closing || received.consumed == 0) return 0;
      bytes.remove_prefix(received.consumed);
      if (batch.requests.size() > 0 &&
          world_.engine().serve(batch, protocol_, session_, out_) != engine::Served::all)
        return 0;
    }
    return out_.size();
  }
  std::string_view answers() const { return out_.view(); }

 private:
  http::World& world_;
  sluice::http::HttpSession session_;
  const protocol::Protocol protocol_;
  base::Buffer out_;
};

// Serves each text as one batch of one connection, again and again. The answers to the last one
// must contain `status`.
void expect_no_allocation(const std::vector<std::string>& batches, std::string_view status,
                          const http::Setup& its = setup) {
  http::World world(its);
  HttpLoop loop(world);
  // Creates the counters and uses up the quotas, so that buffers grow to the longest answers, which
  // are refusals.
  for (int round = 0; round < 1'200; ++round)
    for (const std::string& batch : batches) ASSERT_GT(loop.serve(batch), 0u);
  bool ok = true;
  const Allocations allocations;
  for (int round = 0; round < 1'000; ++round)
    for (const std::string& batch : batches) ok &= loop.serve(batch) > 0;
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_TRUE(ok);
  EXPECT_NE(loop.answers().find(status), std::string_view::npos) << loop.answers();
}

const std::string by_policy =
    http::post("/v1/take", R"({"entries": {"tenant": "acme", "user": "u1"}, "n": 1})",
               "User-Agent: curl/7.88.1\r\nAccept: */*\r\n");

TEST(HttpAllocation, TakesByPolicyAllocateNothing) {
  expect_no_allocation({by_policy}, "HTTP/1.1 429");
}

TEST(HttpAllocation, ChargesAllocateNothing) {
  expect_no_allocation(
      {http::post("/v1/charge", R"({"entries": {"tenant": "acme", "user": "u1"}, "n": 25})"),
       http::post("/v1/charge",
                  R"({"key": "user:17", "limits": [{"quota": 9, "window": "1m"}], "n": 3})")},
      "HTTP/1.1 200");
}

TEST(HttpAllocation, QuestionsAsThrottlecrabTakesThemAllocateNothing) {
  expect_no_allocation(
      {http::post("/throttle",
                  R"({"key": "a-name-that-no-string-holds-without-memory", "max_burst": 3, )"
                  R"("count_per_period": 1, "period": 60, "quantity": 1})")},
      "\"allowed\": false", {.http = "{ twins: [throttlecrab] }"});
}

TEST(HttpAllocation, TakesOfAUserAllocateNothing) {
  const std::string token = access::make_token();
  const std::string name = "the-team-of-the-shop";  // too long for a string without an allocation
  http::Setup with_users = setup;
  with_users.users = std::make_shared<const access::Users>(std::vector<access::User>{
      {name, {access::Right::take, access::Right::look}, access::digest_of(token)}});
  const auto take = [](const std::string& authorization) {
    return http::post("/v1/take", R"({"entries": {"tenant": "acme", "user": "u1"}, "n": 1})",
                      authorization);
  };
  expect_no_allocation({take("Authorization: Bearer " + token + "\r\n")}, "HTTP/1.1 429",
                       with_users);
  expect_no_allocation({take("authorization: bearer " + token + "\r\n")}, "HTTP/1.1 429",
                       with_users);
}

TEST(HttpAllocation, TakesOfAUserWithALimitedRightAllocateNothing) {
  const std::string token = access::make_token();
  http::Setup with_users = setup;
  access::User user{"shop", {access::Right::take}, access::digest_of(token)};
  user.reach[0] = access::Reach({"other:*", "api-per-tenant:acme", "by-user:u*"});
  with_users.users = std::make_shared<const access::Users>(std::vector<access::User>{user});
  const std::string more = "Authorization: Bearer " + token + "\r\n";
  expect_no_allocation(
      {http::post("/v1/take", R"({"entries": {"tenant": "acme", "user": "u1"}, "n": 1})", more),
       http::post("/v1/batch",
                  R"({"takes": [{"entries": {"user": "u1"}}, {"entries": {"user": "u2"}}]})",
                  more)},
      "HTTP/1.1 200", with_users);
}

TEST(HttpAllocation, TakesThatArePipelinedAllocateNothing) {
  std::string batch;
  for (int i = 0; i < 16; ++i)
    batch += http::post("/v1/take", R"({"entries": {"user": "10.0.0.)" + std::to_string(i) + "\"}}",
                        i % 2 == 0 ? "Accept: application/json\r\n" : "");
  expect_no_allocation({batch, by_policy}, "HTTP/1.1 429");
}

TEST(HttpAllocation, TakesOfSeveralAndPeeksAllocateNothing) {
  expect_no_allocation(
      {http::post("/v1/take",
                  R"({"takes": [{"entries": {"user": "a"}}, {"entries": {"user": "b"}}]})"),
       http::post("/v1/peek", R"({"entries": {"user": "a"}, "detail": true})"),
       http::post("/v1/put", R"({"entries": {"user": "c"}, "n": 2})"), http::get("/v1/health")},
      "HTTP/1.1 200");
}

std::string question(std::string_view uri, std::string_view more = {}) {
  return "GET /auth/web HTTP/1.1\r\nHost: 127.0.0.1:8390\r\nX-Original-URI: " + std::string(uri) +
         "\r\nX-Original-Method: GET\r\nX-Original-Host: www.example.com\r\nX-Real-IP: "
         "10.0.0.1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: "
         "text/html,*/*;q=0.8\r\nX-API-Key: k1\r\n" +
         std::string(more) + "\r\n";
}

TEST(HttpAllocation, RequestsOfNginxAllocateNothing) {
  expect_no_allocation({question("/page?x=1"), question("/other")}, "HTTP/1.1 200");
  expect_no_allocation({question("/other"), question("/page?x=1")}, "HTTP/1.1 403");
  expect_no_allocation({question("/page") + question("/page") + question("/page")}, "403");
}

// More fields than a reader has room for (wire::Http1Reader::fields_kept): they are in the worker's
// spare list.
TEST(HttpAllocation, RequestsWithManyFieldsAllocateNothing) {
  const std::string more =
      "Accept-Language: en\r\nCookie: session=0123456789abcdef\r\nReferer: https://x.example/\r\n";
  expect_no_allocation({question("/page?x=1", more)}, "HTTP/1.1 403");
  expect_no_allocation(
      {question("/page", more) + question("/page", more) + question("/page", more)},
      "HTTP/1.1 403");
}

TEST(HttpAllocation, TakesWithInlineLimitsAndBatchesAllocateNothing) {
  expect_no_allocation(
      {http::post("/v1/take",
                  R"({"key": "user:17", "limits": [{"quota": 100, "window": "1m"}], "n": 1})"),
       http::post("/v1/peek", R"({"key": "user:17", "limits": [{"quota": 100, "window": "1m"}]})"),
       http::post("/v1/put",
                  R"({"key": "user:17", "limits": [{"quota": 100, "window": "1m"}], "n": 1})"),
       http::post("/v1/batch",
                  R"({"takes": [{"entries": {"user": "a"}}, {"entries": {"user": "b"}}]})")},
      "HTTP/1.1 200");
}

// The list of fields is made for the first one.
TEST(HttpAllocation, AReaderOfFewFieldsAllocatesOnlyForItsFirstRequest) {
  wire::Http1Reader reader;
  const std::string in =
      "POST / HTTP/1.1\r\nHost: x\r\nA: b\r\nC: d\r\nE: f\r\nContent-Length: 2\r\n\r\nab";
  using Found = wire::Http1Reader::Found;
  ASSERT_EQ(reader.next(in).found, Found::request);
  reader.next({});
  bool ok = true;
  const Allocations allocations;
  for (int i = 0; i < 100; ++i) {
    ok &= reader.next(in).found == Found::request;
    reader.next({});
  }
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_TRUE(ok);
}

TEST(HttpAllocation, TakesOverHttp2AllocateNothing) {
  http::World world(setup);
  HttpLoop loop(world);
  wire::http2_peer::Peer peer;
  ASSERT_GT(loop.serve(wire::http2_peer::join(
                {wire::http2_peer::hello(), wire::http2_peer::settings_ack()})),
            0u);
  constexpr uint32_t streams = 16;
  const std::string body = R"({"entries": {"tenant": "acme", "user": "u1"}})";
  std::vector<std::string> rounds;
  for (uint32_t round = 0; round < 400; ++round) {
    std::string& bytes = rounds.emplace_back();
    for (uint32_t i = 0; i < streams; ++i)
      bytes += peer.request(1 + 2 * (round * streams + i),
                            {{":method", "POST"},
                             {":scheme", "http"},
                             {":path", "/v1/take"},
                             {":authority", "localhost:8390"},
                             {"content-type", "application/json"}},
                            body);
    bytes += wire::http2_peer::window_update(0, 16 * 512);
  }
  bool ok = true;
  for (size_t i = 0; i < 200; ++i) ok &= loop.serve(rounds[i]) > 0;
  const Allocations allocations;
  for (size_t i = 200; i < rounds.size(); ++i) ok &= loop.serve(rounds[i]) > 0;
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace sluice::tests
