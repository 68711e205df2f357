// The client library with many calls under way, with many threads, and with servers that end
// connections.
#include <gtest/gtest.h>
#include <sluice/client.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/peers.h"

namespace sluice::tests::client_many_test {
namespace {

using namespace std::chrono_literals;

client_request numbered(std::string& text, int number) {
  text = std::to_string(number);
  client_request request;
  request.subject.entries = {{"n", text}};
  return request;
}

// The reply to a line has the number in it as the remaining units: for `HIT "n"="17"` these are 17.
std::string answer_to(const std::string& line) {
  const size_t begin = line.rfind("=\"") + 2;
  return "OK true " + line.substr(begin, line.rfind('"') - begin) + " 60\n";
}

// Answers all lines, reading up to 64 KiB at a time, so that 100,000 lines are answered quickly.
// Ends after `bytes_max` bytes, perhaps in the middle of a reply.
void answer_all(int fd, size_t bytes_max = SIZE_MAX) {
  std::string in, out;
  char bytes[64 << 10];
  for (ssize_t n = 0; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    in.append(bytes, static_cast<size_t>(n));
    out.clear();
    size_t done = 0;
    for (size_t end = in.find('\n'); end != in.npos; end = in.find('\n', done)) {
      out += answer_to(in.substr(done, end - done));
      done = end + 1;
    }
    in.erase(0, done);
    if (out.size() > bytes_max) {
      Peer::say(fd, std::string_view(out).substr(0, bytes_max));
      return;
    }
    bytes_max -= out.size();
    if (!Peer::say(fd, out)) return;
  }
}

TEST(ManyCalls, AHundredThousandUnderWay) {
  constexpr int count = 100'000;
  // The server answers nothing before all calls are under way.
  std::atomic<bool> go = false;
  const Peer peer([&](int fd, int) {
    while (!go) std::this_thread::yield();
    answer_all(fd);
  });
  client_options options;
  options.pending_max = count;
  options.timeout = 100s;
  client one(peer.address("divvy"), options);
  std::string text;
  int ended = 0, right = 0;
  for (int i = 0; i < count; ++i)
    one.submit(numbered(text, i), [&ended, &right, i](client_result&& result) {
      ++ended;
      right += result.remaining == i ? 1 : 0;
    });
  EXPECT_EQ(one.pending(), size_t{count});
  one.poll(0ms);
  go = true;
  while (ended < count) one.poll(100ms);
  EXPECT_EQ(right, count);
  EXPECT_EQ(one.pending(), 0u);
}

// Connections end after a few replies, in the middle of one. Each call must end once, with its own
// reply or as disconnected.
TEST(ManyCalls, ManyDisconnectsNeverMixUpReplies) {
  const Peer peer([](int fd, int number) { answer_all(fd, 50 + static_cast<size_t>(number) * 7); });
  client_options options;
  options.connections = 4;
  options.own_thread = true;
  options.pending_max = 100'000;
  options.timeout = 100s;
  std::atomic<int> ended = 0, wrong = 0, right = 0, asked = 0;
  {
    client one(peer.address("resp").replace(0, 4, "divvy"), options);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::string text;
        for (int i = 0; i < 2'000; ++i) {
          const int number = t * 1'000'000 + i;
          ++asked;
          one.submit(numbered(text, number), [&, number](client_result&& result) {
            ++ended;
            if (result.error != client_errc::none) return;
            (result.remaining == number ? right : wrong) += 1;
          });
          if (i % 100 == 0) std::this_thread::sleep_for(1ms);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(ended, asked);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
}

TEST(ManyCalls, ManyClientsReconnectToAServerThatReturns) {
  std::atomic<bool> away = true;
  const Peer peer([&](int fd, int) {
    if (!away) answer_all(fd);
  });
  client_options options;
  options.own_thread = true;
  std::vector<std::unique_ptr<client>> clients;
  for (int i = 0; i < 50; ++i)
    clients.push_back(std::make_unique<client>(peer.address("divvy"), options));
  std::string text;
  for (const auto& one : clients)
    EXPECT_NE(one->call(numbered(text, 1), {.timeout = 60s}).error, client_errc::none);
  away = false;
  for (const auto& one : clients) {
    client_result result;
    do result = one->call(numbered(text, 7), {.timeout = 60s});
    while (result.error != client_errc::none);
    EXPECT_EQ(result.remaining, 7);
  }
}

// One thread waits a long time for its call, and polls for all others meanwhile.
TEST(ManyCalls, ThreadsThatPollForEachOtherDoNotStarve) {
  constexpr int threads = 64, calls = 20;
  ServerOfAll server;
  client one(server.address("limitd"));
  const auto about = [](client_verb verb, std::string_view type, std::string_view key) {
    client_request request;
    request.verb = verb;
    request.subject.type = type;
    request.subject.key = key;
    return request;
  };
  client_request all = about(client_verb::take, "fixed", "w");
  all.n = 3;
  EXPECT_TRUE(one.call(all, {.timeout = 60s}).is_allowed());
  std::atomic<bool> released = false;
  std::thread waits([&] {
    const client_result result =
        one.call(about(client_verb::wait, "fixed", "w"), {.timeout = 100s});
    EXPECT_TRUE(result.is_allowed()) << result.text;
    EXPECT_TRUE(released);
  });
  std::atomic<int> answered = 0;
  std::vector<std::thread> others;
  for (int t = 0; t < threads; ++t)
    others.emplace_back([&, t] {
      const std::string key = std::to_string(t);
      for (int i = 0; i < calls; ++i) {
        auto future = one.ask(about(client_verb::take, "ip", key), {.timeout = 60s});
        if (t % 2 == 0)
          while (future.wait_for(0s) != std::future_status::ready) one.poll(5ms);
        else
          EXPECT_EQ(one.call(about(client_verb::ping, "", ""), {.timeout = 60s}).error,
                    client_errc::none);
        while (future.wait_for(0s) != std::future_status::ready) one.poll(5ms);
        answered += future.get().error == client_errc::none ? 1 : 0;
      }
    });
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(answered, threads * calls);
  released = true;
  EXPECT_EQ(one.call(about(client_verb::reset, "fixed", "w"), {.timeout = 60s}).error,
            client_errc::none);
  waits.join();
}

// Another thread polls without end: poll() returns by its timeout, and call() with its result.
TEST(ManyCalls, AThreadThatPollsForLongDoesNotDelayOthers) {
  const Peer peer([](int fd, int) { answer_all(fd); });
  client one(peer.address("divvy"));
  std::atomic<bool> done = false;
  std::thread polls([&] {
    while (!done) one.poll(-1ms);
  });
  auto others = std::async(std::launch::async, [&] {
    one.poll(1ms);
    std::string text;
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(one.call(numbered(text, i), {.timeout = 60s}).remaining, i);
  });
  EXPECT_EQ(others.wait_for(60s), std::future_status::ready);
  done = true;
  one.close();
  polls.join();
}

TEST(ManyCalls, ThreadsSubmitCancelAndPollConcurrently) {
  const Peer peer([](int fd, int) { answer_all(fd); });
  client_options options;
  options.pending_max = 100'000;
  client one(peer.address("divvy"), options);
  std::atomic<int> ended = 0, wrong = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::string text;
      for (int i = 0; i < 2'000; ++i) {
        const int number = t * 10'000 + i;
        const auto id =
            one.submit(numbered(text, number),
                       [&, number](client_result&& result) {
                         ++ended;
                         if (result.error == client_errc::none && result.remaining != number)
                           ++wrong;
                       },
                       {.timeout = 60s});
        if (i % 7 == 0) one.cancel(id);
        if (i % 50 == 0) one.poll(0ms);
      }
    });
  std::thread poller([&] {
    while (!done) one.poll(10ms);
  });
  for (std::thread& thread : threads) thread.join();
  while (ended < 6'000) std::this_thread::sleep_for(1ms);
  done = true;
  poller.join();
  EXPECT_EQ(ended, 6'000);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice::tests::client_many_test
