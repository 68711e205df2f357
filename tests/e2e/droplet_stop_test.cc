// The end of the real `sluice droplet`: every request that arrived before the signal is answered,
// then it sends Close 1001. The original's client would take the first answer on its next
// connection for an unanswered request, and would be wrong for ever.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/support/droplet_client.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;

class DropletStop : public testing::TestWithParam<int> {};

// The server is suspended while requests arrive, so that all have arrived before the signal.
TEST_P(DropletStop, AnswersWhatCameBeforeThenCloses) {
  DropletServer server;
  constexpr int requests = 3000;
  const DropletTake take{.bucket = "jar", .limits = {{"lo", 1'000'000}}};
  std::vector<DropletClient> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(server.client());
  for (auto& client : clients) EXPECT_TRUE(client.ask(take).accept);
  Process& process = server.process();
  process.signal(SIGSTOP);
  std::string all;
  for (int i = 0; i < requests; ++i) all += to_frame(binary_frame, to_message(take));
  // The last client ends within a message, which gets no answer.
  for (auto& client : clients) ASSERT_TRUE(client.send(all));
  ASSERT_TRUE(clients.back().send(all.substr(0, 9)));
  // One more client has not been accepted yet.
  auto late = TcpClient::connect(server.port());
  ASSERT_TRUE(late && late->send(std::string(DropletClient::handshake) + all));
  process.signal(GetParam());
  process.signal(SIGCONT);
  for (auto& client : clients) {
    int answers = 0;
    std::optional<Frame> frame = client.read();
    for (; frame && frame->opcode == binary_frame; frame = client.read()) {
      EXPECT_TRUE(read_response(frame->payload).accept);
      ++answers;
    }
    EXPECT_EQ(answers, requests);
    EXPECT_EQ(frame, close_with(1001));
    EXPECT_EQ(client.read_to_end(), "");
  }
  const std::string answered = late->read_to_end();
  EXPECT_TRUE(answered.starts_with("HTTP/1.1 101 ")) << answered.substr(0, 100);
  EXPECT_TRUE(answered.ends_with("\x88\x02\x03\xe9"));
  EXPECT_FALSE(late->was_reset());
  late.reset();
  clients.clear();
  EXPECT_EQ(process.wait(), 0);
}

TEST_P(DropletStop, ClosesIdleClientsWithoutWaitingForThem) {
  DropletServer server;
  std::vector<DropletClient> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(server.client());
  clients[1].send(binary_frame, "unfinished", {.final = false});
  EXPECT_TRUE(clients[1].send(ping_frame, "")) << "it is read";
  EXPECT_EQ(clients[1].read(), (Frame{pong_frame, ""}));
  auto dumb = TcpClient::connect(server.port());
  ASSERT_TRUE(dumb && dumb->send("GET / HT"));
  const auto start = steady_clock::now();
  server.process().signal(GetParam());
  for (auto& client : clients) EXPECT_EQ(client.read(), close_with(1001));
  EXPECT_EQ(dumb->read_to_end(), "");
  EXPECT_EQ(server.process().wait(), 0);  // although no client answers the Close
  EXPECT_LT(steady_clock::now() - start, promised(std::chrono::seconds(3)));
}

std::string name_of_signal(const testing::TestParamInfo<int>& signal) {
  return signal.param == SIGTERM ? "SIGTERM" : "SIGINT";
}

INSTANTIATE_TEST_SUITE_P(Signals, DropletStop, testing::Values(SIGTERM, SIGINT), name_of_signal);

}  // namespace
}  // namespace sluice::tests
