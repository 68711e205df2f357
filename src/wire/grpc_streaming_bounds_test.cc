// Bounds of streaming calls at the gRPC server: bytes that are held, windows, floods.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/heap.h"
#include "wire/grpc_server_test.h"
#include "wire/http2_peer_test.h"

namespace sluice::wire::grpc_streaming_bounds_test {
namespace {

using grpc_peer::framed;
using grpc_peer::is_streamed;
using grpc_peer::messages_of;
using grpc_peer::stream_headers;
using grpc_peer::StreamServer;
using grpc_peer::Texts;
using http2_peer::data;
using http2_peer::hello;
using http2_peer::Peer;
using http2_peer::rst_stream;
using http2_peer::settings_ack;
using http2_peer::window_update;
using tests::heap_bytes;

// ---- Bytes and windows ----

TEST(GrpcStreamingBounds, ResetsACallWhoseClientReadsNothing) {
  StreamServer server({.connection_bytes = 100'000}, {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  const uint32_t number = server.begin(1), other = server.begin(3);
  const std::string message(10'000 - grpc_prefix_bytes, 'm');
  size_t sent = 0;
  while (server.session.send(number, message)) {
    server.flush();
    EXPECT_LE(server.held(), 100'000u);
    ASSERT_LT(++sent, 20u);
  }
  EXPECT_EQ(sent, 9u);  // the rest of the bound is used by the calls' headers
  EXPECT_FALSE(server.session.is_waiting(number));
  server.flush();
  EXPECT_EQ(server.peer.answers[1].reset, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_LT(server.held(), 1'000u);
  ASSERT_TRUE(server.session.send(other, message));
  server.exchange(window_update(3, 20'000));
  EXPECT_EQ(server.peer.answers[3].body, framed(message));
  server.session.answer(other, GrpcStatus::ok, "", "");
  server.flush();
  EXPECT_TRUE(server.peer.answers[3].ended);
  EXPECT_EQ(server.held(), 0u);
  EXPECT_EQ(server.session.http().unanswered(), 0u);
}

TEST(GrpcStreamingBounds, AnEndThatDoesNotFitResetsTheCall) {
  StreamServer server({.connection_bytes = 10'000}, {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  const uint32_t number = server.begin(1);
  ASSERT_TRUE(server.session.send(number, std::string(9'700, 'm')));
  server.session.answer(number, GrpcStatus::internal, std::string(4'000, 't'), "");
  server.flush();
  EXPECT_EQ(server.peer.answers[1].reset, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(server.held(), 0u);
}

TEST(GrpcStreamingBounds, AnEndMayUseTheMemoryOfUntakenMessages) {
  StreamServer server({.connection_bytes = 10'000});
  const uint32_t number = server.begin(1);
  ASSERT_TRUE(server.session.send(number, "x"));
  server.exchange(data(1, std::string(9'000, '\0'), false));
  EXPECT_GT(server.held(), 9'000u);
  server.session.answer(number, GrpcStatus::internal, std::string(4'000, 't'), "");
  server.flush();
  EXPECT_EQ(server.peer.answers[1].trailer("grpc-message"), std::string(4'000, 't'));
  EXPECT_EQ(server.held(), 0u);
}

TEST(GrpcStreamingBounds, SentMessagesFreeTheirMemory) {
  StreamServer server({.connection_bytes = 60'000}, {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  const uint32_t number = server.begin(1);
  const size_t begun = server.held();
  size_t blocks = 0;
  Texts expected;
  const auto send = [&](int i) {
    expected.push_back(std::string(10'000 - grpc_prefix_bytes, static_cast<char>('a' + i % 26)));
    ASSERT_TRUE(server.session.send(number, expected.back())) << i;
    if (i == 20) blocks = server.worker.pool.blocks();
  };
  // The window always opens within a message, and never for all bytes that wait.
  send(0);
  send(1);
  server.exchange(window_update(1, 7'000) + window_update(0, 1 << 30));
  for (int i = 2; i < 500; ++i) {
    send(i);
    if (HasFatalFailure()) return;
    server.exchange(window_update(1, 10'000));
    ASSERT_LE(server.held(), 60'000u);
  }
  EXPECT_EQ(server.worker.pool.blocks(), blocks);
  server.exchange(window_update(1, 20'000));
  EXPECT_EQ(messages_of(server.peer.answers[1].body), expected);
  EXPECT_EQ(server.held(), begun);
  server.session.drop(number);
  server.flush();
  EXPECT_EQ(server.held(), 0u);
}

TEST(GrpcStreamingBounds, TheBoundOfTheWorkerHoldsForMessagesOfAllItsSessions) {
  GrpcWorker worker(50'000);
  GrpcServerSession first(worker, {}, is_streamed), second(worker, {}, is_streamed);
  Peer one, two;
  const auto begin = [](GrpcServerSession& session, Peer& peer) {
    session.receive(hello({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}) + settings_ack() +
                        peer.headers(1, stream_headers(), false),
                    {});
    return session.events()[0].request;
  };
  const uint32_t a = begin(first, one), b = begin(second, two);
  EXPECT_TRUE(first.send(a, std::string(40'000, 'm')));
  EXPECT_FALSE(second.send(b, std::string(40'000, 'm')));
  EXPECT_EQ(worker.pool.held_bytes(),
            first.http().held_bytes() + second.http().held_bytes() + 2 * http2_stream_bytes);
  first.drop(a);
  EXPECT_EQ(worker.pool.held_bytes(), 2 * http2_stream_bytes);
  base::Buffer out;
  for (GrpcServerSession* session : {&first, &second}) session->http().write(out);
  EXPECT_EQ(worker.pool.held_bytes(), 0u);  // the streams are reset
}

TEST(GrpcStreamingBounds, BoundsUntakenMessages) {
  StreamServer server({.connection_bytes = 100'000, .body_bytes = 50'000});
  const uint32_t number = server.begin(1);
  for (int i = 0; i < 4; ++i) server.exchange(data(1, std::string(15'000, '\0'), false));
  EXPECT_LT(server.held(), 1'000u);  // the fourth did not fit
  EXPECT_EQ(server.session.http().dropped_bodies(), 1u);
  const uint64_t window = server.peer.window_updates[1];
  for (int i = 0; i < 3; ++i) server.exchange(data(1, std::string(15'000, '\0'), false));
  EXPECT_EQ(server.peer.window_updates[1], window);
  EXPECT_EQ(server.take(number), (std::pair{Texts{}, GrpcNext::refused}));
  server.flush();
  EXPECT_EQ(server.peer.answers[1].header("grpc-status"), "8");
  EXPECT_EQ(server.held(), 0u);
  // The same after a message that was taken.
  server.begin(5);
  server.exchange(data(5, framed("x") + std::string(10'000, '\0'), false));
  std::string_view message;
  EXPECT_EQ(server.session.next(server.events.back().request, message), GrpcNext::message);
  for (int i = 0; i < 4; ++i) server.exchange(data(5, std::string(15'000, '\0'), false));
  EXPECT_EQ(server.take(server.events.back().request), (std::pair{Texts{}, GrpcNext::refused}));
  server.flush();
  EXPECT_EQ(server.held(), 0u);
  // The bound is on each message of a call, not on all of them together.
  server.begin(7);
  const std::string large(40'000, 'x');
  for (int i = 0; i < 20; ++i) {
    const std::string text = framed(large);
    server.exchange(data(7, text.substr(0, 15'000), false) +
                    data(7, text.substr(15'000, 15'000), false) +
                    data(7, text.substr(30'000), false));
    EXPECT_EQ(server.take(server.events.back().request), (std::pair{Texts{large}, GrpcNext::none}))
        << i;
  }
}

TEST(GrpcStreamingBounds, WindowsOpenAsMessagesComeAndAreTaken) {
  StreamServer server;
  const uint32_t number = server.begin(1);
  const uint64_t begun = server.peer.window_updates[0];
  const std::string text = framed(std::string(800'000, 'x'));
  for (size_t at = 0; at < text.size(); at += 16'000) {
    ASSERT_GE(65'535 + server.peer.window_updates[1], at + 16'000) << "the call's window is shut";
    server.exchange(data(1, text.substr(at, 16'000), false));
  }
  EXPECT_EQ(server.take(number), (std::pair{Texts{text.substr(5)}, GrpcNext::none}));
  server.flush();
  for (size_t at = 0; at < text.size(); at += 16'000)
    server.exchange(data(1, text.substr(at, 16'000), false));
  EXPECT_EQ(server.peer.window_updates[0], begun);  // opens when the messages are taken
  EXPECT_GT(server.held(), 800'000u);
  EXPECT_EQ(server.take(number).first.size(), 1u);
  server.flush();
  EXPECT_EQ(server.peer.window_updates[0], begun + 2 * text.size());
  EXPECT_LT(server.held(), 1'000u);
}

TEST(GrpcStreamingBounds, TakesManySmallMessagesAtOnce) {
  StreamServer server;
  const uint32_t number = server.begin(1);
  std::string frame;
  for (int i = 0; i < 3'000; ++i) frame += framed("");
  for (int i = 0; i < 50; ++i) server.exchange(data(1, frame, false));
  const auto [messages, next] = server.take(number);
  EXPECT_EQ(messages.size(), 150'000u);
  EXPECT_EQ(next, GrpcNext::none);
}

TEST(GrpcStreamingBounds, TakenLargeMessagesReturnTheirMemory) {
  StreamServer server({.connection_bytes = 700'000});
  const std::string text = framed(std::string(600'000, 'x'));
  const size_t before = heap_bytes();
  for (uint32_t id = 1; id < 40; id += 2) {
    const uint32_t number = server.begin(id);
    for (size_t at = 0; at < text.size(); at += 16'000)
      server.exchange(data(id, text.substr(at, 16'000), false));
    // In both directions, a part of another message is left over.
    server.exchange(data(id, text.substr(0, 100), false));
    EXPECT_EQ(server.take(number).first.size(), 1u);
    server.flush();
    const size_t window = grpc_prefix_bytes + text.size() - 100;
    server.exchange(window_update(id, static_cast<uint32_t>(window - 65'535)) +
                    window_update(0, 700'000));
    ASSERT_TRUE(server.session.send(number, text));
    server.flush();
    ASSERT_TRUE(server.session.send(number, "little"));
    EXPECT_LT(server.held(), 120'000u);
    server.peer.answers.clear();
  }
  EXPECT_LT(heap_bytes(), before + (size_t{4} << 20));
}

// ---- Floods ----

TEST(GrpcStreamingBounds, OnlyUnansweredMessagesAreAFlood) {
  StreamServer server;
  server.begin(1);
  server.exchange(window_update(1, 1 << 30) + window_update(0, 1 << 30));
  for (int i = 0; i < 30'000; ++i) {
    server.exchange(data(1, framed("small"), false));
    server.echo();
  }
  EXPECT_EQ(server.session.http().fault(), Http2Fault::none);
  EXPECT_EQ(server.peer.answers[1].body.size(), 30'000 * framed("small").size());
  int sent = 0;
  for (; server.session.http().fault() == Http2Fault::none && sent < 40'000; ++sent) {
    server.exchange(data(1, "", false));
  }
  EXPECT_EQ(server.session.http().fault(), Http2Fault::small_data);
  EXPECT_LE(sent, http2_frames_max + 3);
  EXPECT_TRUE(server.session.http().is_drained());
}

TEST(GrpcStreamingBounds, CallsThatAreResetAtOnceAreAFlood) {
  StreamServer server;
  uint32_t id = 1;
  for (; server.session.http().fault() == Http2Fault::none && id < 10'000; id += 2) {
    server.exchange(server.peer.headers(id, stream_headers(), false) + rst_stream(id));
    server.echo();
  }
  EXPECT_EQ(server.session.http().fault(), Http2Fault::resets);
  EXPECT_NEAR(id / 2, http2_resets_max, 3);
  EXPECT_EQ(server.held(), 0u);
}

TEST(GrpcStreamingBounds, OpenCallsCountAsStreams) {
  StreamServer server;
  uint32_t id = 1;
  for (; id < 2'000; id += 2) server.begin(id);
  EXPECT_EQ(server.session.http().unanswered(), 1'000u);
  server.exchange(server.peer.headers(id, stream_headers(), false));
  EXPECT_EQ(server.session.http().fault(), Http2Fault::protocol);
  // After a fault the owner of the calls must still end them, and nothing is sent.
  for (size_t i = 0; i < 1'000; ++i) {
    const uint32_t number = server.events[i].request;
    EXPECT_TRUE(server.session.send(number, "nothing"));
    server.session.answer(number, GrpcStatus::ok, "", "");
  }
  EXPECT_EQ(server.session.http().unanswered(), 0u);
}

}  // namespace
}  // namespace sluice::wire::grpc_streaming_bounds_test
