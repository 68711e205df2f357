// Places of real servers with one Redis, over HTTP: each settles the others' places, a connection's
// end, a stop and a kill give them back, and so does the end of what a server holds that is cut off
// from Redis.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

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
  explicit Server(const RedisServer& redis, int deadline_ms = 20000, uint16_t by = 0)
      : process_(
            {.arguments = {
                 "serve", "--config",
                 folder_.write("sluice.yaml",
                               "listen:\n"
                               "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
                               "store: { redis: { nodes: [\"" +
                                   (by == 0 ? redis.address() : "127.0.0.1:" + std::to_string(by)) +
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
    const HttpAnswer got = ask("peek", {{"entries", {{"pool", "gpu"}}}, {"n", 0}});
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

// Forwards connections to a Redis until it is cut: then nothing passes, and none is closed.
class Relay {
 public:
  explicit Relay(uint16_t to) : to_(to), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = address(0);
    socklen_t size = sizeof at;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    ends_ = true;
    thread_.join();
    for (const auto& pair : pairs_) {
      close(pair[0]);
      close(pair[1]);
    }
    close(listener_);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  uint16_t port() const { return port_; }
  void cut(bool is) { cut_ = is; }

 private:
  static sockaddr_in address(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  void run() {
    while (!ends_) {
      if (cut_) {
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      std::vector<pollfd> all{{listener_, POLLIN, 0}};
      for (const auto& pair : pairs_)
        for (const int one : pair) all.push_back({one, POLLIN, 0});
      if (poll(all.data(), all.size(), 5) <= 0) continue;
      for (size_t i = 1; i < all.size(); ++i)
        if (all[i].revents != 0) pass(pairs_[(i - 1) / 2], (i - 1) % 2);
      std::erase_if(pairs_, [](const auto& pair) { return pair[0] < 0; });
      if (all[0].revents == 0) continue;
      const int client = accept(listener_, nullptr, nullptr);
      const int redis = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in at = address(to_);
      EXPECT_EQ(connect(redis, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
      pairs_.push_back({client, redis});
    }
  }
  static void pass(std::array<int, 2>& pair, size_t from) {
    if (pair[0] < 0) return;
    std::array<char, 65536> bytes;
    const ssize_t n = recv(pair[from], bytes.data(), bytes.size(), 0);
    ssize_t sent = 0;
    while (n > 0 && sent < n) {
      const ssize_t more =
          send(pair[1 - from], bytes.data() + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += more;
    }
    if (n > 0 && sent == n) return;
    close(pair[0]);
    close(pair[1]);
    pair = {-1, -1};
  }

  const uint16_t to_;
  const int listener_;
  uint16_t port_ = 0;
  std::vector<std::array<int, 2>> pairs_;
  std::atomic<bool> ends_{false}, cut_{false};
  std::thread thread_;
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

// A holder at a server that is cut off from Redis is told by 503, soon after it asks to renew, and
// long before its places are another's.
TEST(PlaceProcesses, OfAServerThatIsCutOffAreOthersOnlyAtTheirEnd) {
  const RedisServer redis;
  Relay relay(redis.port());
  const Server cut(redis, 50, relay.port()), other(redis);
  const auto deadline = soon();
  const auto until_decided = [&](const auto& ask) {
    HttpAnswer got;
    do got = ask();
    while (got.status == 503 && steady_clock::now() < deadline);
    return got;
  };
  auto renewed_at = steady_clock::now();
  const Json first{{"n", 3}, {"ttl", 3}};
  ASSERT_EQ(until_decided([&] { return cut.acquire(id_of(1), first); }).status, 200);
  ASSERT_EQ(until_decided([&] {
              renewed_at = steady_clock::now();
              return cut.ask("renew", {{"id", id_of(1)}});
            }).status,
            200);
  relay.cut(true);
  const auto cut_at = steady_clock::now();
  EXPECT_EQ(cut.ask("renew", {{"id", id_of(1)}}).status, 503);
  const auto told_after = steady_clock::now() - cut_at;
  EXPECT_LT(told_after, promised(milliseconds(500)));
  EXPECT_EQ(other.acquire(id_of(2)).status, 429);
  HttpAnswer got;
  do got = other.acquire(id_of(3));
  while (got.status == 429 && steady_clock::now() < deadline);
  EXPECT_EQ(got.status, 200);
  const auto granted_after = steady_clock::now() - renewed_at;
  EXPECT_GE(granted_after, milliseconds(3000));
  EXPECT_LT(granted_after, promised(milliseconds(4500)));
  relay.cut(false);
  const HttpAnswer late = until_decided([&] { return cut.ask("renew", {{"id", id_of(1)}}); });
  EXPECT_EQ(late.status, 410) << late.body;
  const auto ms = [](auto length) {
    return std::to_string(std::chrono::duration_cast<milliseconds>(length).count());
  };
  RecordProperty("told_after_ms", ms(told_after));
  RecordProperty("granted_after_ms", ms(granted_after));
}

}  // namespace
}  // namespace sluice::tests::places_processes_test
