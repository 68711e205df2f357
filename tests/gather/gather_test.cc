// A worker with a store that answers later (world.h), and connections with several batches under
// way.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "tests/gather/session.h"
#include "tests/gather/world.h"
#include "tests/support/comes.h"

namespace sluice::tests {
namespace {

TEST(Gather, RepliesLeaveInTheOrderOfTheStoresAnswers) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a b\n2 each c d\n3 all e\n");
  ASSERT_TRUE(world.store.await_waiting(3))
      << "the connection is read while the store has not answered";
  world.store.answer("c");
  EXPECT_EQ(read_until(client, "2 yes yes\n"), "hello\n2 yes yes\n");
  world.store.answer("e");
  EXPECT_EQ(read_until(client, "\n"), "3 yes\n");
  send(client, "4 each f f f\n");
  ASSERT_TRUE(world.store.await_waiting(2));
  world.store.answer("f");
  EXPECT_EQ(read_until(client, "\n"), "4 yes yes no\n");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "\n"), "1 yes\n");
}

TEST(Gather, RepliesOfAnOrderedSessionKeepTheirOrder) {
  World world;
  const int client = world.client("gather_in_order");
  send(client, "1 all a b\n2 each c d\n3 all e\n");
  for (const char* key : {"a", "c", "e"}) {
    ASSERT_TRUE(world.store.await_waiting(1));
    ASSERT_EQ(world.store.waiting(), std::vector<std::string>{key}) << "one batch at a time";
    world.store.answer(key);
  }
  EXPECT_EQ(read_until(client, "3 yes\n"), "hello\n1 yes\n2 yes yes\n3 yes\n");
}

TEST(Gather, TheFarewellFollowsAllOutstandingReplies) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n3 end\n4 all c\n");
  ASSERT_TRUE(world.store.await_waiting(2)) << "nothing after the end is taken";
  world.store.answer("b");
  EXPECT_EQ(read_until(client, "2 yes\n"), "hello\n2 yes\n");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "1 yes\nfarewell\n(end)");
}

TEST(Gather, AClientThatSendsNoMoreHasAllItsReplies) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n");
  ASSERT_EQ(::shutdown(client, SHUT_WR), 0);
  ASSERT_TRUE(world.store.await_waiting(2));
  world.store.answer("b");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "hello\n2 yes\n1 yes\n(end)");
}

TEST(Gather, AStopAnswersBatchesInFlight) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n");
  ASSERT_TRUE(world.store.await_waiting(2));
  world.worker->stop(std::chrono::minutes(2));
  world.store.answer("b");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "hello\n2 yes\n1 yes\ngoodbye\n(end)");
}

// What is under way may be charged, so the client receives the reply before the goodbye.
TEST(Gather, AStopAnswersBatchesInFlightOfAnOrderedSession) {
  World world;
  const int client = world.client("gather_in_order");
  send(client, "1 hold a\n2 each b\n");
  ASSERT_TRUE(world.store.await_waiting(1));
  world.worker->stop(std::chrono::minutes(2));
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "hello\n1 yes\ngoodbye\n(end)");
}

TEST(Gather, ForgetsAllBatchesOfALostConnection) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n3 all c\n");
  ASSERT_TRUE(world.store.await_waiting(3));
  world.store.answer("b");
  ASSERT_EQ(read_until(client, "2 yes\n"), "hello\n2 yes\n");
  world.worker->stop(std::chrono::milliseconds(0));
  ASSERT_TRUE(world.store.await_abandoned(2));
  EXPECT_TRUE(world.store.waiting().empty());
}

// At the bound the connection is not read, so that what waits for the store is bounded. It is read
// again when a batch is answered.
TEST(Gather, BoundsTheBatchesInFlight) {
  constexpr size_t most = base::bounds::batches_per_connection_max;
  World world;
  const int client = world.client("gather"), other = world.client("gather");
  std::string text;
  for (size_t i = 0; i < 2 * most; ++i)
    text += std::to_string(i) + " all k" + std::to_string(i) + "\n";
  send(client, text);
  ASSERT_TRUE(world.store.await_waiting(most));
  // This shows that the worker has had another turn, without reading more from the first client.
  send(other, "o all o\n");
  ASSERT_TRUE(world.store.await_waiting(most + 1));
  world.store.answer("o");
  EXPECT_EQ(read_until(other, "o yes\n"), "hello\no yes\n");
  EXPECT_EQ(world.store.waiting().size(), most);
  world.store.answer("k3");
  ASSERT_TRUE(world.store.await_waiting(most)) << "another one is taken in its place";
  std::set<std::string> left;
  for (size_t i = 0; i < 2 * most; ++i) left.insert("k" + std::to_string(i));
  left.erase("k3");
  while (!left.empty()) {
    ASSERT_TRUE(world.store.await_waiting(std::min(left.size(), most)));
    const std::string key = world.store.waiting().back();
    world.store.answer(key);
    left.erase(key);
  }
  std::string all;
  const auto lines = [&all] { return std::count(all.begin(), all.end(), '\n'); };
  while (lines() < ptrdiff_t{2 * most + 1} && !all.ends_with(")")) all += read_until(client, "\n");
  EXPECT_EQ(lines(), ptrdiff_t{2 * most + 1}) << all;
}

// A send timeout also counts while a batch of that client is under way.
TEST(Gather, ClosesAClientThatReadsNothingDuringABatch) {
  for (const char* protocol : {"gather", "gather_in_order"}) {
    SCOPED_TRACE(protocol);
    World world;
    const int client = world.client(protocol, {.send = base::milliseconds(50)}, 1);
    send(client, "0 echo 1000000\n1 all a\n");
    ASSERT_TRUE(world.store.await_abandoned(1));
  }
}

// If there is no memory to set a batch's input aside, the batch keeps the connection's buffer, and
// the connection is not read until the batch is answered.
TEST(Gather, ABatchKeepsTheBufferIfItsInputCannotBeCopied) {
  World world;
  const int client = world.client("gather", {}, 1), other = world.client("gather");
  send(client, "0 pad 1000000\n1 all a\n2 all b\n3 all c\n");
  ASSERT_TRUE(world.store.await_waiting(3));
  send(other, "0 hoard " + std::to_string(base::bounds::unfinished_bytes_max / 2) + "\n");
  ASSERT_EQ(read_until(other, "\n"), "hello\n");
  send(client, "4 all d\n5 all e\n");
  ASSERT_TRUE(world.store.await_waiting(4)) << "5 is not received";
  // The first reply fills the socket, so the replies to 2 and 3 wait after it.
  for (const char* key : {"a", "b", "c"}) world.store.answer(key);
  std::string all;
  const auto lines = [&all] { return std::count(all.begin(), all.end(), '\n'); };
  while (lines() < 4 && !all.ends_with(")")) all += read_until(client, "\n");
  EXPECT_EQ(world.store.waiting(), std::vector<std::string>{"d"});
  world.store.answer("d");
  while (lines() < 5 && !all.ends_with(")")) all += read_until(client, "\n");
  ASSERT_TRUE(world.store.await_waiting(1)) << "5 is received";
  world.store.answer("e");
  while (lines() < 6 && !all.ends_with(")")) all += read_until(client, "\n");
  std::erase(all, '.');
  EXPECT_EQ(all, "hello\n1 yes\n2 yes\n3 yes\n4 yes\n5 yes\n");
}

// What is under way may be charged, so its reply is sent before the message about the timeout.
TEST(Gather, ATimeoutFollowsOutstandingReplies) {
  World world;
  const int client = world.client("gather", {.request = base::milliseconds(50)});
  send(client, "1 all a\n2 al");
  ASSERT_TRUE(world.store.await_waiting(1));
  const auto& closed = world.stats.at(protocol::find("gather").value()).closed_for;
  const auto& timeouts = closed[static_cast<size_t>(engine::Closed::request_timeout)];
  ASSERT_TRUE(comes([&] { return timeouts.read() == 1; }));
  world.store.answer("a");
  const std::string all = read_until(client, "(end)");
  EXPECT_EQ(all.substr(0, 12), "hello\n1 yes\n");
  EXPECT_GT(all.size(), 12 + std::string("(end)").size()) << "why it is closed";
}

// The input that a waiting batch points to does not count as an unfinished request: no other
// connection is closed to make room for it.
TEST(Gather, SetAsideInputDoesNotCountAsAnUnfinishedRequest) {
  World world;
  const auto protocol = protocol::find("gather").value();
  const auto& stats = world.stats.at(protocol);
  // The connection that would be closed: the oldest with a part of a request in a lent buffer.
  const int half = world.client("gather");
  const std::string part = "9 all h" + std::string(3000, 'x');
  send(half, part);
  ASSERT_TRUE(comes([&] { return stats.received.read() == part.size(); }));
  const int hoarder = world.client("gather");
  constexpr size_t most = base::bounds::unfinished_bytes_max - base::bounds::read_bytes_max - 1000;
  send(hoarder, "0 hoard " + std::to_string(most) + "\n");
  ASSERT_EQ(read_until(hoarder, "\n"), "hello\n");
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n");
  ASSERT_TRUE(world.store.await_waiting(1)) << "there is no memory to set aside what 1 points to";
  send(half, "\n");
  ASSERT_TRUE(world.store.await_waiting(2)) << "the part is whole";
  EXPECT_EQ(stats.closed_for[static_cast<size_t>(engine::Closed::request_memory)].read(), 0u);
  world.store.answer("a");
  ASSERT_TRUE(world.store.await_waiting(2)) << "and 2 is received";
}

// Input that a session answers without a request takes a turn of its connection, as a batch does.
TEST(Gather, AFloodOfFramesWithoutRequestsTakesManyTurns) {
  World world;
  constexpr size_t flood = 150, first = 50;  // few enough for a socket that is not read
  const int client = world.client("gather"), other = world.client("gather");
  std::atomic<size_t> pongs{0}, before_other{0};
  GatherSession::at_pong = [&](size_t count) {
    pongs = count;
    if (count == first) send(other, "o all o\n");
  };
  world.store.at_first = [&] { before_other = pongs - first; };
  std::string text;
  for (size_t i = 0; i < flood; ++i) text += "p pong\n";
  send(client, text);
  ASSERT_TRUE(world.store.await_waiting(1));
  EXPECT_LE(before_other, 16u);
  world.store.answer("o");
  std::string all;
  const auto lines = [&all] { return std::count(all.begin(), all.end(), '\n'); };
  while (lines() < ptrdiff_t{1 + flood} && !all.ends_with(")")) all += read_until(client, "\n");
  EXPECT_EQ(lines(), ptrdiff_t{1 + flood});
  GatherSession::at_pong = nullptr;
}

// A client of `gather` or `gather_in_order`, and its lines.
struct RandomClient {
  static constexpr size_t lines = 40;

  // Each line takes one unit of its own keys, so every reply is yes.
  void add_lines(size_t number, const std::function<size_t(size_t)>& dice) {
    for (size_t line = 0; line < lines; ++line) {
      const std::string id = std::to_string(number) + "." + std::to_string(line);
      ids.push_back(id);
      text += id + (dice(2) == 0 ? " all" : " each");
      for (size_t n = 1 + dice(3); n > 0; --n)
        text += " k" + id + "." + std::to_string(n) + std::string(dice(30) == 0 ? 3000 : 1, 'x');
      text += '\n';
    }
  }
  void send_in_pieces(const std::function<size_t(size_t)>& dice) const {
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t n = std::min(rest.size(), 1 + dice(2000));
      send(fd, rest.substr(0, n));
      rest.remove_prefix(n);
    }
  }
  void receive() {
    char buffer[4096];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) got.append(buffer, static_cast<size_t>(n));
  }
  bool is_done() const { return std::count(got.begin(), got.end(), '\n') == 1 + ptrdiff_t{lines}; }
  // The ids of the replies, which follow the greeting.
  std::vector<std::string> answered_ids() const {
    std::vector<std::string> all;
    for (size_t at = got.find('\n') + 1; at < got.size(); at = got.find('\n', at) + 1)
      all.push_back(got.substr(at, got.find(' ', at) - at));
    return all;
  }

  int fd;
  bool in_order;
  std::string text{}, got{};
  std::vector<std::string> ids{};
};

// Clients of both protocols send their lines in pieces, and the store answers in any order. Each
// line must get its reply, and `gather_in_order` must reply in order. All are granted.
TEST(Gather, LosesAndMixesUpNothing) {
  std::mt19937 random(3);
  const auto dice = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  World world;
  world.store.in_steps = true;
  std::vector<RandomClient> clients;
  for (size_t i = 0; i < 6; ++i) {
    const bool in_order = i % 2 == 1;
    RandomClient& client = clients.emplace_back(
        RandomClient{world.client(in_order ? "gather_in_order" : "gather"), in_order});
    client.add_lines(i, dice);
    client.send_in_pieces(dice);
  }
  const auto deadline = soon();
  while (!std::all_of(clients.begin(), clients.end(),
                      [](const RandomClient& client) { return client.is_done(); })) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    const auto waiting = world.store.waiting();
    if (!waiting.empty()) world.store.answer(waiting[dice(waiting.size())]);
    for (RandomClient& client : clients) client.receive();
  }
  for (RandomClient& client : clients) {
    EXPECT_EQ(client.got.find(" no"), std::string::npos);
    std::vector<std::string> ids = client.answered_ids();
    if (!client.in_order) {
      std::sort(ids.begin(), ids.end());
      std::sort(client.ids.begin(), client.ids.end());
    }
    EXPECT_EQ(ids, client.ids);
  }
}

}  // namespace
}  // namespace sluice::tests
