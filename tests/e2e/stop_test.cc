// The end of the real server: every request that arrived before the signal is answered, and no
// client can delay it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Sends without reading until the server takes no more.
void stuff(TcpClient& client) {
  const std::string requests = repeated("HIT a=b\n", 8192);
  auto last = steady_clock::now();
  while (steady_clock::now() - last < 500ms) {
    if (client.send_some(requests) > 0)
      last = steady_clock::now();
    else
      std::this_thread::sleep_for(5ms);
  }
}

// The time that `process` takes to end with status 0.
Milliseconds time_to_end(Process& process) {
  const auto start = steady_clock::now();
  EXPECT_EQ(process.wait(), 0);
  return std::chrono::duration_cast<Milliseconds>(steady_clock::now() - start);
}

class Stop : public testing::TestWithParam<int> {};

// The server is suspended while requests arrive, so that all have arrived before the signal. One
// client has not been accepted yet.
TEST_P(Stop, AnswersWhatCameBeforeThenEnds) {
  DivvyServer server("rules.ini", hundred_policy);
  constexpr int requests = 3000;
  std::vector<TcpClient> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(server.client());
  for (auto& client : clients) EXPECT_TRUE(client.ask("HIT a=b").starts_with("OK "));
  Process& process = server.process();
  process.signal(SIGSTOP);
  clients.push_back(server.client());
  for (auto& client : clients) ASSERT_TRUE(client.send(repeated("HIT a=b\n", requests)));
  process.signal(GetParam());
  process.signal(SIGCONT);
  long total = 0;
  for (auto& client : clients) {
    const std::string replies = client.read_to_end();
    const long lines = std::count(replies.begin(), replies.end(), '\n');
    EXPECT_EQ(lines, requests);
    EXPECT_FALSE(client.was_reset());
    total += lines;
  }
  EXPECT_EQ(total, requests * 5);
  clients.clear();
  EXPECT_LT(time_to_end(process), promised(5s));
  EXPECT_FALSE(TcpClient::connect(server.port()));
}

TEST_P(Stop, DoesNotWaitForIdleClients) {
  DivvyServer server("rules.ini", hundred_policy);
  std::vector<TcpClient> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(server.client());
  for (auto& client : clients) EXPECT_TRUE(client.ask("HIT a=b").starts_with("OK "));
  clients.push_back(server.client());  // has sent nothing
  ASSERT_TRUE(clients.front().send("HIT half=a li"));
  server.process().signal(GetParam());
  EXPECT_LT(time_to_end(server.process()), promised(5s));
  for (auto& client : clients) EXPECT_EQ(client.read_to_end(), "");
}

TEST_P(Stop, ASecondSignalEndsAtOnce) {
  DivvyServer server("rules.ini", hundred_policy, {.environment = {{"SLUICE_LOG_LEVEL", "info"}}});
  auto client = server.client();
  client.limit_receive_buffer(4096);
  stuff(client);
  Process& process = server.process();
  process.signal(GetParam());
  ASSERT_TRUE(process.says("stopping"));
  const auto start = steady_clock::now();
  process.signal(GetParam());
  EXPECT_EQ(process.wait(), 1);
  EXPECT_LT(steady_clock::now() - start, promised(2s));  // with one signal it would wait for 4 s
}

std::string signal_name(const testing::TestParamInfo<int>& signal) {
  return signal.param == SIGTERM ? "SIGTERM" : "SIGINT";
}

INSTANTIATE_TEST_SUITE_P(Signals, Stop, testing::Values(SIGTERM, SIGINT), signal_name);

TEST(Stopping, IsNotDelayedByAClientThatDoesNotRead) {
  DivvyServer server("rules.ini", hundred_policy, {.environment = {{"SLUICE_LOG_LEVEL", "info"}}});
  auto client = server.client();
  client.limit_receive_buffer(4096);
  stuff(client);
  Process& process = server.process();
  process.signal(SIGTERM);
  const auto start = steady_clock::now();
  // No new client is accepted meanwhile.
  ASSERT_TRUE(process.says("stopping"));
  while (TcpClient::connect(server.port()).has_value()) {
    ASSERT_LT(steady_clock::now() - start, promised(3s));
  }
  EXPECT_EQ(process.wait(), 0);
  EXPECT_LT(steady_clock::now() - start, promised(5s));
}

TEST(Stopping, IsNotDelayedByAClientThatKeepsSending) {
  DivvyServer server("rules.ini", hundred_policy);
  auto client = server.client();
  std::atomic<bool> sending{false};
  std::thread sender([&] {
    const std::string requests = repeated("HIT a=b\n", 100);
    try {
      while (client.send(requests)) {
        sending = true;
        while (client.peek_line(Milliseconds(0))) {
        }
      }
    } catch (const std::exception&) {  // the server takes no more; only its end matters
    }
  });
  while (!sending) std::this_thread::yield();
  server.process().signal(SIGTERM);
  const auto took = time_to_end(server.process());
  sender.join();
  EXPECT_LT(took, promised(5s));
}

// It always has requests under way, but none that the server would have to wait for.
TEST(Stopping, IsNotDelayedByAClientThatAsksWithoutAPause) {
  DivvyServer server("rules.ini", hundred_policy);
  std::atomic<uint64_t> answered{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i)
    askers.emplace_back([&, client = server.client()]() mutable {
      constexpr int under_way = 1000;
      const std::string request = "HIT a=b\n";
      bool open = client.send(repeated(request, under_way));
      while (open && client.read_line()) {
        ++answered;
        open = client.send(request);
      }
    });
  while (answered < 1000) std::this_thread::yield();
  server.process().signal(SIGTERM);
  const auto took = time_to_end(server.process());
  for (std::thread& asker : askers) asker.join();
  EXPECT_LT(took, promised(150ms));
}

TEST(Stopping, IsNotDelayedByAnUnreadStandardError) {
  DivvyServer server("rules.ini", hundred_policy,
                     {.environment = {{"DEBUG", "divvy"}}, .read_err = false});
  auto client = server.client();
  constexpr int requests = 2000;  // their debug lines are more than a pipe holds
  ASSERT_TRUE(client.send(repeated("HIT a=" + std::string(100, 'x') + "\n", requests)));
  for (int i = 0; i < requests; ++i) ASSERT_TRUE(client.read_line()) << i;
  server.process().signal(SIGTERM);
  EXPECT_LT(time_to_end(server.process()), promised(5s));
}

TEST(Stopping, LeavesThePortFree) {
  uint16_t port = 0;
  {
    DivvyServer server("rules.ini", hundred_policy);
    port = server.port();
    auto client = server.client();
    EXPECT_EQ(client.ask("HIT k=v"), "OK true 99 600");
    server.process().signal(SIGTERM);  // the server closes first: its side stays in TIME_WAIT
    EXPECT_EQ(client.read_to_end(), "");
    client.half_close();
    EXPECT_EQ(server.process().wait(), 0);
  }
  const DivvyServer next("rules.ini", hundred_policy,
                         {.environment = {{"PORT", std::to_string(port)}}});
  EXPECT_EQ(next.client().ask("HIT k=v"), "OK true 99 600");
}

}  // namespace
}  // namespace sluice::tests
