// Places of real servers with one Redis, over HTTP: each settles the others' places, a connection's
// end, a stop and a kill give them back, and so does the end of what a server holds that is cut off
// from Redis.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::places_processes_test {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Server {
 public:
  explicit Server(const RedisServer& redis, int deadline_ms = 20000)
      : process_({.arguments = {
                      "serve", "--config",
                      folder_.write("sluice.yaml",
                                    "listen:\n"
                                    "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
                                    "store: { redis: { nodes: [\"" +
                                        redis.address() +
                                        "\"], deadline_ms: " + std::to_string(deadline_ms) +
                                        " } }\n"
                                        "rules:\n"
                                        "  - { name: streams, match: { pool: \"*\" }, actor: pool,"
                                        " limit: { quota: 3, algorithm: concurrency, lease: 60s,"
                                        " max_lease: 10m } }\n"
                                        "  - { name: tokens, match: { tenant: \"*\" }, actor:"
                                        " tenant, limit: { quota: 100, window: 30d, algorithm:"
                                        " fixed_window } }\n"),
                      "--log-level", "info"}}) {
    port_ = await_listening(process_, "http");
    process_.says(": connected");
  }
  ~Server() {
    if (is_killed_) return;
    process_.signal(SIGTERM);
    EXPECT_EQ(process_.wait(), 0);
  }
  void kill() {
    process_.signal(SIGKILL);
    process_.wait();
    is_killed_ = true;
  }
  HttpAnswer ask(const std::string& path, const Json& body) const {
    return http(port_, "POST", "/v1/" + path, body.dump(), "Content-Type: application/json\r\n");
  }
  HttpAnswer acquire(const std::string& id, const Json& more = Json::object()) const {
    Json body{{"entries", {{"pool", "gpu"}}}, {"id", id}};
    body.update(more);
    return ask("acquire", body);
  }
  int64_t left() const {
    const HttpAnswer got = ask("peek", {{"entries", {{"pool", "gpu"}}}});
    return Json::parse(got.body).value("remaining", int64_t{-1});
  }
  bool await_left(int64_t n) const {
    const auto deadline = soon();
    while (left() != n)
      if (steady_clock::now() > deadline)
        return false;
      else
        std::this_thread::sleep_for(milliseconds(2));
    return true;
  }

 private:
  Folder folder_;
  Process process_;
  uint16_t port_ = 0;
  bool is_killed_ = false;
};

std::string id_of(int n) {
  return "place-number-" + std::to_string(1000 + n);
}

TEST(PlaceProcesses, ShareThePlacesOfOnePool) {
  const RedisServer redis;
  const Server one(redis), other(redis);
  const HttpAnswer held = one.acquire(id_of(1), {{"n", 2}, {"holder", "worker"}});
  ASSERT_EQ(held.status, 200) << held.body;
  EXPECT_EQ(Json::parse(held.body).at("ttl"), 60);
  EXPECT_EQ(other.left(), 1);
  EXPECT_EQ(other.acquire(id_of(2), {{"n", 2}}).status, 429);
  EXPECT_EQ(other.ask("renew", {{"id", id_of(1)}, {"ttl", 300}}).status, 200);
  // Tokens and a place in one step.
  const Json takes{{{"entries", {{"tenant", "ann"}}}, {"n", 40}},
                   {{"entries", {{"pool", "gpu"}}}, {"n", 1}}};
  EXPECT_EQ(other.ask("reserve", {{"takes", takes}, {"id", id_of(3)}}).status, 200);
  EXPECT_EQ(one.left(), 0);
  EXPECT_EQ(one.ask("reserve", {{"takes", takes}, {"id", id_of(4)}}).status, 429);
  const HttpAnswer done = one.ask("commit", {{"id", id_of(3)}, {"n", {12, 1}}});
  EXPECT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(one.left(), 1);
  const HttpAnswer back = other.ask("release", {{"id", id_of(1)}});
  EXPECT_EQ(Json::parse(back.body).at("returned"), 2) << back.body;
  EXPECT_EQ(one.ask("renew", {{"id", id_of(1)}}).status, 410);
  EXPECT_EQ(one.left(), 3);
  EXPECT_EQ(one.ask("acquire", {{"entries", {{"tenant", "ann"}}}}).status, 400);
}

// Each request here has a connection of its own.
TEST(PlaceProcesses, APlaceOfAConnectionComesBackWithin100Ms) {
  const RedisServer redis;
  const Server one(redis), other(redis);
  ASSERT_EQ(one.acquire(id_of(1), {{"n", 3}, {"release_on_close", true}}).status, 200);
  const auto closed = steady_clock::now();
  EXPECT_TRUE(other.await_left(3));
  EXPECT_LT(steady_clock::now() - closed, promised(milliseconds(100)));
  EXPECT_EQ(other.ask("renew", {{"id", id_of(1)}}).status, 410);
}

TEST(PlaceProcesses, OfAServerThatIsKilledAreRenewedByOthersOrEnd) {
  const RedisServer redis;
  Server one(redis);
  const Server other(redis);
  ASSERT_EQ(one.acquire(id_of(1), {{"ttl", 300}}).status, 200);
  ASSERT_EQ(one.acquire(id_of(2), {{"ttl", 1}}).status, 200);
  one.kill();
  EXPECT_EQ(other.ask("renew", {{"id", id_of(1)}}).status, 200);
  EXPECT_TRUE(other.await_left(2));
  EXPECT_EQ(other.ask("renew", {{"id", id_of(2)}}).status, 410);
  EXPECT_EQ(other.ask("release", {{"id", id_of(1)}}).status, 200);
  EXPECT_EQ(other.left(), 3);
}

// Redis stands still: no server renews or releases meanwhile, and no place is granted twice.
TEST(PlaceProcesses, WithoutRedisHoldersAreNotToldThatTheirPlacesGoOn) {
  const RedisServer redis;
  const Server one(redis, 100);
  HttpAnswer held;
  const auto deadline = soon();
  do held = one.acquire(id_of(1), {{"n", 3}, {"ttl", 60}});
  while (held.status == 503 && steady_clock::now() < deadline);
  ASSERT_EQ(held.status, 200);
  redis.signal(SIGSTOP);
  EXPECT_EQ(one.ask("renew", {{"id", id_of(1)}}).status, 503);
  EXPECT_EQ(one.acquire(id_of(2)).status, 503);
  redis.signal(SIGCONT);
  HttpAnswer renewed;
  do renewed = one.ask("renew", {{"id", id_of(1)}});
  while (renewed.status == 503 && steady_clock::now() < deadline);
  EXPECT_EQ(renewed.status, 200) << renewed.body;
  EXPECT_EQ(one.left(), 0);
}

}  // namespace
}  // namespace sluice::tests::places_processes_test
