// Harm that clients of the HTTP protocol might do to the real server and to each other: many idle
// connections, slow clients, clients that never read, requests hidden in others, and ever new
// limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <list>
#include <string>
#include <vector>

#include "tests/e2e/http_peers.h"
#include "tests/support/patience.h"
#include "tests/support/process_stats.h"

namespace sluice::tests {
namespace {

using http_e2e::about;
using http_e2e::about_key;
using http_e2e::Door;
using http_e2e::Http1;
using http_e2e::Http2;
using http_e2e::Json;
using http_e2e::post;

constexpr size_t connections_max = 10'000;
// Files that this process opens beside the connections.
constexpr size_t other_files = 200;

http_e2e::Asked health() {
  return http_e2e::get("/v1/health");
}

// The server's memory, in bytes, for each of many connections that are idle after one request.
// `count`: the most connections; then the number that was measured.
template <class Client>
double bytes_of_idle(size_t& count) {
  const Door door;
  std::list<Client> clients;  // a list, in which clients do not move
  // The first connections also allocate what all share.
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(door.port());
    EXPECT_EQ(clients.back().ask(health()).status, 200);
  }
  // What the server allocates once, whenever that is, belongs to no connection.
  const size_t first = clients.size(), half = (count - first) / 2;
  double each = 1e9;
  for (int halves = 0; halves < 2; ++halves) {
    const int64_t before = resident_bytes(door.process().pid());
    for (size_t i = 0; i < half && !testing::Test::HasFailure(); ++i) {
      clients.emplace_back(door.port());
      EXPECT_EQ(clients.back().ask(health()).status, 200);
    }
    const int64_t grown = resident_bytes(door.process().pid()) - before;
    each = std::min(each, static_cast<double>(grown) / static_cast<double>(half));
  }
  count = clients.size() - first;
  EXPECT_EQ(clients.front().ask(health()).status, 200) << "the first one is served still";
  return each;
}

template <class Client>
void expect_idle_bytes(const char* version, double most) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's memory is not the program's";
  size_t count = allow_open_files(connections_max + other_files) ? connections_max : 500;
  const double bytes = bytes_of_idle<Client>(count);
  std::printf("%s: %.0f bytes for each of %zu idle connections\n", version, bytes, count);
  EXPECT_LE(bytes, most);
}

TEST(HttpHarm, TenThousandIdleConnectionsTakeFourKibibytesEach) {
  expect_idle_bytes<Http1>("HTTP/1.1", 4096);
}

TEST(HttpHarm, TenThousandIdleConnectionsOfHttp2TakeThirtyTwoKibibytesEach) {
  expect_idle_bytes<Http2>("HTTP/2", 32 * 1024);
}

// Requests that arrive byte by byte, from many clients at once.
TEST(HttpHarm, SlowClientsDoNotAffectOthers) {
  const Door door;
  const std::string text = Http1::text_of(post("/v1/take", about({{"tenant", "slow"}})));
  std::vector<Http1> slow;
  for (int i = 0; i < 100; ++i) slow.emplace_back(door.port());
  Http1 other(door.port());
  for (const char c : text) {
    for (Http1& client : slow) client.send({&c, 1});
    ASSERT_EQ(other.ask(health()).status, 200);
  }
  size_t allowed = 0;
  for (Http1& client : slow) allowed += client.read().status == 200 ? 1u : 0u;
  EXPECT_EQ(allowed, 10u) << "as many as the rule has";
}

// What a head announces takes no room from those whose requests arrive in two pieces.
TEST(HttpHarm, AnnouncedBodiesDriveNobodyOut) {
  const Door door;
  std::vector<Http1> announcers;
  for (int i = 0; i < 200; ++i) {
    announcers.emplace_back(door.port());
    announcers.back().send(
        "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 1048576\r\n\r\n{");
  }
  const std::string text = Http1::text_of(post("/v1/take", about({{"tenant", "pieces"}})));
  for (int i = 0; i < 10; ++i) {
    Http1 other(door.port());
    other.send(text.substr(0, text.size() - 5));
    announcers.emplace_back(door.port());
    announcers.back().send(
        "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 1048576\r\n\r\n{");
    EXPECT_EQ(Http1(door.port()).ask(health()).status, 200) << "the first piece was read";
    other.send(text.substr(text.size() - 5));
    EXPECT_EQ(other.read().status, 200) << i;
  }
}

// At some point the server does not read any more from a client that sends and never reads.
TEST(HttpHarm, AClientThatNeverReadsDoesNotAffectOthers) {
  const Door door;
  std::string many;
  for (size_t i = 0; i < 200; ++i) many += Http1::text_of(http_e2e::get("/v1/openapi.json"));
  Http1 deaf(door.port()), other(door.port());
  const int64_t before = resident_bytes(door.process().pid());
  for (size_t sent = 1, rounds = 0; sent > 0 && rounds < 1000; ++rounds)
    sent = deaf.socket().send_some(many);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(other.ask(health()).status, 200);
  if (!sanitized) {
    EXPECT_LT(resident_bytes(door.process().pid()) - before, 64 << 20);
  }
}

TEST(HttpHarm, AnHttp2ClientThatNeverReadsDoesNotAffectOthers) {
  const Door door;
  Http2 deaf(door.port());
  Http1 other(door.port());
  const int64_t before = resident_bytes(door.process().pid());
  for (int i = 0; i < 900; ++i) deaf.send(http_e2e::get("/v1/openapi.json"));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(other.ask(health()).status, 200);
  if (!sanitized) {
    EXPECT_LT(resident_bytes(door.process().pid()) - before, 64 << 20);
  }
}

// After a request that two parsers might read differently, nothing is read as a request.
TEST(HttpHarm, NoRequestHidesInAnother) {
  const Door door;
  const std::string hidden = Http1::text_of(post("/v1/take", about({{"tenant", "hidden"}})));
  const std::string head =
      "POST /v1/take HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/json\r\n";
  const std::string bodies[] = {
      head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      head + "Content-Length: 0\r\nContent-Length: 2\r\n\r\n{}" + hidden,
      head + "Content-Length: +0\r\n\r\n" + hidden,
      head + "Content-Length : 0\r\n\r\n" + hidden,
      head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
      head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
      head +
          "Transfer-Encoding:\x0b"
          "chunked\r\n\r\n0\r\n\r\n" +
          hidden,
      head + "X: y\r\n Content-Length: 0\r\n\r\n" + hidden,
      head + "Content-Length: 0\n\r\n" + hidden,
      head + "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + hidden,
      head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n" + hidden,
      "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n" + hidden,
      "GET /v1/health HTTP/1.1\nHost: localhost\n\n" + hidden,
  };
  for (const std::string& text : bodies) {
    Http1 client(door.port());
    client.send(text);
    const auto answer = client.read();
    EXPECT_TRUE(answer.status >= 400 && answer.status <= 505) << answer.status << " to " << text;
    EXPECT_EQ(client.socket().read_to_end(), "") << text;
  }
  Http1 client(door.port());
  const auto answer = client.ask(post("/v1/peek", about({{"tenant", "hidden"}})));
  EXPECT_EQ(http_e2e::json_body(answer).value("remaining", -1), 9)
      << "one of ten, if it were taken";
}

// Distinct limits are counted and forgotten, so that requests with ever new ones cost bounded
// memory.
TEST(HttpHarm, EverNewInlineLimitsCostBoundedMemory) {
  const Door door;
  Http1 client(door.port());
  size_t sent = 0;
  const auto send = [&](size_t requests) {
    constexpr size_t at_once = 100;
    for (size_t left = requests; left > 0; left -= at_once) {
      std::string text;
      for (size_t i = 0; i < at_once; ++i, ++sent)
        text += Http1::text_of(
            post("/v1/peek",
                 about_key("k" + std::to_string(sent % 100),
                           Json::array({{{"quota", 1 + sent}, {"window", 1 + sent % 977}}}))));
      client.send(text);
      for (size_t i = 0; i < at_once; ++i) ASSERT_EQ(client.read().status, 200);
    }
  };
  send(20'000);
  const int64_t before = resident_bytes(door.process().pid());
  send(40'000);
  if (!sanitized) {
    EXPECT_LT(resident_bytes(door.process().pid()) - before, 8 << 20);
  }
}

// Windows of a century keep each list in use. By its user a client has its share, not by its
// address.
TEST(HttpHarm, AUserLosesItsOwnListsOfLimitsPastItsShare) {
  const Folder folder;
  const std::string tokens[] = {std::string(43, 'a'), std::string(43, 'b')};
  std::string users = "users:\n";
  for (const std::string& token : tokens) {
    const std::string file = folder.write(token.substr(0, 1), token + "\n");
    users += "  - { name: " + token.substr(0, 1) + ", token_file: " + file + ", rights: [take] }\n";
  }
  const Door door("{}", http_e2e::usual_rules + users);
  Http1 client(door.port());
  size_t sent = 0;
  const auto bring = [&](const std::string& token, size_t lists) {
    constexpr size_t at_once = 1'000;
    for (size_t left = lists; left > 0; left -= at_once) {
      std::vector<Json> all;
      for (size_t i = 0; i < at_once; ++i, ++sent)
        all.push_back(about_key("k" + std::to_string(sent),
                                Json::array({{{"quota", 1 + sent}, {"window", "36500d"}}})));
      ASSERT_EQ(
          client
              .ask(post("/v1/batch", http_e2e::takes(all), {{"Authorization", "Bearer " + token}}))
              .status,
          200);
    }
  };
  const auto given_way = [&] {
    return sample(door.admin(), "sluice_brought_limits_given_way_total");
  };
  bring(tokens[0], 20'000);
  bring(tokens[1], 20'000);
  EXPECT_EQ(given_way(), "0");
  bring(tokens[0], 11'000);
  EXPECT_EQ(given_way(), "1000");
  EXPECT_EQ(sample(door.admin(), "sluice_brought_limits_refused_total"), "0");
}

}  // namespace
}  // namespace sluice::tests
