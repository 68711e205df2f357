// The HTTP server of the admin port over socket pairs: its threads, and its bounds on connections
// and bodies.
#include "admin/http_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::admin {
namespace {

class Noting final : public HttpHandler {
 public:
  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest&) const override {
    note(first);
    return {};
  }
  bool is_slow(const wire::HttpRequest& request) const override { return request.path == "/slow"; }
  wire::HttpResponse answer(const wire::HttpRequest& request) override {
    note(is_slow(request) ? second : first);
    return {200, "text/plain", "", {}};
  }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return {status, "text/plain", why, {}};
  }

  mutable std::set<std::thread::id> first, second;

 private:
  void note(std::set<std::thread::id>& threads) const {
    const std::lock_guard lock(mutex_);
    threads.insert(std::this_thread::get_id());
  }
  mutable std::mutex mutex_;
};

// Handlers rely on it (HttpHandler): slow answers come from one thread, all others from another.
TEST(HttpServer, SlowAnswersAreMadeByOneThreadAndAllOthersByAnother) {
  Noting handler;
  HttpServer server(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  server.start();
  static constexpr int requests = 20;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    server.adopt(ends[0], handler);
    clients.emplace_back([fd = ends[1], i] {
      std::string text;
      for (int n = 0; n < requests; ++n)
        text += std::string("GET ") + ((n + i) % 2 == 0 ? "/slow" : "/fast") +
                " HTTP/1.1\r\nHost: localhost\r\n\r\n";
      EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(text.size()));
      ::shutdown(fd, SHUT_WR);
      std::string answers;
      char bytes[4096];
      for (ssize_t got; (got = ::recv(fd, bytes, sizeof bytes, 0)) > 0;)
        answers.append(bytes, static_cast<size_t>(got));
      int count = 0;
      for (size_t at = 0; (at = answers.find("HTTP/1.1 200", at)) != answers.npos; ++at) ++count;
      EXPECT_EQ(count, requests);
      ::close(fd);
    });
  }
  for (auto& client : clients) client.join();
  server.stop();
  EXPECT_EQ(handler.first.size(), 1u);
  EXPECT_EQ(handler.second.size(), 1u);
  EXPECT_NE(handler.first, handler.second);
}

// A handler that answers every request; a slow one waits until the test releases it.
class Patient final : public HttpHandler {
 public:
  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest&) const override { return {}; }
  bool is_health(const wire::HttpRequest& request) const override {
    return request.path == "/health/live";
  }
  bool is_slow(const wire::HttpRequest& request) const override { return request.path == "/slow"; }
  wire::HttpResponse answer(const wire::HttpRequest& request) override {
    if (is_slow(request)) {
      std::unique_lock lock(mutex_);
      begun_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return let_go_; });
    }
    return {200, "text/plain", std::string(request.path == "/large" ? 4 << 20 : 1, 'x'), {}};
  }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return {status, "text/plain", why, {}};
  }
  // Waits until a slow answer is being made.
  void await_slow() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return begun_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, let_go_ = false;
};

class Places : public testing::Test {
 protected:
  static constexpr size_t places = 16;
  static constexpr size_t all = places + base::bounds::admin_health_connections_max;

  Places() { server_.start(places); }
  ~Places() override {
    site_.let_go();
    server_.stop();
    for (const int fd : clients_) ::close(fd);
  }

  // Connects and sends `text`. Returns the client's end, which the fixture closes.
  int connect(const std::string& text = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    clients_.push_back(ends[1]);
    if (!text.empty()) send(ends[1], text);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    server_.adopt(ends[0], site_);
    return ends[1];
  }
  static void send(int fd, const std::string& text) {
    EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  static std::string get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  // The first bytes that arrive; "" at the connection's end, "(nothing)" after the time.
  static std::string receive(int fd, int patience_ms = 20'000) {
    pollfd watched{fd, POLLIN, 0};
    if (::poll(&watched, 1, patience_ms) <= 0) return "(nothing)";
    char bytes[4096];
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
    return {bytes, static_cast<size_t>(std::max<ssize_t>(n, 0))};
  }
  static bool is_open(int fd) {
    char byte = 0;
    const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && errno == EAGAIN);
  }
  void expect_answered(int fd) {
    const std::string answer = receive(fd);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  }

  Patient site_;
  std::vector<int> clients_;

 private:
  HttpServer server_{
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>())};
};

TEST_F(Places, ClosesTheLongestSilentConnectionWhenFull) {
  for (size_t i = 0; i < all; ++i) connect();
  for (size_t i = 0; i < all; ++i) {
    expect_answered(connect(get("/health/live")));
    EXPECT_EQ(receive(clients_[i]), "") << "the oldest silent one goes first";
    if (i + 1 < all) {
      EXPECT_TRUE(is_open(clients_[i + 1])) << i;
    }
  }
}

TEST_F(Places, SilentClientsDoNotBlockNewConnections) {
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < 2 * all; ++i) connect();
    expect_answered(connect(get("/any")));
    expect_answered(connect(get("/health/live")));
  }
}

// A connection with half a request, one that does not read its answer, and an idle one all count as
// silent.
TEST_F(Places, HalfRequestsAndUnreadAnswersGiveUpTheirPlaces) {
  connect("GET /any HT");
  connect("POST /any HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
  const int unread = connect(get("/large"));
  expect_answered(unread);
  const int idle = connect(get("/any"));
  expect_answered(idle);
  for (size_t i = 0; i < 3 * all; ++i) expect_answered(connect(get("/any")));
  for (size_t i = 0; i < all; ++i) connect();
  expect_answered(connect(get("/any")));
  for (const int fd : {clients_[0], clients_[1], unread, idle}) {
    std::string last = "(something)";
    for (int reads = 0; reads < 4096 && !last.empty() && last != "(nothing)"; ++reads)
      last = receive(fd);
    EXPECT_EQ(last, "");
  }
}

TEST_F(Places, HealthIsAnsweredWhileAllPlacesAreTaken) {
  // As many connections as have places: they wait for the second thread, and must not be closed.
  std::vector<int> waiting;
  for (size_t i = 0; i < places; ++i) waiting.push_back(connect(get("/slow")));
  const int other = connect(get("/any"));
  EXPECT_TRUE(receive(other).starts_with("HTTP/1.1 503"));
  for (int round = 0; round < 100; ++round) {
    expect_answered(connect(get("/health/live")));
    connect();  // a silent connection does not keep it out
  }
  site_.let_go();
  for (const int fd : waiting) expect_answered(fd);
}

TEST_F(Places, TricklingConnectionsDoNotBlockHealth) {
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < all; ++i) connect("G");
    for (const int fd : clients_)
      if (is_open(fd)) ::send(fd, "E", 1, MSG_NOSIGNAL);
    expect_answered(connect(get("/health/live")));
  }
}

TEST_F(Places, BodiesOfAllRequestsTogetherAreBounded) {
  const auto upload = [](size_t bytes) {
    return "POST /any HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(bytes) +
           "\r\nExpect: 100-continue\r\n\r\n";
  };
  constexpr size_t each = base::bounds::admin_body_bytes_max;
  std::vector<int> granted;
  for (size_t i = 0; i < base::bounds::admin_bodies_bytes_max / each; ++i) {
    granted.push_back(connect(upload(each)));
    EXPECT_TRUE(receive(granted.back()).starts_with("HTTP/1.1 100")) << i;
  }
  EXPECT_TRUE(receive(connect(upload(each))).starts_with("HTTP/1.1 503"));
  // When a request ends, its bytes are free for others.
  ::shutdown(granted.front(), SHUT_RDWR);
  std::string answer;
  for (const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       !answer.starts_with("HTTP/1.1 100") && std::chrono::steady_clock::now() < limit;)
    answer = receive(connect(upload(each)));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 100")) << answer;
}

// An answer may wait for a disk that does not answer: a stop does not wait for it for ever.
TEST(HttpServer, StopsWithoutAnAnswerThatDoesNotEnd) {
  Patient handler;
  HttpServer server(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  server.start();
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  server.adopt(ends[0], handler);
  const std::string request = "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_EQ(::send(ends[1], request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  handler.await_slow();
  EXPECT_FALSE(server.stop(std::chrono::milliseconds(1)));
  handler.let_go();
  ::close(ends[1]);
}

}  // namespace
}  // namespace sluice::admin
