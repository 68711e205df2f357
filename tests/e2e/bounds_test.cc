// The real server at its bounds: descriptors, connections, memory for unfinished requests, and the
// memory of an idle connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process_stats.h"

namespace sluice::tests::bounds_test {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

// The undefined-behaviour sanitizer reads memory through a pipe.
constexpr const char* sanitizer_needs_descriptors = "the sanitizer needs descriptors of its own";

TEST(Bounds, OutOfDescriptorsTheOthersAreServedAndTheNextWaits) {
  if (sanitized) GTEST_SKIP() << sanitizer_needs_descriptors;
  // The admin port would need more than so many.
  const Process::Options options{.environment = {{"SLUICE_ADMIN", "off"}}, .open_files = 48};
  DivvyServer server("rules.ini", hundred_policy, options);
  Process& process = server.process();
  // More clients than the server has descriptors. The kernel takes all of them into its queue.
  std::vector<TcpClient> clients;
  for (size_t i = 0; i < options.open_files + 20; ++i) clients.push_back(server.client());
  for (auto& client : clients) ASSERT_TRUE(client.send("HIT a=b\n"));
  ASSERT_TRUE(process.says("accepting pauses")) << process.err();
  EXPECT_TRUE(process.says("ulimit -n"));

  // The first clients are served. None of the others is disconnected.
  size_t served = 0;
  while (served < clients.size() && clients[served].peek_line(served < 10 ? 20s : 300ms)) ++served;
  EXPECT_GE(served, 10u);
  EXPECT_LT(served, options.open_files);
  for (size_t i = served; i < clients.size(); ++i) EXPECT_FALSE(clients[i].ended());

  // While clients wait, the server uses little processor time.
  const auto before = processor_time(process.pid());
  const auto start = steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    for (size_t j = 0; j < served; j += 5)
      EXPECT_TRUE(clients[j].ask("HIT a=b").starts_with("OK true "));
    std::this_thread::sleep_for(20ms);
  }
  const auto passed = steady_clock::now() - start;
  EXPECT_LT(processor_time(process.pid()) - before, passed / 4);
  // The pause is logged once, not at every attempt.
  const std::string told = process.err();
  const size_t first = told.find("accepting pauses");
  EXPECT_EQ(told.find("accepting pauses", first + 1), std::string::npos) << told;

  // When clients leave, waiting ones are accepted: in the end all are served.
  for (size_t i = 0; i < served; ++i) clients[i].abort();
  for (size_t i = served; i < clients.size(); ++i) {
    const auto reply = clients[i].read_line();
    EXPECT_TRUE(reply && reply->starts_with("OK true ")) << i;
    clients[i].abort();
  }
}

// Each worker needs descriptors of its own. Without them the server does not start, and prints no
// banner.
TEST(Bounds, TooFewDescriptorsForTheWorkersIsAnErrorAtTheStart) {
  if (sanitized) GTEST_SKIP() << sanitizer_needs_descriptors;
  const Folder folder;
  const auto finished =
      run({.arguments = {"divvy", "--workers", "64", folder.write("rules.ini", hundred_policy)},
           .environment = {{"PORT", "0"}},
           .open_files = 64});
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("Too many open files"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("ulimit -n"), std::string::npos) << finished.err;
}

// A client beyond the bound gets an error that says so. When another one has left, the next is
// served.
TEST(Bounds, RejectsAConnectionPastTheBoundWithAnError) {
  DivvyServer server("rules.ini", hundred_policy, {.arguments = {"--connections", "3"}});
  std::vector<TcpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(server.client());
    EXPECT_TRUE(clients.back().ask("HIT a=b").starts_with("OK true ")) << i;
  }
  for (int i = 0; i < 5; ++i) {
    auto late = server.client();
    ASSERT_TRUE(late.send("HIT a=b\n"));
    EXPECT_EQ(late.read_to_end(),
              "ERR Internal Error: too many connections; this server has reached its bound\n");
    EXPECT_FALSE(late.was_reset());
  }
  EXPECT_TRUE(grants(clients[0].ask("HIT a=b"), 999'999'996));  // the refused clients took nothing
  clients[1].abort();
  const auto deadline = soon();
  std::string reply;
  while (!reply.starts_with("OK ") && steady_clock::now() < deadline) {
    auto next = server.client();
    reply = next.ask("HIT a=b");
  }
  EXPECT_TRUE(reply.starts_with("OK true ")) << reply;
}

// Unfinished requests hold memory up to a bound. Past it the oldest of them are refused and their
// connections closed; other clients are not affected.
TEST(Bounds, RequestsThatAreNotWholeHoldABoundedMemory) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps memory";
  DivvyServer server("rules.ini", hundred_policy, {.arguments = {"--workers", "1"}});
  auto other = server.client();
  EXPECT_TRUE(other.ask("HIT a=b").starts_with("OK true "));
  const int64_t before = resident_bytes(server.process().pid());
  const std::string half = "HIT a=b pad=\"" + std::string(900'000, 'x');
  std::vector<TcpClient> clients;
  for (int i = 0; i < 150; ++i) {
    clients.push_back(server.client());
    ASSERT_TRUE(clients.back().send(half)) << i;
  }
  EXPECT_TRUE(server.client().ask(half + "\"").starts_with("OK true ")) << "there is room for it";
  // The worker refused them before it answered that request. Of two that began in the same round,
  // the loop decides which is older.
  std::vector<TcpClient*> open;
  for (auto& client : clients) {
    if (const auto line = client.peek_line(1ms))
      EXPECT_TRUE(line->starts_with("ERR Internal Error: too much memory is held")) << *line;
    else
      open.push_back(&client);
  }
  const size_t told = clients.size() - open.size();
  EXPECT_GT(told, 50u);
  EXPECT_LT(told, 120u);
  EXPECT_LT(resident_bytes(server.process().pid()) - before, 100 << 20);
  for (auto* client : open) EXPECT_TRUE(client->ask("\"").starts_with("OK true "));
  EXPECT_TRUE(other.ask("HIT a=b").starts_with("OK true "));
}

// A connection keeps a small buffer, however long the lines were that it once sent.
TEST(Bounds, AnIdleConnectionCostsAtMostFourKibibytes) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps memory";
  constexpr size_t count = 2000;
  if (!allow_open_files(count + 100)) GTEST_SKIP() << "too few descriptors are allowed";
  DivvyServer server("rules.ini", hundred_policy);
  const std::string line = "HIT a=b pad=\"" + std::string(200'000, 'x') + "\"";
  const auto use = [&] {
    auto client = server.client();
    EXPECT_TRUE(client.ask("HIT a=b").starts_with("OK true "));
    EXPECT_TRUE(client.ask(line).starts_with("OK true "));
    return client;
  };
  for (int i = 0; i < 20; ++i) use().abort();  // allocates the workers' own buffers
  const pid_t pid = server.process().pid();
  const int64_t before = resident_bytes(pid);
  std::vector<TcpClient> clients;
  for (size_t i = 0; i < count; ++i) clients.push_back(use());
  const int64_t each = (resident_bytes(pid) - before) / static_cast<int64_t>(count);
  RecordProperty("bytes_per_connection", static_cast<int>(each));
  EXPECT_LE(each, 4096);
  EXPECT_TRUE(clients.front().ask("HIT a=b").starts_with("OK true "));
  EXPECT_TRUE(clients.back().ask("HIT a=b").starts_with("OK true "));
  for (auto& client : clients) client.abort();
}

// The memory of an idle connection, as docs/operating.md says under "How do I size it?".
class IdleConnections : public testing::TestWithParam<std::string> {};

TEST_P(IdleConnections, TakeAtMostTheDocumentedMemory) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps memory";
  constexpr size_t count = 2000;
  if (!allow_open_files(count + 100)) GTEST_SKIP() << "too few descriptors are allowed";
  Process process({.arguments = {"serve", "--listen", GetParam() + "=127.0.0.1:0"}});
  const uint16_t port = await_listening(process, GetParam());
  const bool droplet = GetParam() == "droplet";
  const auto use = [&] {
    auto client = TcpClient::connect(port);
    if (!client) throw std::runtime_error("refused");
    if (GetParam() == "divvy") {
      EXPECT_TRUE(client->ask("HIT a=b").starts_with("OK "));
    }
    if (GetParam() == "resp") {
      EXPECT_EQ(client->ask("CL.THROTTLE user:1 15 30 60 1"), "*5\r");
      for (int line = 0; line < 5; ++line) EXPECT_TRUE(client->read_line());
    }
    if (droplet) {
      client->send(
          "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
      EXPECT_EQ(client->read_line(), "HTTP/1.1 101 Switching Protocols\r");
      while (client->read_line().value_or("\r") != "\r") continue;
      client->send(std::string("\x89\x80\0\0\0\0", 6));  // a ping
      EXPECT_EQ(client->read_bytes(2), std::string("\x8a\0", 2));
    }
    return std::move(*client);
  };
  for (int i = 0; i < 100; ++i) use().abort();  // allocates the workers' own buffers
  // What the server allocates once, whenever that is, belongs to no connection.
  std::vector<TcpClient> clients;
  int64_t each = INT64_MAX;
  for (int half = 0; half < 2; ++half) {
    const int64_t before = resident_bytes(process.pid());
    for (size_t i = 0; i < count / 2; ++i) clients.push_back(use());
    each = std::min(each, (resident_bytes(process.pid()) - before) / int64_t{count / 2});
  }
  RecordProperty("bytes_per_connection", static_cast<int>(each));
  EXPECT_LE(each, (droplet ? 10 : GetParam() == "resp" ? 5 : 3) << 10);
  for (auto& client : clients) client.abort();
}

INSTANTIATE_TEST_SUITE_P(Protocols, IdleConnections,
                         testing::Values("divvy", "limitd", "droplet", "resp"),
                         [](const auto& one) { return one.param; });

TEST(AdminMemory, IsReturnedAfterALargeRequest) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps memory";
  Process process(
      {.arguments = {"serve", "--listen", "divvy=127.0.0.1:0", "--admin", "127.0.0.1:0"}});
  const uint16_t port = await_listening(process, "admin");
  // A policy and JSON, both of nearly the largest size that is accepted.
  const std::string large = "[" + std::string(((16 << 20) - 16) / 2, '[') + "]";
  std::string policy;
  while (policy.size() < (16 << 20) - 100)
    policy += "[k=" + std::to_string(policy.size()) + "]\ncreditLimit = 1\nresetSeconds = 60\n\n";
  const auto ask = [&](const std::string& body) {
    return http(port, "POST", "/v1/config/check?as=divvy-ini", body, "", within(120s)).status;
  };
  EXPECT_EQ(ask("[k=v]\n"), 200);
  const int64_t before = resident_bytes(process.pid());
  EXPECT_EQ(ask(policy), 200);
  EXPECT_NE(http(port, "POST", "/v1/overrides", large, "", within(120s)).status, 0);
  int64_t after = INT64_MAX;
  for (const auto limit = soon(); after > before + (10 << 20) && steady_clock::now() < limit;) {
    std::this_thread::sleep_for(10ms);
    after = resident_bytes(process.pid());
  }
  RecordProperty("bytes_that_stay", std::to_string(after - before));
  EXPECT_LE(after - before, 10 << 20);
}

}  // namespace
}  // namespace sluice::tests::bounds_test
