// Connections of HTTP/2 without sockets: concurrent streams, bodies, resets, faults and a stop of
// the server.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "protocol/http/session.h"

namespace sluice::http::http2_session_test {
namespace {

using namespace session_world;
using wire::http2_peer::Headers;

TEST(Http2Connection, AnswersAsHttp1Does) {
  World world;
  Http2Client client(world);
  const HttpAnswer answer = client.ask("/v1/take", by_ip("a"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"allowed": true, "limit": 3, "remaining": 2, "retry_after": 0, "reset_after": 60, )"
            R"("rule": "by-ip", "mode": "enforce", "generation": 1})");
  const Headers expected = {{":status", "200"},
                            {"content-type", "application/json"},
                            {"content-length", std::to_string(answer.body.size())},
                            {"date", "Sun, 22 Nov 2026 07:55:23 GMT"},
                            {"cache-control", "no-store"},
                            {"ratelimit-policy", R"("by-ip";q=3;w=60)"},
                            {"ratelimit", R"("by-ip";r=2;t=60)"}};
  EXPECT_EQ(answer.fields, expected);
  EXPECT_EQ(client.ask("/v1/take", by_ip("a", R"(, "n": 3)")).status, 429);
  EXPECT_EQ(client.ask("/v1/take?status=200", by_ip("a", R"(, "n": 3)")).status, 200);
  EXPECT_EQ(client.ask("/v1/take?x", by_ip("a")).status, 400);
  EXPECT_EQ(client.ask("/v1/nothing", "").status, 404);
}

TEST(Http2Connection, BeginsWithItsPrefaceInPieces) {
  World world;
  Http2Client client(world, 1);
  EXPECT_EQ(client.ask("/v1/take", by_ip("a")).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

// A connection that begins like the preface, but does not continue like it, is HTTP/1.1.
TEST(Http2Connection, FallsBackToHttp1WithoutTheFullPreface) {
  World world;
  Connection connection(world);
  connection.send("PR");
  EXPECT_EQ(connection.take(), "");
  connection.send("OPFIND / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(statuses_of(connection.take()), std::vector{404});
  Connection idle(world);
  EXPECT_EQ(idle.ask(""), "");
  idle.end();
  EXPECT_TRUE(idle.is_closed());
  EXPECT_EQ(idle.take(), "");
}

TEST(Http2Connection, DecidesStreamsOfOnePieceInTheirOrder) {
  World world;
  Http2Client client(world);
  std::string bytes;
  std::vector<uint32_t> streams(5);
  for (uint32_t& stream : streams) bytes += client.request("/v1/take", by_ip("a"), stream);
  client.send(bytes);
  for (size_t i = 0; i < streams.size(); ++i)
    EXPECT_EQ(client.answer_of(streams[i]).status, i < 3 ? 200 : 429) << i;
}

TEST(Http2Connection, AnswersInAnyOrderIfTheStoreIsLate) {
  World world;
  Http2Client client(world);
  world.store.settles = [](size_t) { return 0; };
  const uint32_t one = client.begin("/v1/take", by_ip("a"));
  const uint32_t two = client.begin("/v1/take", by_ip("b"));
  EXPECT_EQ(client.ask("/v1/nothing", "").status, 404);
  ASSERT_EQ(world.store.asked(), 2u);
  world.store.settles = [](size_t all) { return all; };
  world.store.name(1);
  world.settle();
  EXPECT_EQ(client.answer_of(one).status, 0);
  EXPECT_EQ(client.answer_of(two).status, 200);
  world.store.name(0);
  world.settle();
  EXPECT_EQ(client.answer_of(one).status, 200);
  EXPECT_EQ(world.engine().held(), engine::Engine::Held());
}

TEST(Http2Connection, DropsTheAnswerToAStreamThatWasReset) {
  World world;
  Http2Client client(world);
  world.store.settles = [](size_t) { return 0; };
  const uint32_t one = client.begin("/v1/take", by_ip("a"));
  const uint32_t two = client.begin("/v1/take", by_ip("b"));
  client.reset(one);
  world.store.settles = [](size_t all) { return all; };
  while (world.store.asked() > 0) world.store.name(0);
  world.settle();
  EXPECT_EQ(client.answer_of(one).status, 0);
  EXPECT_EQ(client.answer_of(two).status, 200);
  EXPECT_EQ(client.ask("/v1/take", by_ip("b")).status, 200) << "its number is used again";
  EXPECT_FALSE(client.connection.is_closed());
}

TEST(Http2Connection, ALostConnectionLeavesNoState) {
  World world;
  {
    Http2Client client(world);
    world.store.settles = [](size_t) { return 0; };
    for (int i = 0; i < 5; ++i) client.begin("/v1/take", by_ip("a"));
  }
  EXPECT_EQ(world.store.asked(), 0u);
  EXPECT_EQ(world.engine().held(), engine::Engine::Held());
}

TEST(Http2Connection, TakesOneBodyInManyFrames) {
  World world;
  Http2Client client(world);
  const std::string body = by_ip("a");
  const Headers head = {{":method", "POST"},
                        {":scheme", "http"},
                        {":path", "/v1/take"},
                        {":authority", "localhost"},
                        {"content-type", "application/json"}};
  std::string bytes = client.peer.headers(1, head, false);
  for (const char c : body) bytes += wire::http2_peer::data(1, std::string(1, c), false);
  client.send(bytes);
  EXPECT_EQ(client.answer_of(1).status, 0);
  client.send(wire::http2_peer::data(1, "", true));
  EXPECT_EQ(client.answer_of(1).status, 200);
}

TEST(Http2Connection, RefusesABodyThatIsTooLong) {
  World world;
  Http2Client client(world);
  const Headers head = {{":method", "POST"},
                        {":scheme", "http"},
                        {":path", "/v1/take"},
                        {":authority", "localhost"},
                        {"content-type", "application/json"}};
  client.send(client.peer.headers(1, head, false));
  const std::string piece(16'384, ' ');
  for (size_t sent = 0; sent <= body_bytes_max; sent += piece.size())
    client.send(wire::http2_peer::data(1, piece, false));
  client.send(wire::http2_peer::data(1, by_ip("a")));
  const HttpAnswer answer = client.answer_of(1);
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.field("content-type"), "application/problem+json");
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

TEST(Http2Connection, UsesTheHostWithoutAnAuthority) {
  World world;
  Http2Client client(world);
  const auto status = [&](const Headers& host) {
    Headers head = {{":method", "GET"}, {":scheme", "http"}, {":path", "/v1/nosuch"}};
    head.insert(head.end(), host.begin(), host.end());
    static uint32_t stream = UINT32_MAX;
    stream += 2;
    client.send(client.peer.headers(stream, head));
    return client.answer_of(stream).status;
  };
  EXPECT_EQ(status({{"host", "localhost"}}), 404);
  EXPECT_EQ(status({{"host", "evil.com"}}), 421);
}

TEST(Http2Connection, AnswersHeadWithoutABody) {
  World world;
  Http2Client client(world);
  client.send(client.peer.headers(1, {{":method", "HEAD"},
                                      {":scheme", "http"},
                                      {":path", "/v1/health"},
                                      {":authority", "localhost"}}));
  const HttpAnswer answer = client.answer_of(1);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(answer.field("content-length"), "33");
  client.send(client.peer.headers(3, {{":method", "OPTIONS"},
                                      {":scheme", "http"},
                                      {":path", "/v1/take"},
                                      {":authority", "localhost"}}));
  EXPECT_EQ(client.answer_of(3).status, 204);
  EXPECT_EQ(client.answer_of(3).field("allow"), "POST, OPTIONS");
}

TEST(Http2Connection, EndsOnAProtocolError) {
  World world;
  Http2Client client(world);
  const uint32_t stream = client.begin("/v1/take", by_ip("a"));
  client.send(wire::http2_peer::window_update(0, 0));
  EXPECT_TRUE(client.connection.is_closed());
  EXPECT_NE(client.connection.fault(), "");
  EXPECT_EQ(client.answer_of(stream).status, 200);
  ASSERT_EQ(client.peer.goaways.size(), 1u);
  EXPECT_NE(client.peer.goaways[0].second, 0u);
}

// A batch exceeds its bound by less than the takes of one HTTP request, however many arrive at
// once.
TEST(Http2Connection, ReadsOneBatchAtATime) {
  World world;
  HttpSession session(world.peer("127.0.0.1:1"));
  constexpr size_t takes = 400;
  std::string body = R"({"takes": [)";
  for (size_t i = 0; i < takes; ++i) body += std::string(i > 0 ? "," : "") + by_ip("a");
  body += "]}";
  std::string bytes =
      wire::http2_peer::join({wire::http2_peer::hello(), wire::http2_peer::settings_ack()});
  wire::http2_peer::Peer peer;
  for (uint32_t i = 0; i < 6; ++i)
    bytes += peer.request(1 + 2 * i,
                          {{":method", "POST"},
                           {":scheme", "http"},
                           {":path", "/v1/batch"},
                           {":authority", "localhost"},
                           {"content-type", "application/json"}},
                          body);
  base::Buffer out;
  request::Requests requests;
  const request::Received received = session.receive(bytes, false, requests, out);
  EXPECT_FALSE(received.closing);
  EXPECT_GE(requests.size(), takes);
  EXPECT_LT(requests.size(), base::bounds::batch_requests_max + takes);
  EXPECT_TRUE(received.consumed < bytes.size() || !session.state().has_more)
      << "nothing asks for the rest";
}

}  // namespace
}  // namespace sluice::http::http2_session_test
