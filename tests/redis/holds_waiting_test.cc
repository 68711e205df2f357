// Reserves and acquires that wait for units of counters in Redis: of one worker, and of real
// servers over HTTP.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "store/hold_book.h"
#include "tests/redis/hold_server.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/tcp_client.h"

namespace sluice::redis::holds_waiting_test {
namespace {

using request::Error;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;
using store::HoldBook;
using Json = nlohmann::json;
using Milliseconds = std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t places = 4;

std::string id_of(size_t n) {
  return "hold-number-" + std::to_string(10'000 + n);
}

// One server with one worker, whose waiting reserves the test answers as an engine does.
class Server : public HoldServer {
 public:
  struct Asked {
    request::Charge charge;
    limit::Decision decision{};
    request::Group group{};
    std::string id;
    HoldCall call{};
    int64_t units = 0;
    std::unique_ptr<HoldBook::Wait> wait;
    std::optional<store::Settled> answer;
  };

  explicit Server(const Options& options)
      : HoldServer(options, {limit::Algorithm::concurrency, places, base::seconds(60),
                             base::seconds(600).us}) {
    used();  // connected
  }

  Asked& acquire(size_t n, int64_t units, bool waits = true,
                 base::Duration ttl = base::seconds(60)) {
    Asked& one = all_[n];
    one.id = id_of(n);
    one.units = units;
    one.charge = charge(Verb::reserve, units);
    one.call = {.id = one.id, .ttl = ttl, .waits = waits, .is_place = true};
    one.group = {.charge_count = 1};
    if (waits) {
      one.group.may_wait = true;
      one.group.ticket = ticket_of(n);
    }
    EXPECT_TRUE(ask(one));
    return one;
  }
  // As after a reload: the charge is decided anew.
  bool again(Asked& one, int64_t units) {
    one.units = units;
    one.charge.cost = units;
    one.group.parked = one.group.answered = false;
    return book_->reserve_or_wait(
        one.call, terms_, {{&one.group, 1}, {&one.charge, 1}, {&one.decision, 1}}, {&share_, 1},
        {&one.units, 1}, world_.now(), {&world_.port()}, one.wait);
  }
  // Takes a turn and the answers that have come.
  void turn() {
    world_.turn();
    for (store::Settled& settled : world_.settled())
      for (auto& [n, one] : all_)
        if (one.group.ticket == settled.ticket && one.wait != nullptr) {
          if (settled.error == Error::none && settled.decisions.at(0).allowed)
            book_->grant(one.call, *one.wait, settled.at);
          one.answer = std::move(settled);
          one.wait.reset();
        }
  }
  bool await(const Asked& one) {
    const auto deadline = tests::soon();
    while (!one.answer && steady_clock::now() < deadline) turn();
    return one.answer.has_value();
  }
  void turns(int n) {
    for (int i = 0; i < n; ++i) turn();
  }
  HoldCall settle(HoldAsk what, size_t n) { return HoldServer::settle(what, id_of(n)); }
  int64_t used() { return HoldServer::used("pool"); }
  // Takes turns until as many are used.
  bool await_used(int64_t n) {
    const auto deadline = tests::soon();
    while (used() != n)
      if (steady_clock::now() > deadline)
        return false;
      else
        turn();
    return true;
  }
  static request::Ticket ticket_of(size_t n) { return {static_cast<uint32_t>(100 + n), 1}; }

 private:
  bool ask(Asked& one) {
    return world_.ask_book([&](const HoldBook::Asker& asker) {
      return book_->reserve_or_wait(one.call, terms_,
                                    {{&one.group, 1}, {&one.charge, 1}, {&one.decision, 1}},
                                    {&share_, 1}, {&one.units, 1}, world_.now(), asker, one.wait);
    });
  }
  request::Charge charge(Verb verb, int64_t units) const {
    return HoldServer::charge("pool", verb, units);
  }

  const HoldTerms terms_{.ttl_max = base::seconds(600), .ignores_late = true};
  const HoldBook::Share share_{1, "rule"};
  std::map<size_t, Asked> all_;
};

class HoldsThatWaitInEach : public InEachRedis {};
INSTANTIATE_TEST_SUITE_P(Redis, HoldsThatWaitInEach, testing::Bool(), redis_of);

TEST_P(HoldsThatWaitInEach, AreGrantedInOrderOfArrivalWhenPlacesComeBack) {
  Server server(redis.options());
  ASSERT_EQ(server.acquire(1, 4).call.outcome, HoldOutcome::done);
  const Server::Asked &large = server.acquire(2, 3), &small = server.acquire(3, 1);
  EXPECT_EQ(large.call.outcome, HoldOutcome::waiting);
  EXPECT_EQ(small.call.outcome, HoldOutcome::waiting);
  server.turns(20);
  EXPECT_FALSE(large.answer || small.answer);
  ASSERT_EQ(server.settle(HoldAsk::release, 1).outcome, HoldOutcome::done);
  ASSERT_TRUE(server.await(large));
  EXPECT_EQ(large.call.outcome, HoldOutcome::done);
  EXPECT_EQ(large.call.made_id, id_of(2));
  EXPECT_GT(large.call.ends_in.us, base::seconds(50).us);
  ASSERT_TRUE(server.await(small));
  EXPECT_EQ(server.used(), 4);
  EXPECT_EQ(server.settle(HoldAsk::renew, 2).outcome, HoldOutcome::done);
  EXPECT_EQ(server.settle(HoldAsk::release, 2).returned, 3);
}

TEST_P(HoldsThatWaitInEach, AreNotOvertakenByWhoDoesNotWait) {
  Server server(redis.options());
  ASSERT_EQ(server.acquire(1, 2).call.outcome, HoldOutcome::done);
  const Server::Asked& large = server.acquire(2, 4);
  EXPECT_EQ(server.acquire(3, 1, false).call.outcome, HoldOutcome::refused);
  server.settle(HoldAsk::release, 1);
  ASSERT_TRUE(server.await(large));
  EXPECT_EQ(large.call.outcome, HoldOutcome::done);
}

TEST_P(HoldsThatWaitInEach, GetPlacesThatOthersGiveBackAndThatEnd) {
  Server one(redis.options()), other(redis.options());
  ASSERT_EQ(other.acquire(1, 2).call.outcome, HoldOutcome::done);
  ASSERT_EQ(other.acquire(2, 2, true, base::milliseconds(200)).call.outcome, HoldOutcome::done);
  const Server::Asked& first = one.acquire(3, 2);
  ASSERT_TRUE(one.await(first));
  const Server::Asked& second = one.acquire(4, 2);
  EXPECT_EQ(second.call.outcome, HoldOutcome::waiting);
  other.settle(HoldAsk::release, 1);
  ASSERT_TRUE(one.await(second));
  EXPECT_EQ(second.call.outcome, HoldOutcome::done);
  EXPECT_EQ(one.used(), 4);
}

TEST_P(HoldsThatWaitInEach, TakeNothingOnceTheyAreCancelled) {
  Server server(redis.options());
  ASSERT_EQ(server.acquire(1, 4).call.outcome, HoldOutcome::done);
  Server::Asked& waits = server.acquire(2, 1);
  EXPECT_TRUE(server.world().cancel(Server::ticket_of(2)));
  server.book().drop(*waits.wait, false, server.world().now());
  waits.wait.reset();
  server.settle(HoldAsk::release, 1);
  server.turns(50);
  EXPECT_EQ(server.used(), 0);
  EXPECT_EQ(server.settle(HoldAsk::renew, 2).outcome, HoldOutcome::unknown);
}

// Redis grants it while nobody waits any more: it gives back, and the id is as if never used.
TEST(HoldsThatWait, GiveBackWhatIsGrantedWhenTheyAreCancelled) {
  const tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis)), other(StoreWorld::options_for(redis));
  ASSERT_EQ(other.acquire(1, 4).call.outcome, HoldOutcome::done);
  Server::Asked& waits = server.acquire(2, 3);
  ASSERT_EQ(waits.call.outcome, HoldOutcome::waiting);
  other.settle(HoldAsk::release, 1);
  redis.signal(SIGSTOP);
  const auto until = steady_clock::now() + Milliseconds(300);
  while (steady_clock::now() < until) server.world().turn();  // it asks
  EXPECT_TRUE(server.world().cancel(Server::ticket_of(2)));
  server.book().drop(*waits.wait, false, server.world().now());
  waits.wait.reset();
  redis.signal(SIGCONT);
  server.turns(50);
  EXPECT_TRUE(server.await_used(0));
  EXPECT_EQ(server.acquire(2, 3, false).call.outcome, HoldOutcome::done);
}

TEST_P(HoldsThatWaitInEach, ThatWereGrantedInTheMomentOfADisconnectGiveBack) {
  Server server(redis.options());
  ASSERT_EQ(server.acquire(1, 4).call.outcome, HoldOutcome::done);
  Server::Asked& waits = server.acquire(2, 3);
  server.settle(HoldAsk::release, 1);
  const auto deadline = tests::soon();
  std::vector<store::Settled> settled;
  while (settled.empty() && steady_clock::now() < deadline) {
    server.world().turn();
    settled = server.world().settled();
  }
  ASSERT_EQ(settled.size(), 1u);
  server.book().drop(*waits.wait, true, server.world().now());
  waits.wait.reset();
  EXPECT_TRUE(server.await_used(0));
}

TEST_P(HoldsThatWaitInEach, AreAskedAgainByOtherRules) {
  Server server(redis.options());
  ASSERT_EQ(server.acquire(1, 3).call.outcome, HoldOutcome::done);
  Server::Asked& waits = server.acquire(2, 4);
  const auto deadline = tests::soon();
  while (!server.again(waits, 1) && steady_clock::now() < deadline) server.turn();
  EXPECT_TRUE(waits.group.parked);
  ASSERT_TRUE(server.await(waits));
  EXPECT_EQ(waits.call.outcome, HoldOutcome::done);
  EXPECT_EQ(server.used(), 4);
}

TEST(HoldsThatWait, LoadTheScriptAgainWhereRedisHasLostIt) {
  const tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  ASSERT_EQ(server.acquire(1, 4).call.outcome, HoldOutcome::done);
  const Server::Asked& waits = server.acquire(2, 1);
  ASSERT_EQ(waits.call.outcome, HoldOutcome::waiting);
  server.settle(HoldAsk::release, 1);
  redis.client()({"SCRIPT", "FLUSH"});
  ASSERT_TRUE(server.await(waits));
  EXPECT_EQ(waits.call.outcome, HoldOutcome::done);
  EXPECT_EQ(server.used(), 1);
}

// Two reserves with one id: the one that comes second is the same hold, or another content.
TEST_P(HoldsThatWaitInEach, WithAnIdThatAnotherHasTakenAreAnsweredSo) {
  Server server(redis.options()), other(redis.options());
  ASSERT_EQ(other.acquire(1, 4).call.outcome, HoldOutcome::done);
  const Server::Asked &waits = server.acquire(2, 2), &same = other.acquire(2, 2);
  other.settle(HoldAsk::release, 1);
  ASSERT_TRUE(other.await(same));
  ASSERT_TRUE(server.await(waits));
  EXPECT_EQ(waits.call.outcome, HoldOutcome::done);
  EXPECT_NE(waits.call.repeated, same.call.repeated);
  EXPECT_EQ(server.used(), 2);
}

// ---- Real servers ----

class Program {
 public:
  explicit Program(const HoldRedis& redis)
      : config_(folder_.write("sluice.yaml", text(redis, 3))),
        process_({.arguments = {"serve", "--config", config_, "--log-level", "info"}}) {
    port_ = tests::await_listening(process_, "http");
    admin_ = tests::await_listening(process_, "admin");
    if (!redis.is_cluster()) process_.says(": connected");
  }
  ~Program() {
    process_.signal(SIGTERM);
    EXPECT_EQ(process_.wait(), 0);
  }
  void reload(const HoldRedis& redis, int quota) {
    folder_.write("sluice.yaml", text(redis, quota));
    process_.signal(SIGHUP);
  }
  tests::HttpAnswer ask(const std::string& path, const Json& body) const {
    return tests::http(port_, "POST", "/v1/" + path, body.dump(),
                       "Content-Type: application/json\r\n");
  }
  tests::HttpAnswer acquire(const Json& more = Json::object()) const {
    Json body{{"entries", {{"pool", "gpu"}}}};
    body.update(more);
    return ask("acquire", body);
  }
  int64_t left() const {
    return Json::parse(ask("peek", {{"entries", {{"pool", "gpu"}}}, {"n", 0}}).body)
        .value("remaining", int64_t{-1});
  }
  // Until so many of its requests wait. False: not in time.
  bool await_waiting(int n) const {
    const std::string line = "\nsluice_waiting_requests " + std::to_string(n) + "\n";
    const auto deadline = tests::soon();
    while (tests::http(admin_, "GET", "/metrics", "").body.find(line) == std::string::npos) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(Milliseconds(5));
    }
    return true;
  }
  uint16_t port() const { return port_; }

 private:
  static std::string text(const HoldRedis& redis, int quota) {
    return "listen:\n"
           "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
           "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
           "store: { redis: { " +
           redis.settings() +
           ", deadline_ms: 20000 } }\n"
           "rules:\n"
           "  - { name: tried, match: { pool: \"*\" }, actor: pool, mode: shadow,"
           " limit: { quota: 50, algorithm: concurrency, lease: 60s } }\n"
           "  - { name: pool, match: { pool: \"*\" }, actor: pool, limit: { quota: " +
           std::to_string(quota) +
           ", algorithm: concurrency, lease: 60s, max_lease: 10m } }\n"
           "  - { name: shared, match: { shared: \"*\", who: \"*\" }, actor: shared, fair_by: who,"
           " limit: { quota: 1, algorithm: concurrency, lease: 60s } }\n"
           "  - { name: tokens, match: { tenant: \"*\" }, actor: tenant, limit: { quota: 100,"
           " window: 30d, algorithm: fixed_window } }\n";
  }

  tests::Folder folder_;
  std::string config_;
  tests::Process process_;
  uint16_t port_ = 0, admin_ = 0;
};

class HoldsThatWaitOverHttp : public InEachRedis {};
INSTANTIATE_TEST_SUITE_P(Redis, HoldsThatWaitOverHttp, testing::Bool(), redis_of);

TEST_P(HoldsThatWaitOverHttp, AreServedOrExpire) {
  Program one(redis), other(redis);
  const Json held = Json::parse(one.acquire({{"n", 3}}).body);
  EXPECT_EQ(other.acquire({{"timeout", 0.1}}).status, 408);
  EXPECT_EQ(other.acquire({{"n", 4}, {"timeout", 60}}).status, 429);
  std::thread release([&] {
    EXPECT_TRUE(other.await_waiting(1));
    EXPECT_EQ(one.ask("release", {{"id", held.at("id")}}).status, 200);
  });
  const tests::HttpAnswer got = other.acquire({{"n", 2}, {"timeout", 60}});
  release.join();
  ASSERT_EQ(got.status, 200) << got.body;
  EXPECT_GT(Json::parse(got.body).at("waited"), 0);
  EXPECT_EQ(one.left(), 1);
  // Of tokens, for the end of another.
  EXPECT_EQ(one.ask("reserve", {{"entries", {{"tenant", "ann"}}}, {"n", 90}, {"ttl", 0.3}}).status,
            200);
  const tests::HttpAnswer tokens =
      one.ask("reserve", {{"entries", {{"tenant", "ann"}}}, {"n", 50}, {"timeout", 60}});
  ASSERT_EQ(tokens.status, 200) << tokens.body;
  EXPECT_EQ(Json::parse(tokens.body).at("reserved"), 50);
}

TEST_P(HoldsThatWaitOverHttp, TakeNothingWhenTheirClientLeaves) {
  Program server(redis);
  const Json held = Json::parse(server.acquire({{"n", 3}}).body);
  {
    std::optional<tests::TcpClient> client = tests::TcpClient::connect(server.port());
    ASSERT_TRUE(client);
    const std::string body = R"({"entries": {"pool": "gpu"}, "timeout": 60})";
    client->send(
        "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_TRUE(server.await_waiting(1));
  }
  EXPECT_TRUE(server.await_waiting(0));
  EXPECT_EQ(server.ask("release", {{"id", held.at("id")}}).status, 200);
  EXPECT_EQ(server.left(), 3);
  EXPECT_EQ(server.acquire({{"n", 3}}).status, 200);
}

TEST_P(HoldsThatWaitOverHttp, AreServedByTheRulesOfAReload) {
  Program server(redis);
  ASSERT_EQ(server.acquire({{"n", 3}}).status, 200);
  std::thread reload([&] {
    EXPECT_TRUE(server.await_waiting(1));
    server.reload(redis, 5);
  });
  const tests::HttpAnswer got = server.acquire({{"n", 2}, {"timeout", 60}});
  reload.join();
  EXPECT_EQ(got.status, 200) << got.body;
  EXPECT_EQ(server.left(), 0);
}

// One client has many requests that wait, another one: at the server where both wait they are
// served in turn, also where the other server gives the place back.
TEST_P(HoldsThatWaitOverHttp, AreServedInTurnByFairByWithinEachServer) {
  Program one(redis), other(redis);
  const auto ask = [](const Program& server, const char* who, double timeout) {
    const tests::HttpAnswer got = server.ask(
        "acquire", {{"entries", {{"shared", "pool"}, {"who", who}}}, {"timeout", timeout}});
    return got.status == 200 ? Json::parse(got.body).at("id").get<std::string>() : std::string();
  };
  const std::string held = ask(other, "else", 0);
  ASSERT_NE(held, "");
  std::mutex mutex;
  std::string order;
  std::vector<std::thread> clients;
  for (const char* who : {"many", "many", "many", "few"}) {
    clients.emplace_back([&, who] {
      const std::string id = ask(one, who, 60);
      {
        const std::lock_guard lock(mutex);
        order += std::string(who) + " ";
      }
      EXPECT_EQ(other.ask("release", {{"id", id}}).status, 200);
    });
    EXPECT_TRUE(one.await_waiting(static_cast<int>(clients.size())));
  }
  EXPECT_EQ(other.ask("release", {{"id", held}}).status, 200);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(order, "many few many many ");
}

// Each worker of two servers waits for its turn; never are more than the quota at work.
TEST_P(HoldsThatWaitOverHttp, NeverAreMoreThanTheQuotaAtWork) {
  Program one(redis), other(redis);
  std::atomic<int> at_work{0}, most{0}, done{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 12; ++i)
    workers.emplace_back([&, i] {
      const Program& server = i % 2 == 0 ? one : other;
      for (int turn = 0; turn < 6; ++turn) {
        const tests::HttpAnswer got = server.acquire({{"timeout", 60}});
        if (got.status != 200) continue;
        const int now = ++at_work;
        int before = most;
        while (now > before && !most.compare_exchange_weak(before, now)) continue;
        std::this_thread::sleep_for(Milliseconds(3));
        --at_work;
        const Program& by = turn % 2 == 0 ? other : one;
        if (by.ask("release", {{"id", Json::parse(got.body).at("id")}}).status == 200) ++done;
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(done, 72);
  EXPECT_LE(most, 3);
  EXPECT_EQ(one.left(), 3);
}

}  // namespace
}  // namespace sluice::redis::holds_waiting_test
