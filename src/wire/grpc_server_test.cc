// Unary calls at the gRPC server: messages, gzip, deadlines, bounds, what is refused, and cancelled
// calls. A client and the server in memory.
#include "wire/grpc_server.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/grpc_server_test.h"
#include "wire/http2_peer_test.h"

namespace sluice::wire::grpc_server_test {
namespace {

using grpc_peer::framed;
using grpc_peer::Server;
using http2_peer::Answer;
using http2_peer::Headers;
using http2_peer::Peer;
using http2_peer::rst_stream;

TEST(GrpcServer, ReportsACallAndAnswersIt) {
  for (const size_t step : {SIZE_MAX, size_t{1}}) {
    Server server;
    server.exchange(
        server.peer.request(1, Peer::grpc("/p.S/M", {{"grpc-timeout", "20m"}}), framed("request")),
        step);
    ASSERT_EQ(server.events.size(), 1u);
    const uint32_t number = server.events[0].request;
    const GrpcCall call = server.session.call(number);
    EXPECT_EQ(call.path, "/p.S/M");
    EXPECT_EQ(call.authority, "test");
    EXPECT_EQ(call.message, "request");
    EXPECT_EQ(call.timeout, base::milliseconds(20));
    EXPECT_FALSE(call.is_cancelled);
    server.session.answer(number, GrpcStatus::ok, "", "answer");
    server.flush();
    const Answer& answer = server.peer.answers[1];
    EXPECT_EQ(answer.status(), "200");
    EXPECT_EQ(answer.header("content-type"), "application/grpc");
    EXPECT_EQ(answer.header("grpc-encoding"), "");
    EXPECT_EQ(answer.body, framed("answer"));
    EXPECT_EQ(answer.trailer("grpc-status"), "0");
    EXPECT_EQ(answer.data_frames, 1u);
    EXPECT_TRUE(answer.ended);
  }
}

TEST(GrpcServer, EmptyMessagesAreMessages) {
  Server server;
  server.call(Peer::grpc("/p.S/M"), framed(""));
  ASSERT_EQ(server.events.size(), 1u);
  EXPECT_EQ(server.session.call(server.events[0].request).message, "");
  EXPECT_EQ(server.session.call(server.events[0].request).timeout, base::never);
  server.session.answer(server.events[0].request, GrpcStatus::ok, "", "");
  server.flush();
  EXPECT_EQ(server.peer.answers[1].body, framed(""));
  EXPECT_EQ(server.peer.answers[1].trailer("grpc-status"), "0");
}

TEST(GrpcServer, SendsErrorStatusesWithoutAMessage) {
  Server server;
  server.call(Peer::grpc("/p.S/M"), framed("x"));
  server.session.answer(server.events.at(0).request, GrpcStatus::unimplemented, "unknown\n100%",
                        "not sent");
  server.flush();
  const Answer& answer = server.peer.answers[1];
  EXPECT_EQ(answer.status(), "200");
  EXPECT_EQ(answer.header("content-type"), "application/grpc");
  EXPECT_EQ(answer.header("grpc-status"), "12");
  EXPECT_EQ(answer.header("grpc-message"), "unknown%0A100%25");
  EXPECT_EQ(answer.data_frames, 0u);
  EXPECT_TRUE(answer.trailers.empty());
  EXPECT_TRUE(answer.ended);
}

TEST(GrpcServer, TheSubtypeIsAnsweredAsAsked) {
  Server server;
  Headers headers = Peer::post("/p.S/M", {{"content-type", "application/grpc+proto"}});
  server.call(headers, framed("x"));
  server.session.answer(server.events.at(0).request, GrpcStatus::ok, "", "y");
  server.flush();
  EXPECT_EQ(server.peer.answers[1].header("content-type"), "application/grpc+proto");
}

TEST(GrpcServer, AGzippedCallIsUnpackedAndItsAnswerPacked) {
  Server server;
  Gzip gzip;
  std::string packed;
  const std::string message(50'000, 'm');
  ASSERT_TRUE(gzip.compress(message, packed));
  server.call(Peer::grpc("/p.S/M", {{"grpc-encoding", "gzip"}}), framed(packed, 1));
  ASSERT_EQ(server.events.size(), 1u);
  const GrpcCall call = server.session.call(server.events[0].request);
  EXPECT_EQ(call.message, message);
  EXPECT_EQ(call.path, "/p.S/M");
  server.session.answer(server.events[0].request, GrpcStatus::ok, "", std::string(30'000, 'a'));
  server.flush();
  const Answer& answer = server.peer.answers[1];
  EXPECT_EQ(answer.header("grpc-encoding"), "gzip");
  ASSERT_GT(answer.body.size(), grpc_prefix_bytes);
  EXPECT_LT(answer.body.size(), 1'000u);
  EXPECT_EQ(answer.body[0], 1);
  EXPECT_EQ(GrpcPrefix::read(answer.body).bytes, answer.body.size() - grpc_prefix_bytes);
  std::string unpacked;
  EXPECT_EQ(gzip.decompress(answer.body.substr(grpc_prefix_bytes), 100'000, unpacked),
            Gzip::Result::done);
  EXPECT_EQ(unpacked, std::string(30'000, 'a'));
  // A client that announces gzip may still send messages without it.
  server.call(Peer::grpc("/p.S/M", {{"grpc-encoding", "gzip"}}), framed("plain"));
  ASSERT_EQ(server.events.size(), 2u);
  EXPECT_EQ(server.session.call(server.events[1].request).message, "plain");
}

TEST(GrpcServer, RejectsInvalidCalls) {
  Server server;
  const auto grpc = [](Headers more = {}) { return Peer::grpc("/p.S/M", std::move(more)); };
  const auto status = [](const Answer& answer) {
    EXPECT_EQ(answer.header("content-type"), "application/grpc");
    EXPECT_TRUE(answer.ended);
    return answer.status() + " " + answer.header("grpc-status");
  };
  const auto with_type = [](const char* type) {
    return Peer::post("/p.S/M", {{"content-type", type}});
  };
  EXPECT_EQ(status(server.call(with_type("application/json"), framed("x"))), "415 3");
  EXPECT_EQ(status(server.call(Peer::post("/p.S/M"), framed("x"))), "415 3");
  Headers get = grpc();
  get[0].second = "GET";
  EXPECT_EQ(status(server.call(get, framed("x"))), "405 13");
  EXPECT_EQ(status(server.call(grpc({{"grpc-timeout", "soon"}}), framed("x"))), "400 13");
  EXPECT_EQ(status(server.call(grpc(), "")), "200 13");
  EXPECT_EQ(status(server.call(grpc(), framed("one") + framed("two"))), "200 13");
  EXPECT_EQ(status(server.call(grpc(), framed("cut").substr(0, 4))), "200 13");
  EXPECT_EQ(status(server.call(grpc(), framed("cut").substr(0, 7))), "200 13");
  EXPECT_EQ(status(server.call(grpc(), framed("x", 2))), "200 13");
  EXPECT_EQ(status(server.call(grpc(), framed("x", 1))), "200 13");
  EXPECT_EQ(status(server.call(grpc({{"grpc-encoding", "identity"}}), framed("x", 1))), "200 13");
  EXPECT_EQ(status(server.call(grpc({{"grpc-encoding", "gzip"}}), framed("x", 1))), "200 13");
  const Answer& unknown = server.call(grpc({{"grpc-encoding", "snappy"}}), framed("x", 1));
  EXPECT_EQ(status(unknown), "200 12");
  EXPECT_EQ(unknown.header("grpc-accept-encoding"), "identity,gzip");
  EXPECT_NE(unknown.header("grpc-message").find("snappy"), std::string::npos);
  EXPECT_EQ(server.events.size(), 0u);
  EXPECT_EQ(server.session.http().unanswered(), 0u);
  EXPECT_EQ(server.session.http().held_bytes(), 0u);
}

TEST(GrpcServer, RejectsTooLargeMessagesAndContinues) {
  Server server({.connection_bytes = size_t{8} << 20, .body_bytes = size_t{8} << 20});
  const auto status = [](const Answer& answer) {
    return answer.status() + " " + answer.header("grpc-status");
  };
  // A message above the connection's bound is dropped while it arrives.
  Server small;
  EXPECT_EQ(status(small.call(Peer::grpc("/p.S/M"), framed(std::string(2'000'000, 'x')))), "200 8");
  EXPECT_EQ(status(small.call(Peer::grpc("/p.S/M"),
                              framed(std::string(grpc_message_bytes_max + 1, 'x')))),
            "200 8");
  small.call(Peer::grpc("/p.S/M"), framed("on"));
  ASSERT_EQ(small.events.size(), 1u);
  EXPECT_EQ(small.session.call(small.events[0].request).message, "on");
  // The prefix alone may announce a message that is too large.
  std::string prefix(grpc_prefix_bytes, '\0');
  GrpcPrefix{0, grpc_message_bytes_max + 1}.write(prefix.data());
  EXPECT_EQ(status(server.call(Peer::grpc("/p.S/M"), prefix)), "200 8");
}

// No more is unpacked than may be used.
TEST(GrpcServer, UnpacksInProportionToWhatWasSent) {
  Gzip gzip;
  const auto packed_of = [&](const std::string& text) {
    std::string packed;
    EXPECT_TRUE(gzip.compress(text, packed));
    return packed;
  };
  const Headers headers = Peer::grpc("/p.S/M", {{"grpc-encoding", "gzip"}});
  constexpr size_t always = grpc_unpacked_bytes_max(0);
  Server server({.connection_bytes = size_t{8} << 20, .body_bytes = size_t{8} << 20});
  server.call(headers, framed(packed_of(std::string(always, '\0')), 1));
  ASSERT_EQ(server.events.size(), 1u);
  EXPECT_EQ(server.session.call(server.events[0].request).message.size(), always);
  server.session.answer(server.events[0].request, GrpcStatus::ok, "", "");
  EXPECT_LT(server.worker.scratch.capacity(), size_t{1} << 20);  // the memory is given back
  server.events.clear();
  server.session.take_unpacked();

  // 4 KiB that would unpack to 4 MiB.
  const std::string bomb = packed_of(std::string(grpc_message_bytes_max, '\0'));
  const Answer& refused = server.call(headers, framed(bomb, 1));
  EXPECT_EQ(refused.header("grpc-status"), "8");
  EXPECT_EQ(server.events.size(), 0u);
  EXPECT_LE(server.session.take_unpacked(), 33 * bomb.size() + 2 * always);

  // A long message that packs as such messages do.
  std::string text;
  for (int i = 0; text.size() < 400'000; ++i) text += "user_" + std::to_string(i * 7919) + ",";
  server.call(headers, framed(packed_of(text), 1));
  ASSERT_EQ(server.events.size(), 1u);
  EXPECT_EQ(server.session.call(server.events[0].request).message, text);
  // It is within the bound of messages, but not within what the connection has left.
  Server small({.connection_bytes = 300'000});
  EXPECT_EQ(small.call(headers, framed(packed_of(text), 1)).header("grpc-status"), "8");
  EXPECT_LE(small.session.take_unpacked(), 310'000u + packed_of(text).size());
}

// What one `receive` unpacks is bounded, so that a connection's turn ends; the other calls follow.
TEST(GrpcServer, UnpacksAFewMessagesAtATime) {
  Gzip gzip;
  std::string packed;
  ASSERT_TRUE(gzip.compress(std::string(20'000, 'p'), packed));
  GrpcWorker worker;
  GrpcServerSession session(worker);
  Peer peer;
  std::string in = http2_peer::hello() + http2_peer::settings_ack();
  constexpr uint32_t calls = 20;
  for (uint32_t i = 0; i < calls; ++i)
    in += peer.request(2 * i + 1, Peer::grpc("/p.S/M", {{"grpc-encoding", "gzip"}}),
                       framed(packed, 1));
  std::vector<uint32_t> told;
  size_t at = 0, rounds = 0;
  for (; at < in.size() || session.has_more(); ++rounds) {
    ASSERT_LT(rounds, 100u);
    at += session.receive(std::string_view(in).substr(at), {});
    for (const Http2Event& event : session.events()) {
      told.push_back(event.request);
      EXPECT_EQ(session.call(event.request).message, std::string(20'000, 'p'));
    }
    EXPECT_LE(session.take_unpacked(), grpc_unpacked_at_once + 20'000 + packed.size());
  }
  EXPECT_EQ(told.size(), calls);
  EXPECT_GE(rounds, calls * 20'000 / (grpc_unpacked_at_once + 20'000));
  for (const uint32_t number : told) session.answer(number, GrpcStatus::ok, "", "a");
  EXPECT_EQ(session.http().unanswered(), 0u);
}

TEST(GrpcServer, ReportsACancelledCallThatNeedsNoAnswer) {
  Server server;
  server.exchange(server.peer.request(1, Peer::grpc("/p.S/M"), framed("x")) + rst_stream(1));
  ASSERT_EQ(server.events.size(), 2u);
  EXPECT_EQ(server.events[1].kind, Http2Event::Kind::reset);
  const uint32_t number = server.events[1].request;
  EXPECT_TRUE(server.session.call(number).is_cancelled);
  EXPECT_EQ(server.session.call(number).message, "x");
  server.session.answer(number, GrpcStatus::ok, "", "y");
  server.flush();
  EXPECT_TRUE(server.peer.answers[1].headers.empty());
  // A call that was refused before is not reported as cancelled.
  server.events.clear();
  server.exchange(server.peer.request(3, Peer::post("/p.S/M"), framed("x")) + rst_stream(3));
  EXPECT_EQ(server.events.size(), 0u);
  EXPECT_EQ(server.session.http().unanswered(), 0u);
}

TEST(GrpcServer, ADroppedCallResetsItsStream) {
  Server server;
  server.call(Peer::grpc("/p.S/M"), framed("x"));
  server.session.drop(server.events.at(0).request);
  server.flush();
  EXPECT_EQ(server.peer.answers[1].reset, NGHTTP2_INTERNAL_ERROR);
}

}  // namespace
}  // namespace sluice::wire::grpc_server_test
