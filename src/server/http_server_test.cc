// Over real sockets: which thread answers what.
#include "server/http_server.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::server {
namespace {

class Noting final : public Site {
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

// What handlers of one kind may rely on (Site).
TEST(HttpServer, SlowAnswersAreMadeByOneThreadAndAllOthersByAnother) {
  Noting site;
  HttpServer server(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  server.start();
  static constexpr int requests = 20;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    server.adopt(ends[0], site);
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
  EXPECT_EQ(site.first.size(), 1u);
  EXPECT_EQ(site.second.size(), 1u);
  EXPECT_NE(site.first, site.second);
}

}  // namespace
}  // namespace sluice::server
