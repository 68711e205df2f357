// Clients that misuse Divvy's protocol against the real server: other clients keep their counters
// and are answered meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/process_stats.h"

namespace sluice::tests {
namespace {

using namespace std::chrono_literals;

class Harm : public testing::Test {
 protected:
  Harm() : server_("rules.ini", hundred_policy), bystander_(server_.client()) {
    expect_bystander_served();
  }
  ~Harm() override { expect_bystander_served(); }

  // Sends one more request of another client, on a connection that is open all the time: it must
  // get the next unit of its counter, in time.
  void expect_bystander_served() {
    try {
      const std::string reply = bystander_.ask("HIT k=v who=bystander", within(2s));
      EXPECT_TRUE(grants(reply, --left_)) << reply << " where " << left_ << " are left";
    } catch (const std::exception& e) {
      ADD_FAILURE() << "the bystander was not answered: " << e.what();
    }
  }

  DivvyServer server_;
  TcpClient bystander_;
  long left_ = 100;
};

TEST_F(Harm, ALineWithoutAnEnd) {
  auto client = server_.client();
  const std::string part(64 << 10, 'x');
  client.send("HIT k=v who=");
  for (size_t sent = 0; sent < (2 << 20); sent += part.size()) {
    if (!client.send(part)) break;
    if (sent % (512 << 10) == 0) expect_bystander_served();
  }
  EXPECT_EQ(client.read_to_end(), "ERR unknown \"Line is longer than 1048576 bytes.\"\n");
}

TEST_F(Harm, ALineOfTwoMebibytes) {
  auto client = server_.client();
  client.send("HIT k=v who=" + std::string(2 << 20, 'x') + "\n");
  EXPECT_EQ(client.read_to_end(), "ERR unknown \"Line is longer than 1048576 bytes.\"\n");
}

TEST_F(Harm, TenThousandHalfLines) {
  if (!allow_open_files(3000)) GTEST_SKIP() << "too few descriptors are allowed";
  std::vector<TcpClient> held;
  for (int i = 0; i < 10'000; ++i) {
    auto client = server_.client();
    ASSERT_TRUE(client.send("HIT k=v who=bystan"));
    if (i % 5 == 0)
      held.push_back(std::move(client));
    else
      client.abort();  // within a line; a reset leaves no socket in TIME_WAIT
    if (i % 1000 == 0) expect_bystander_served();
  }
  EXPECT_EQ(held.size(), 2000u);
  // The half lines were not charged, and can still be completed.
  EXPECT_TRUE(grants(held.front().ask("der2"), 99));
  EXPECT_TRUE(grants(held.back().ask("der3"), 99));
  for (auto& client : held) client.abort();
}

TEST_F(Harm, SurvivesBytesThatAreNotText) {
  auto client = server_.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v who=\xFF\xFE"), 99));
  EXPECT_TRUE(grants(client.ask("HIT k=v who=\xEF\xBF\xBD\xEF\xBF\xBD"), 98));
  EXPECT_TRUE(grants(client.ask(std::string("HIT k=v who=a\0b", 15)), 99));
  EXPECT_TRUE(grants(client.ask("HIT k=v who=a"), 99));
  EXPECT_EQ(client.ask(std::string(100, '\0')),
            "ERR unknown-command \"Unrecognized command: " + std::string(100, '\0') + "\"");
  EXPECT_EQ(client.read_to_end(), "");
}

// For any bytes, each connection gets well-formed replies and then ends.
TEST_F(Harm, RandomBytes) {
  std::mt19937_64 random(20240601);
  const std::string letters = "HIT k=v\"=\n\r\t \xC3\xA9\xED\xA0\x80\xF0\x9F\x98\x80\0who";
  for (int round = 0; round < 60; ++round) {
    std::string bytes(1 + random() % 4000, '\0');
    for (char& c : bytes)
      c = round % 3 == 0 ? static_cast<char>(random()) : letters[random() % letters.size()];
    if (round % 2 == 0) bytes.insert(0, "HIT k=v who=random\n");
    auto client = server_.client();
    client.send(bytes);
    client.half_close();
    std::string replies = client.read_to_end();
    if (round % 2 == 0) {
      EXPECT_TRUE(replies.starts_with("OK ")) << replies;
    }
    // The last reply may echo any byte but a line feed; those before it are decisions.
    ASSERT_TRUE(replies.empty() || replies.back() == '\n');
    while (!replies.empty()) {
      const size_t end = replies.find('\n') + 1;
      const std::string line = replies.substr(0, end);
      replies.erase(0, end);
      EXPECT_TRUE(line.starts_with("OK ") || (line.starts_with("ERR ") && replies.empty())) << line;
    }
    if (round % 10 == 0) expect_bystander_served();
  }
}

// The server does not read from a client that does not read, once its replies fill the sockets: it
// holds at most one batch of them.
TEST_F(Harm, BoundsMemoryForAClientThatReadsNoReplies) {
  const pid_t pid = server_.process().pid();
  {
    auto warm = server_.client();
    warm.send("HIT a=b\n");
    warm.read_line();
  }
  const int64_t before = resident_bytes(pid);
  auto client = server_.client();
  client.limit_receive_buffer(64 << 10);
  constexpr int requests = 100'000;
  std::string bytes;
  for (int i = 0; i < requests; ++i) bytes += "HIT a=b actor=greedy\n";
  std::string_view rest = bytes;
  std::thread sender([&] {
    try {
      EXPECT_TRUE(client.send(rest, within(60s)));
      client.half_close();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  });
  for (int i = 0; i < 40; ++i) {
    expect_bystander_served();
    std::this_thread::sleep_for(10ms);
  }
  if (!sanitized) {
    EXPECT_LT(resident_bytes(pid) - before, 2 << 20);
  }
  // When the client reads, it gets all replies, in order.
  long expected = 1'000'000'000;
  for (int i = 0; i < requests; ++i) {
    const auto reply = client.read_line(within(60s));
    if (!reply || !grants(*reply, --expected)) {
      ADD_FAILURE() << "reply " << i << ": " << reply.value_or("(end)");
      break;
    }
  }
  EXPECT_EQ(client.read_to_end(), "");
  sender.join();
}

TEST_F(Harm, ResetsInTheMiddleOfALineAndOfReplies) {
  for (int i = 0; i < 300; ++i) {
    auto client = server_.client();
    std::string requests;
    for (int j = 0; j < i; ++j) requests += "HIT a=b actor=leaver\n";
    client.send(requests + "HIT a=b act");
    client.abort();
    if (i % 30 == 0) expect_bystander_served();
  }
}

// The error reaches a client that keeps sending: the close does not become a reset, which would
// destroy it.
TEST_F(Harm, AnErrorReachesAClientThatKeepsSending) {
  auto client = server_.client();
  ASSERT_TRUE(client.send("HIT k=v who=sender\nNONSENSE\n"));
  const std::string more = "HIT k=v who=sender\nHIT k=v who=sender\n";
  for (int i = 0; i < 20; ++i) {
    client.send(more);
    std::this_thread::sleep_for(5ms);
  }
  client.half_close();
  const std::string replies = client.read_to_end();
  EXPECT_FALSE(client.was_reset());
  EXPECT_TRUE(replies.starts_with("OK true 99 ")) << replies;
  EXPECT_TRUE(replies.ends_with("ERR unknown-command \"Unrecognized command: NONSENSE\"\n"))
      << replies;
  EXPECT_EQ(std::count(replies.begin(), replies.end(), '\n'), 2) << replies;
  // Lines after the error were not charged.
  EXPECT_TRUE(grants(server_.client().ask("HIT k=v who=sender"), 98));
}

// If the client sends more than the server drops, the server closes; the client can still read the
// error.
TEST_F(Harm, AnErrorReachesAClientThatFloods) {
  auto client = server_.client();
  ASSERT_TRUE(client.send("NONSENSE\n"));
  const std::string more(64 << 10, 'x');
  for (int i = 0; i < 512 && client.send(more); ++i) {
    if (i % 64 == 0) expect_bystander_served();
  }
  EXPECT_EQ(client.read_to_end(), "ERR unknown-command \"Unrecognized command: NONSENSE\"\n");
}

}  // namespace
}  // namespace sluice::tests
