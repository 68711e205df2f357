// How the client library speaks droplet's protocol: what it sends, what it makes of replies, and
// when it connects again. The test plays the server and sets the time.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "testing/client_world.h"
#include "wire/websocket.h"

namespace sluice::droplet {
extern const calls::Dialect client_dialect;

namespace client_dialect_test {
namespace {

using calls::ClientWorld;
using namespace std::chrono_literals;

client_request takes(std::string_view bucket) {
  client_request request;
  request.subject.key = bucket;
  request.subject.limits = {{10, 1s}, {100, 60s}};
  return request;
}

// The reply of a server that accepts the handshake in `head`.
std::string switching(std::string_view head) {
  base::Buffer out;
  const auto accept = wire::read_websocket_handshake(head).accept;
  wire::append_switching_protocols({accept.data(), accept.size()}, out);
  return std::string(out.view());
}

void open(ClientWorld& world) {
  world.accept(0);
  world.receive(0, switching(world.take_sent(0)));
}

TEST(DropletClientDialect, RequestsWaitForTheHandshake) {
  ClientWorld world(client_dialect);
  world.submit(takes("a"), "a");
  world.accept(0);
  const std::string head = world.take_sent(0);
  EXPECT_TRUE(head.starts_with("GET / HTTP/1.1\r\n"));
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4);
  world.receive(0, switching(head) + "\x82\x06\x08\x01\x10\x09\x18\x63");
  EXPECT_EQ(world.closed[0], 1);  // the answer arrived before the request was sent
  EXPECT_EQ(world.ended.count("a"), 0u);
  world.advance(base::milliseconds(600));
  open(world);
  EXPECT_NE(world.take_sent(0), "");
}

TEST(DropletClientDialect, AnswersAreTheBalancesOfThePeriods) {
  ClientWorld world(client_dialect);
  open(world);
  world.submit(takes("a"), "a");
  const std::string sent = world.take_sent(0);
  ASSERT_GT(sent.size(), 6u);
  EXPECT_EQ(sent[0], '\x82');
  EXPECT_TRUE((sent[1] & 0x80) != 0);  // masked
  world.receive(0, "\x82\x06\x08\x01\x10\x09\x18\x63");
  const client_result& result = world.results["a"];
  EXPECT_TRUE(result.is_allowed());
  ASSERT_EQ(result.levels.size(), 2u);
  EXPECT_EQ(result.levels[0].name, "ls");
  EXPECT_EQ(result.levels[0].remaining, 9);
  EXPECT_EQ(result.levels[1].name, "lm");
  EXPECT_EQ(result.levels[1].remaining, 99);
  EXPECT_EQ(result.remaining, 9);
}

TEST(DropletClientDialect, PingsAreAnswered) {
  ClientWorld world(client_dialect);
  open(world);
  world.receive(0, "\x89\x02hi");
  const std::string sent = world.take_sent(0);
  ASSERT_EQ(sent.size(), 8u);
  EXPECT_EQ(sent[0], '\x8a');
}

// The pongs that wait for a server that reads nothing are bounded by 1 MiB.
TEST(DropletClientDialect, DisconnectsFromAServerThatPingsAndReadsNothing) {
  ClientWorld world(client_dialect);
  open(world);
  world.socket_room = 0;
  const std::string ping = "\x89\x7d" + std::string(125, 'p');
  constexpr int fit = (1 << 20) / 131;  // a pong is masked: 2 + 4 + 125 bytes
  for (int i = 0; i < fit; ++i) world.receive(0, ping);
  EXPECT_EQ(world.closed.count(0), 0u);
  world.receive(0, ping);
  EXPECT_EQ(world.closed[0], 1);
  EXPECT_EQ(world.core.output_bytes(0), 0u);
}

TEST(DropletClientDialect, RejectsLimitsThatAreNotItsPeriods) {
  ClientWorld world(client_dialect);
  client_request request = takes("a");
  request.subject.limits = {{10, 2s}};
  world.submit(request, "window");
  request.subject.limits = {{10, 1s}, {11, 1s}};
  world.submit(request, "twice");
  request.subject.limits = {{int64_t{1} << 32, 1s}};
  world.submit(request, "quota");
  for (const char* name : {"window", "twice", "quota"})
    EXPECT_EQ(world.results[name].error, client_errc::bad_request) << name;
}

// When the connection is lost, calls under way fail. The next answer belongs to the next call:
// droplet's own client forgets to do this, and its answers go to the wrong calls from then on.
TEST(DropletClientDialect, ALostConnectionFailsCallsInFlightAndShiftsNoReply) {
  ClientWorld world(client_dialect);
  open(world);
  world.submit(takes("a"), "a");
  world.fail(0, "lost");
  EXPECT_EQ(world.results["a"].error, client_errc::disconnected);
  world.submit(takes("b"), "b");
  world.advance(base::milliseconds(600));
  open(world);
  world.receive(0, "\x82\x04\x08\x01\x10\x05");
  EXPECT_EQ(world.results["b"].remaining, 5);
}

// As in droplet's own client: the first wait is 600 ms, each later one 1.2 times as long, in whole
// milliseconds.
TEST(DropletClientDialect, RetriesFifteenTimesAndThenFailsForGood) {
  std::vector<client_connection_report::event> events;
  client_options options;
  options.on_connection = [&](const client_connection_report& report) {
    events.push_back(report.what);
  };
  ClientWorld world(client_dialect, 1, options);
  world.refuses = true;
  world.submit(takes("a"), "a", {.timeout = 3600s});
  world.fail(0);
  world.advance(base::seconds(3'000));
  std::vector<int64_t> waits;
  for (size_t i = 1; i < world.tries.size(); ++i)
    waits.push_back(world.tries[i].ms - world.tries[i - 1].ms);
  EXPECT_EQ(waits, (std::vector<int64_t>{600, 720, 864, 1'036, 1'243, 1'491, 1'789, 2'146, 2'575,
                                         3'090, 3'708, 4'449, 5'338, 6'405, 7'686}));
  EXPECT_EQ(world.results["a"].error, client_errc::unavailable);
  EXPECT_EQ(events.back(), client_connection_report::event::gave_up);
  world.submit(takes("b"), "b");
  EXPECT_EQ(world.results["b"].error, client_errc::unavailable);
  EXPECT_EQ(world.core.pending(), 0u);
}

TEST(DropletClientDialect, AnOpenConnectionResetsTheReconnectDelays) {
  ClientWorld world(client_dialect);
  world.fail(0);
  world.advance(base::milliseconds(600));
  world.fail(0);
  world.advance(base::milliseconds(720));
  open(world);
  world.fail(0);
  world.tries.clear();
  world.advance(base::milliseconds(600));
  EXPECT_EQ(world.tries.size(), 1u);
}

TEST(DropletClientDialect, BytesOfAnotherProtocolEndTheConnection) {
  for (const char* text : {"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", "SSH-2.0-x\r\n"}) {
    ClientWorld world(client_dialect);
    world.accept(0);
    world.receive(0, text);
    EXPECT_EQ(world.closed[0], 1) << text;
  }
  ClientWorld world(client_dialect);
  open(world);
  world.submit(takes("a"), "a");
  world.receive(0, "\x81\x02hi");  // a text frame; replies are binary
  EXPECT_EQ(world.results["a"].error, client_errc::bad_reply);
}

}  // namespace
}  // namespace client_dialect_test
}  // namespace sluice::droplet
