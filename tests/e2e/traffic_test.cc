// Many requests at once to the real server: all are answered, in order, and exactly as many are
// allowed as the limit says.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

TEST(Traffic, TenThousandRequestsInOneWriteAreAnsweredInOrder) {
  const DivvyServer server("rules.ini",
                           "[deny=1]\ncreditLimit = 0\n"
                           "[default]\ncreditLimit = 9000\nresetSeconds = 600\n");
  auto client = server.client();
  constexpr int requests = 10'000;
  std::string bytes;
  for (int i = 0; i < requests; ++i) bytes += i % 10 == 3 ? "HIT deny=1\n" : "HIT\n";
  // The client reads while it sends. It is joined before the client ends.
  const std::jthread sender([&] {
    try {
      EXPECT_TRUE(client.send(bytes));
      client.half_close();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  });
  long left = 9000;
  for (int i = 0; i < requests; ++i) {
    const auto reply = client.read_line();
    ASSERT_TRUE(reply) << i;
    if (i % 10 == 3)
      ASSERT_EQ(*reply, "OK false 0 -1") << i;
    else
      ASSERT_TRUE(grants(*reply, --left)) << i << ": " << *reply;
  }
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_FALSE(client.was_reset());
}

// Eight connections send `line` at the same time, `each` times. Returns all replies.
std::vector<std::string> hammer(const DivvyServer& server, const std::string& line, int each) {
  constexpr int threads = 8;
  std::vector<TcpClient> clients;
  for (int i = 0; i < threads; ++i) clients.push_back(server.client());
  std::vector<std::vector<std::string>> replies(threads);
  std::atomic<int> ready{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      auto& client = clients[static_cast<size_t>(t)];
      auto& mine = replies[static_cast<size_t>(t)];
      ++ready;
      while (ready < threads) std::this_thread::yield();
      try {
        // Half of the connections send one request at a time, the others 50 in a write.
        const int batch = t % 2 == 0 ? 1 : 50;
        for (int i = 0; i < each; i += batch) {
          std::string bytes;
          for (int j = 0; j < batch; ++j) bytes += line + "\n";
          client.send(bytes);
          for (int j = 0; j < batch; ++j) mine.push_back(client.read_line().value_or("(end)"));
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  for (auto& thread : all) thread.join();
  std::vector<std::string> together;
  for (const auto& some : replies) together.insert(together.end(), some.begin(), some.end());
  return together;
}

TEST(Traffic, AllowsExactlyTheQuota) {
  const DivvyServer server("rules.ini",
                           "[k=v]\ncreditLimit = 4321\nresetSeconds = 3600\n"
                           "[default]\ncreditLimit = 0\n",
                           {.arguments = {"--workers", "4"}});
  const auto replies = hammer(server, "HIT k=v", 1000);
  ASSERT_EQ(replies.size(), 8000u);
  std::vector<bool> seen(4321);
  long allowed = 0, denied = 0;
  for (const std::string& reply : replies) {
    if (denies(reply)) {
      ++denied;
      continue;
    }
    ASSERT_TRUE(reply.starts_with("OK true ")) << reply;
    const auto left = static_cast<size_t>(std::stoul(reply.substr(8)));
    ASSERT_LT(left, seen.size());
    EXPECT_FALSE(seen[left]) << left << " was left twice";
    seen[left] = true;
    ++allowed;
  }
  EXPECT_EQ(allowed, 4321);
  EXPECT_EQ(denied, 8000 - 4321);
}

// A canary and a stop rule with the same operation, limit and window have one counter, which a
// request charges twice. The request is allowed if its second charge is.
TEST(Traffic, ACanaryAndItsStopRuleShareOneCounter) {
  const std::string rule = R"({"operation": {"k": "v"}, "creditLimit": 1000, "resetSeconds": 3600)";
  const DivvyServer server("rules.json",
                           R"({"overrides": [)" + rule + R"(, "matchPolicy": "canary"},)" + rule +
                               R"(}], "default": {"operation": {}, "creditLimit": 0}})",
                           {.arguments = {"--workers", "4"}});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 998));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 996));
  const auto replies = hammer(server, "HIT k=v", 200);
  std::vector<bool> seen(1000);
  long allowed = 0;
  for (const std::string& reply : replies) {
    if (denies(reply)) continue;
    ASSERT_TRUE(reply.starts_with("OK true ")) << reply;
    const auto left = static_cast<size_t>(std::stoul(reply.substr(8)));
    ASSERT_LT(left, seen.size());
    EXPECT_FALSE(seen[left]) << left << " was left twice";
    seen[left] = true;
    ++allowed;
  }
  // 996 units were left for pairs of charges, first the canary's, then the deciding one. Each of
  // the four workers may have been between the two when the last unit was taken.
  EXPECT_LE(allowed, 498);
  EXPECT_GE(allowed, 498 - 4);
  EXPECT_TRUE(denies(client.ask("HIT k=v")));
}

}  // namespace
}  // namespace sluice::tests
