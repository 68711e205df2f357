// After warming up, gRPC calls over HTTP/2 allocate nothing, and an idle connection holds little.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "tests/timed/allocations.h"
#include "wire/grpc_server.h"
#include "wire/http2_peer_test.h"

namespace sluice::tests {
namespace {

using wire::GrpcServerSession;
using wire::GrpcWorker;
using wire::http2_peer::Peer;

constexpr uint32_t calls_at_a_time = 50;

// The input of `calls_at_a_time` calls. The first one has the stream `stream`.
std::string calls(Peer& peer, uint32_t stream) {
  const std::string message(100, 'm');
  std::string body(wire::grpc_prefix_bytes, '\0');
  wire::GrpcPrefix{0, 100}.write(body.data());
  body += message;
  std::string in = wire::http2_peer::window_update(0, 100'000);
  for (uint32_t i = 0; i < calls_at_a_time; ++i)
    in += peer.request(stream + 2 * i, Peer::grpc("/p.S/M", {{"grpc-timeout", "20m"}}), body);
  return in;
}

size_t serve(GrpcServerSession& session, std::string_view in, base::Buffer& out) {
  size_t answered = 0;
  session.receive(in, {});
  for (const wire::Http2Event& event : session.events()) {
    const wire::GrpcCall call = session.call(event.request);
    session.answer(event.request,
                   ++answered % 5 == 0 ? wire::GrpcStatus::unavailable : wire::GrpcStatus::ok,
                   "a text for people", call.message);
  }
  out.clear();
  session.http().write(out);
  return answered;
}

TEST(Http2Allocation, CallsAllocateNothing) {
  GrpcWorker worker;
  GrpcServerSession session(worker);
  base::Buffer out;
  Peer peer;
  session.receive(wire::http2_peer::hello() + wire::http2_peer::settings_ack(), {});
  std::vector<std::string> rounds;
  for (uint32_t i = 0; i < 100; ++i) rounds.push_back(calls(peer, 1 + 2 * calls_at_a_time * i));
  size_t answered = 0;
  for (size_t i = 0; i < 20; ++i) answered += serve(session, rounds[i], out);
  const uint64_t taken = worker.pool.system_blocks();
  Allocations allocations;
  for (size_t i = 20; i < 100; ++i) answered += serve(session, rounds[i], out);
  EXPECT_EQ(allocations.count(), 0u) << "over " << 80 * calls_at_a_time << " calls";
  EXPECT_EQ(worker.pool.system_blocks(), taken);
  EXPECT_EQ(answered, 100u * calls_at_a_time);
  EXPECT_GT(worker.pool.kept_bytes(), 0u);
}

TEST(Http2Allocation, MessagesOfACallThatStreamsAllocateNothing) {
  GrpcWorker worker;
  GrpcServerSession session(worker, {}, [](std::string_view) { return true; });
  base::Buffer out;
  Peer peer;
  std::string body(wire::grpc_prefix_bytes, '\0');
  wire::GrpcPrefix{0, 100}.write(body.data());
  body += std::string(100, 'm');
  session.receive(wire::http2_peer::hello() + wire::http2_peer::settings_ack() +
                      peer.headers(1, Peer::grpc("/p.S/M"), false),
                  {});
  const uint32_t number = session.events()[0].request;
  const std::string in = wire::http2_peer::data(1, body, false) +
                         wire::http2_peer::window_update(0, 105) +
                         wire::http2_peer::window_update(1, 105);
  size_t sent = 0;
  const auto serve = [&] {
    session.receive(in, {});
    std::string_view message;
    while (session.next(number, message) == wire::GrpcNext::message) {
      ASSERT_EQ(message.size(), 100u);
      ASSERT_TRUE(session.send(number, message));
      ++sent;
    }
    out.clear();
    session.http().write(out);
  };
  for (int i = 0; i < 1'000; ++i) serve();
  Allocations allocations;
  for (int i = 0; i < 1'000; ++i) serve();
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_EQ(sent, 2'000u);
}

TEST(Http2Allocation, AnIdleConnectionTakesLittle) {
  GrpcWorker worker;
  base::Buffer out;
  const std::string begin = wire::http2_peer::hello() + wire::http2_peer::settings_ack();
  out.prepare(4096);
  Allocations allocations;
  GrpcServerSession session(worker);
  session.receive(begin, {});
  session.http().write(out);
  EXPECT_GT(allocations.bytes(), 0u);
  EXPECT_LT(allocations.bytes(), 40u << 10);
}

}  // namespace
}  // namespace sluice::tests
