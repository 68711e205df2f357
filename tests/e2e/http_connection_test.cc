// Connections of the HTTP protocol with the real program: how requests may be cut, chunked and
// pipelined, when a connection ends, and input that is not HTTP.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/http_described.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::http_e2e {
namespace {

const Json a_tenant = about({{"tenant", "t"}});

std::string take_text(const std::string& more_headers = "", const std::string& version = "1.1") {
  const std::string body = a_tenant.dump();
  return "POST /v1/take HTTP/" + version +
         "\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more_headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

int64_t remaining_of(const HttpAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  return json_body(answer).value("remaining", int64_t{-1});
}

class HttpConnection : public testing::Test {
 protected:
  void expect_end(Http1& client) const { EXPECT_EQ(client.socket().read_to_end(), ""); }

  const Door door_;
};

TEST_F(HttpConnection, IsUsedAgain) {
  Http1 client(door_.port());
  for (int64_t left = 9; left > 0; --left) {
    const HttpAnswer answer = ask_on(client, post("/v1/take", a_tenant));
    EXPECT_EQ(remaining_of(answer), left);
    EXPECT_EQ(header_of(answer, "connection"), "(none)");
    EXPECT_TRUE(header_of(answer, "date").ends_with(" GMT"));
  }
}

TEST_F(HttpConnection, RequestsMayBePipelined) {
  Http1 client(door_.port());
  std::string all;
  for (int i = 0; i < 3; ++i) {
    all += take_text() + Http1::text_of(get("/v1/nosuch")) +
           Http1::text_of({.method = "HEAD", .target = "/v1/health"}) +
           Http1::text_of(post_text("/v1/take", "{"));
  }
  client.send(all);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(remaining_of(client.read()), 9 - i);
    EXPECT_EQ(client.read().status, 404);
    EXPECT_EQ(client.read(true).status, 200);
    EXPECT_EQ(client.read().status, 400);
  }
}

TEST_F(HttpConnection, ThousandsMayBePipelined) {
  Http1 client(door_.port());
  const std::string one = Http1::text_of(post("/v1/take", about({{"open", "x"}})));
  std::string all;
  for (int i = 0; i < 3000; ++i) all += one;
  client.send(all);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(client.read().status, 200) << i;
}

TEST_F(HttpConnection, ARequestMayComeByteByByte) {
  Http1 client(door_.port());
  for (const char byte : take_text()) client.send(std::string(1, byte));
  EXPECT_EQ(remaining_of(client.read()), 9);
}

TEST_F(HttpConnection, ABodyMayBeChunked) {
  Http1 client(door_.port());
  const std::string head =
      "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  const std::string body = a_tenant.dump();
  std::string chunks;
  for (const char byte : body) chunks += "1;a=b\r\n" + std::string(1, byte) + "\r\n";
  client.send(head + chunks + "0\r\n\r\n");
  EXPECT_EQ(remaining_of(client.read()), 9);
  const std::string two = std::string("10\r\n") + body.substr(0, 16) + "\r\n" + "A\r\n" +
                          body.substr(16) + "\r\n0\r\nTrailer: dropped\r\n\r\n";
  ASSERT_EQ(body.size(), 26u);
  client.send(head + two + take_text());
  EXPECT_EQ(remaining_of(client.read()), 8);
  EXPECT_EQ(remaining_of(client.read()), 7) << "the request after it";
}

TEST_F(HttpConnection, Sends100ContinueToAClientThatExpectsIt) {
  Http1 client(door_.port());
  const std::string text = take_text("Expect: 100-continue\r\n");
  const size_t cut = text.find("\r\n\r\n") + 4;
  client.send(text.substr(0, cut));
  EXPECT_EQ(client.read().status, 100);
  client.send(text.substr(cut));
  EXPECT_EQ(remaining_of(client.read()), 9);
  // The interim answer follows the answers to earlier requests.
  client.send(take_text() + text.substr(0, cut));
  EXPECT_EQ(remaining_of(client.read()), 8);
  EXPECT_EQ(client.read().status, 100);
  client.send(text.substr(cut));
  EXPECT_EQ(remaining_of(client.read()), 7);
}

TEST_F(HttpConnection, EndsAsTheRequestSays) {
  Http1 client(door_.port());
  client.send(take_text("Connection: close\r\n") + take_text());
  const HttpAnswer answer = client.read();
  EXPECT_EQ(remaining_of(answer), 9);
  EXPECT_EQ(header_of(answer, "connection"), "close");
  expect_end(client);

  Http1 old(door_.port());
  old.send(take_text("", "1.0"));
  EXPECT_EQ(remaining_of(old.read()), 8) << "the request after the first was not charged";
  expect_end(old);

  Http1 kept(door_.port());
  kept.send(take_text("Connection: keep-alive\r\n", "1.0"));
  const HttpAnswer again = kept.read();
  EXPECT_EQ(header_of(again, "connection"), "keep-alive");
  kept.send("GET /v1/health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(kept.read().status, 200) << "HTTP/1.0 needs no Host";
  expect_end(kept);
}

TEST_F(HttpConnection, AnswersAHalfClosedClient) {
  Http1 client(door_.port());
  client.send(take_text() + take_text());
  client.socket().half_close();
  EXPECT_EQ(remaining_of(client.read()), 9);
  EXPECT_EQ(remaining_of(client.read()), 8);
  expect_end(client);
}

// Requests that two servers might read differently, and input that is not HTTP.
TEST_F(HttpConnection, AMalformedRequestEndsIt) {
  const std::string host = "Host: localhost\r\n", get_line = "GET /v1/health HTTP/1.1\r\n",
                    post_line = "POST /v1/take HTTP/1.1\r\n";
  const std::pair<std::string, int> cases[] = {
      {get_line + "\r\n", 400},
      {get_line + host + host + "\r\n", 400},
      {get_line + "Host : localhost\r\n\r\n", 400},
      {get_line + host + " folded\r\n\r\n", 400},
      {"GET /v1/health HTTP/1.1\nHost: localhost\n\n", 400},
      {"GET  /v1/health HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /v1/health HTTP/2.0\r\n" + host + "\r\n", 505},
      {"GET /v1/he#alth HTTP/1.1\r\n" + host + "\r\n", 400},
      {"HIT method=GET path=/\n", 400},
      {post_line + host + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
      {post_line + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post_line + host + "Content-Length: -1\r\n\r\n", 400},
      {post_line + host + "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
      {post_line + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
      {post_line + host + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {post_line + host + "Expect: 200-ok\r\n\r\n", 417},
      {"GET /" + std::string(70'000, 'x') + " HTTP/1.1\r\n", 414},
      {get_line + host + "X: " + std::string(70'000, 'x') + "\r\n\r\n", 431},
  };
  for (const auto& [text, status] : cases) {
    SCOPED_TRACE(text.substr(0, 120));
    Http1 client(door_.port());
    client.send(take_text() + text);
    EXPECT_EQ(client.read().status, 200) << "the request before it";
    const HttpAnswer answer = client.read();
    EXPECT_EQ(answer.status, status) << answer.body;
    expect_described_response(described_response("Malformed"), answer, false);
    EXPECT_EQ(problem_of(answer), "malformed-request");
    EXPECT_EQ(header_of(answer, "connection"), "close");
    EXPECT_EQ(header_of(answer, "date").find("1970"), std::string::npos);
    expect_end(client);
    Http1 other(door_.port());
    ask_on(other, post("/v1/put", with(a_tenant, {{"all", true}})));
  }
}

TEST_F(HttpConnection, ManyStreamsOfOneConnection) {
  Http2 client(door_.port());
  std::vector<uint32_t> streams;
  for (int i = 0; i < 90; ++i)
    streams.push_back(client.send(i % 3 == 0   ? post("/v1/take", about({{"open", "x"}}))
                                  : i % 3 == 1 ? get("/v1/health")
                                               : post_text("/v1/take", "{")));
  for (size_t i = 0; i < streams.size(); ++i)
    EXPECT_EQ(client.read(streams[i]).status, i % 3 == 2 ? 400 : 200) << i;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client.ask(get("/v1/health")).status, 200) << i;
}

TEST_F(HttpConnection, ABodyOfTwoHalves) {
  Http2 client(door_.port());
  Asked asked = post_text("/v1/peek", a_tenant.dump());
  asked.body.resize(40'000, ' ');  // three frames
  EXPECT_EQ(ask_on(client, asked).status, 200);
}

TEST_F(HttpConnection, AThousandHalfRequestsDoNotAffectOthers) {
  std::vector<Http1> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(door_.port());
    clients.back().send(take_text().substr(0, 60));
  }
  Http1 other(door_.port());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(other.ask(get("/v1/health")).status, 200);
  clients[7].send(take_text().substr(60));
  EXPECT_EQ(remaining_of(clients[7].read()), 9);
}

TEST_F(HttpConnection, IsCounted) {
  Http1 client(door_.port());
  const auto count = [&](const std::string& outcome) {
    return sample(
        door_.admin(),
        "sluice_requests_total{protocol=\"http\",verb=\"take\",outcome=\"" + outcome + "\"}");
  };
  ask_on(client, post("/v1/take", with(a_tenant, {{"n", 10}})));
  ask_on(client, post("/v1/take", a_tenant));
  EXPECT_EQ(count("allowed"), "1");
  EXPECT_EQ(count("denied"), "1");
}

TEST(HttpIdle, ClosesAnIdleConnection) {
  const Door door("{ idle_timeout: 500ms }");
  const Json jar = about({{"jar", "j"}}, {{"n", 2}});
  Http1 used(door.port());
  EXPECT_EQ(ask_on(used, post("/v1/take", jar)).status, 200);
  Http1 waits(door.port());
  waits.send(post("/v1/wait", with(jar, {{"timeout", 2}})));
  Http1 mute(door.port());
  Http2 http2(door.port());
  EXPECT_EQ(mute.socket().read_to_end(), "");
  EXPECT_EQ(used.socket().read_to_end(), "");
  http2.socket().read_to_end();
  EXPECT_EQ(waits.read().status, 408) << "it waited for something";
  EXPECT_EQ(waits.socket().read_to_end(), "");
}

TEST(HttpTwins, TakesByTheQueryIfItIsSwitchedOn) {
  const Door door("{ get_takes: true }");
  for (const HttpVersion version : http_versions) {
    const std::string key = name_of(version);
    const auto asked = [&](const std::string& query) {
      return ask(version, door.port(), get("/v1/take?" + query));
    };
    EXPECT_EQ(remaining_of(asked("key=" + key + "&limit=3&window=1h&n=2")), 1);
    EXPECT_EQ(asked("key=" + key + "&limit=3&window=1h&n=2").status, 429);
    EXPECT_EQ(asked("key=" + key + "&limit=3&window=1h&n=2&status=200").status, 200);
    EXPECT_EQ(remaining_of(asked("entry=tenant=" + key)), 9);
    EXPECT_EQ(remaining_of(asked("entry=method=POST&entry=path=%2Flogin&entry=ip=" + key)), 4);
    for (const char* query : {"", "key=k", "entry=x", "entry=a=b&key=k&limit=1&window=1s", "m=1",
                              "key=k&key=l&limit=1&window=1s", "entry=a=%zz"})
      EXPECT_EQ(asked(query).status, 400) << query;
    EXPECT_EQ(ask(version, door.port(), get("/v1/peek?entry=tenant=t")).status, 405);
  }
}

TEST(HttpTwins, AThrottlecrabsClientIsAnswered) {
  const Door door("{ twins: [throttlecrab] }");
  const Json body{{"key", "k"}, {"max_burst", 3}, {"count_per_period", 10}, {"period", 60}};
  for (const HttpVersion version : http_versions) {
    const auto throttle = [&](const Json& asked) {
      const Asked one = post("/throttle", asked);
      return version == HttpVersion::http1 ? Http1(door.port()).ask(one)
                                           : Http2(door.port()).ask(one);
    };
    const HttpAnswer wrong = throttle({{"key", "k"}});
    EXPECT_EQ(wrong.status, 400);
    EXPECT_TRUE(json_body(wrong).contains("error")) << wrong.body;
    const HttpAnswer answer = throttle(with(body, {{"key", name_of(version)}, {"quantity", 2}}));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(json_body(answer).at("allowed"), true) << answer.body;
    EXPECT_EQ(json_body(answer).at("limit"), 3) << answer.body;
    EXPECT_EQ(json_body(answer).at("remaining"), 1) << answer.body;
    const HttpAnswer denied = throttle(with(body, {{"key", name_of(version)}, {"quantity", 2}}));
    EXPECT_EQ(denied.status, 200) << "also when it is denied";
    EXPECT_EQ(json_body(denied).at("allowed"), false) << denied.body;
  }
  EXPECT_EQ(Http1(door.port()).ask(get("/health")).status, 200);
}

TEST(HttpTwins, AThrottleHasTheCounterOfTheRedisProtocol) {
  const Folder folder;
  const std::string file = folder.write("sluice.yaml",
                                        "listen:\n"
                                        "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
                                        "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                                        "http: { twins: [throttlecrab] }\n");
  Process process({.arguments = {"serve", "--config", file, "--log-level", "warn"}});
  const uint16_t http = await_listening(process, "http"), resp = await_listening(process, "resp");
  RedisClient redis(resp);
  // The period is so long that no unit returns during the test.
  const Json body{{"key", "k"}, {"max_burst", 9}, {"count_per_period", 9}, {"period", 864'000}};
  for (int64_t left = 9; left > 0;) {
    const HttpAnswer answer = Http1(http).ask(post("/throttle", with(body, {{"quantity", 2}})));
    EXPECT_EQ(json_body(answer).at("allowed"), left >= 2) << answer.body;
    if (left >= 2) left -= 2;
    EXPECT_EQ(json_body(answer).at("remaining"), left) << answer.body;
    const RedisReply reply = redis({"THROTTLE", "k", "9", "9", "864000", "1"});
    ASSERT_EQ(reply.list.size(), 5u) << reply.text;
    EXPECT_EQ(reply.list[0].number, left >= 1);
    if (left >= 1) --left;
    EXPECT_EQ(reply.list[1].number, json_body(answer).at("limit"));
    EXPECT_EQ(reply.list[2].number, left);
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

}  // namespace
}  // namespace sluice::tests::http_e2e
