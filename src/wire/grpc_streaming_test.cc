// Streaming calls at the gRPC server: several messages in each direction, in any order, and what
// ends a call.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "wire/grpc_server_test.h"
#include "wire/http2_peer_test.h"

namespace sluice::wire::grpc_streaming_test {
namespace {

using grpc_peer::framed;
using grpc_peer::frames;
using grpc_peer::is_streamed;
using grpc_peer::messages_of;
using grpc_peer::stream_headers;
using grpc_peer::StreamServer;
using grpc_peer::Texts;
using http2_peer::Answer;
using http2_peer::data;
using http2_peer::Headers;
using http2_peer::hello;
using http2_peer::join;
using http2_peer::Peer;
using http2_peer::rst_stream;
using http2_peer::settings_ack;
using http2_peer::window_update;
using Kind = Http2Event::Kind;

// ---- Messages and their order ----

TEST(GrpcStreaming, AWatchIsAnsweredAtOnceAndAgainLater) {
  StreamServer server;
  server.exchange(server.peer.request(1, stream_headers({{"grpc-timeout", "5S"}}), framed("who")));
  ASSERT_EQ(server.events.size(), 2u);
  EXPECT_EQ(server.events[0].kind, Kind::begun);
  EXPECT_EQ(server.events[1].kind, Kind::body);
  const uint32_t number = server.events[0].request;
  EXPECT_EQ(server.events[1].request, number);
  const GrpcCall call = server.session.call(number);
  EXPECT_EQ(call.path, "/stream/Echo");
  EXPECT_EQ(call.authority, "test");
  EXPECT_EQ(call.timeout, base::seconds(5));
  EXPECT_EQ(call.message, "");
  EXPECT_EQ(server.take(number), (std::pair{Texts{"who"}, GrpcNext::end}));

  ASSERT_TRUE(server.session.send(number, "first"));
  server.flush();
  const Answer& answer = server.peer.answers[1];
  EXPECT_EQ(answer.status(), "200");
  EXPECT_EQ(answer.header("content-type"), "application/grpc");
  EXPECT_EQ(answer.header("grpc-encoding"), "");
  EXPECT_EQ(answer.header("grpc-status"), "");
  EXPECT_EQ(answer.body, framed("first"));
  EXPECT_FALSE(answer.ended);
  EXPECT_FALSE(server.session.http().has_output());
  ASSERT_TRUE(server.session.send(number, ""));
  EXPECT_TRUE(server.session.http().has_output());
  ASSERT_TRUE(server.session.send(number, "third"));
  server.flush();
  EXPECT_EQ(messages_of(answer.body), (Texts{"first", "", "third"}));
  EXPECT_EQ(server.session.http().unanswered(), 1u);
  server.session.answer(number, GrpcStatus::unavailable, "it stops", "");
  server.flush();
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(answer.trailer("grpc-status"), "14");
  EXPECT_EQ(answer.trailer("grpc-message"), "it stops");
  EXPECT_EQ(answer.reset, -1);
  EXPECT_EQ(server.held(), 0u);
  EXPECT_EQ(server.session.http().unanswered(), 0u);
}

TEST(GrpcStreaming, MessagesGoBothWaysUntilTheClientIsDone) {
  StreamServer server;
  server.begin(1);
  EXPECT_EQ(server.take(server.events[0].request), (std::pair{Texts{}, GrpcNext::none}));
  const Answer& answer = server.peer.answers[1];
  for (int i = 0; i < 5; ++i) {
    server.exchange(data(1, framed(std::to_string(i)), false));
    server.echo();
    EXPECT_EQ(messages_of(answer.body).back(), std::to_string(i));
    EXPECT_FALSE(answer.ended);
    server.exchange(data(1, "", false));  // gives no event
    EXPECT_EQ(server.events.size(), 0u);
  }
  server.exchange(data(1, framed("last"), true));
  server.echo();
  EXPECT_EQ(messages_of(answer.body), (Texts{"0", "1", "2", "3", "4", "last"}));
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(answer.trailer("grpc-status"), "0");
  EXPECT_EQ(answer.trailer("grpc-message"), "");
  EXPECT_EQ(answer.reset, -1);
  EXPECT_EQ(server.held(), 0u);
}

TEST(GrpcStreaming, ACallWithoutAMessageEndsByHeadersOrTrailersOnly) {
  StreamServer server;
  server.exchange(server.peer.headers(1, stream_headers(), true));
  ASSERT_EQ(server.events.size(), 2u);  // the beginning of the call, and its end
  server.echo();
  EXPECT_EQ(server.peer.answers[1].header("grpc-status"), "0");
  EXPECT_TRUE(server.peer.answers[1].ended);
  EXPECT_EQ(server.peer.answers[1].data_frames, 0u);
  // A call may also end with an empty frame, or with trailers.
  server.exchange(server.peer.headers(3, stream_headers(), false) + data(3, ""));
  server.echo();
  EXPECT_EQ(server.peer.answers[3].header("grpc-status"), "0");
  server.exchange(join({server.peer.headers(5, stream_headers(), false),
                        data(5, framed("x"), false), server.peer.headers(5, {{"x-end", "1"}})}));
  server.echo();
  EXPECT_EQ(server.peer.answers[5].body, framed("x"));
  EXPECT_EQ(server.peer.answers[5].trailer("grpc-status"), "0");
}

TEST(GrpcStreaming, AUnaryCallOfTheSameSessionIsUnaffected) {
  StreamServer server;
  server.begin(1);
  server.exchange(server.peer.request(3, Peer::grpc("/p.S/M"), framed("one")));
  ASSERT_EQ(server.events.size(), 2u);
  EXPECT_EQ(server.events[1].kind, Kind::request);
  EXPECT_EQ(server.session.call(server.events[1].request).message, "one");
  server.session.answer(server.events[1].request, GrpcStatus::ok, "", "two");
  server.flush();
  EXPECT_EQ(server.peer.answers[3].body, framed("two"));
  EXPECT_TRUE(server.peer.answers[3].ended);
  EXPECT_TRUE(server.peer.answers[1].headers.empty());
}

// A client that streams on two calls at a time, with unary ones between them.
std::string script(Peer& peer) {
  Gzip gzip;
  std::string packed;
  EXPECT_TRUE(gzip.compress(std::string(500, 'z'), packed));
  std::string all = hello() + settings_ack();
  all += peer.headers(1, stream_headers(), false);
  all += peer.headers(3, stream_headers({{"grpc-encoding", "gzip"}}), false);
  const std::string large = framed(std::string(40'000, 'l'));
  all += data(1, framed("a") + framed("") + framed("bb") + large.substr(0, 3), false);
  all += peer.request(5, Peer::grpc("/p.S/M"), framed("unary"));
  all += data(3, framed(packed, 1), false) + data(1, large.substr(3, 15'000), false);
  all += data(1, "", false) + data(3, framed("plain"), false);
  all += data(1, large.substr(15'003, 12'000), false) + data(1, large.substr(27'003), false);
  all += peer.headers(7, stream_headers(), false) + data(7, framed("x", 2), false);
  all += peer.headers(9, stream_headers(), false) + data(9, framed("gone"), false) + rst_stream(9);
  all += data(3, framed(packed, 1).substr(0, 20), true) + data(1, framed("end"), true);
  return all;
}

struct Outcome {
  std::string events, written;
  bool operator==(const Outcome&) const = default;
};

void handle(GrpcServerSession& session, const Http2Event& event) {
  if (!session.is_waiting(event.request)) return;
  if (event.kind == Kind::request)
    session.answer(event.request, GrpcStatus::ok, "", session.call(event.request).message);
  if (event.kind == Kind::reset) session.drop(event.request);
  if (event.kind != Kind::body) return;
  std::string_view message;
  GrpcNext next;
  while ((next = session.next(event.request, message)) == GrpcNext::message)
    EXPECT_TRUE(session.send(event.request, message));
  if (next == GrpcNext::end) session.answer(event.request, GrpcStatus::ok, "", "");
}

// Handles each event when it is reported (`at_once`), or all events when all input was read; then
// only the cuts of the input differ between two runs.
template <class NextStep>
Outcome outcome_of(const std::string& in, NextStep next_step, size_t events_max, bool at_once) {
  GrpcWorker worker;
  GrpcServerSession session(worker, {}, is_streamed);
  Outcome outcome;
  std::vector<Http2Event> all;
  for (size_t at = 0; at < in.size();) {
    at += session.receive(std::string_view(in).substr(at, next_step()), {}, events_max);
    for (const Http2Event& event : session.events()) {
      outcome.events +=
          std::to_string(static_cast<int>(event.kind)) + ":" + std::to_string(event.request) + "\n";
      if (at_once)
        handle(session, event);
      else
        all.push_back(event);
    }
  }
  for (const Http2Event& event : all) handle(session, event);
  base::Buffer out;
  session.http().write(out);
  outcome.written = out.view();
  EXPECT_EQ(session.http().unanswered(), 0u);
  EXPECT_EQ(session.http().held_bytes(), 0u);
  return outcome;
}

TEST(GrpcStreaming, AnyCutOfTheInputGivesTheSame) {
  Peer peer;
  const std::string in = script(peer);
  const Outcome whole = outcome_of(
      in, [] { return SIZE_MAX; }, SIZE_MAX, false);
  Peer reader;
  reader.read(whole.written);
  EXPECT_EQ(messages_of(reader.answers[1].body),
            (Texts{"a", "", "bb", std::string(40'000, 'l'), "end"}));
  EXPECT_EQ(reader.answers[1].trailer("grpc-status"), "0");
  EXPECT_EQ(messages_of(reader.answers[3].body).size(), 2u);
  EXPECT_EQ(reader.answers[3].trailer("grpc-status"), "13");  // its last message is cut off
  EXPECT_EQ(reader.answers[5].body, framed("unary"));
  EXPECT_EQ(reader.answers[7].header("grpc-status"), "13");
  EXPECT_TRUE(reader.answers[9].headers.empty());

  std::mt19937 dice(23);
  for (int trial = 0; trial < 200; ++trial) {
    std::uniform_int_distribution<size_t> step(1, trial % 2 == 0 ? 30 : 3000);
    const auto next_step = [&] { return trial == 0 ? 1 : step(dice); };
    const size_t events_max = trial % 3 == 0 ? 1 : SIZE_MAX;
    ASSERT_EQ(outcome_of(in, next_step, events_max, false), whole) << trial;
    Peer other;
    other.read(outcome_of(in, next_step, events_max, true).written);
    for (const uint32_t id : {1u, 3u, 5u, 7u}) {
      ASSERT_EQ(other.answers[id].body, reader.answers[id].body) << trial << " " << id;
      ASSERT_EQ(other.answers[id].headers, reader.answers[id].headers) << trial << " " << id;
      ASSERT_EQ(other.answers[id].trailers, reader.answers[id].trailers) << trial << " " << id;
    }
  }
}

// ---- gzip, and malformed messages ----

TEST(GrpcStreaming, GzippedMessagesAreAnsweredGzipped) {
  StreamServer server;
  Gzip gzip;
  std::string packed;
  ASSERT_TRUE(gzip.compress(std::string(4'096, 'm'), packed));
  server.begin(1, stream_headers({{"grpc-encoding", "gzip"}}));
  server.exchange(data(1, framed(packed, 1) + framed("as it is"), false));
  server.echo();
  const Answer& answer = server.peer.answers[1];
  EXPECT_EQ(answer.header("grpc-encoding"), "gzip");
  EXPECT_EQ(answer.body[0], 1);
  const Texts messages = messages_of(answer.body);
  ASSERT_EQ(messages.size(), 2u);
  std::string unpacked;
  EXPECT_EQ(gzip.decompress(messages[0], 10'000, unpacked), Gzip::Result::done);
  EXPECT_EQ(unpacked, std::string(4'096, 'm'));
  unpacked.clear();
  EXPECT_EQ(gzip.decompress(messages[1], 10'000, unpacked), Gzip::Result::done);
  EXPECT_EQ(unpacked, "as it is");
}

TEST(GrpcStreaming, AnInvalidMessageEndsTheCallWithItsStatus) {
  Gzip gzip;
  std::string bomb, large, promise(grpc_prefix_bytes, '\0');
  ASSERT_TRUE(gzip.compress(std::string(grpc_message_bytes_max + 1, '\0'), bomb));
  ASSERT_TRUE(gzip.compress(std::string(4'097, 'm'), large));  // more than a stream's may become
  GrpcPrefix{0, grpc_message_bytes_max + 1}.write(promise.data());
  struct Case {
    const char* name;
    std::string bytes;
    const char* status;
    bool gzip = false, last = false;
  };
  const std::vector<Case> cases{{"flags", framed("x", 2), "13"},
                                {"packed without an encoding", framed("x", 1), "13"},
                                {"not packed by it", framed("x", 1), "13", true},
                                {"too large when unpacked", framed(bomb, 1), "8", true},
                                {"unpacks to more than 4 KiB", framed(large, 1), "8", true},
                                {"promises too much", promise, "8"},
                                {"prefix cut off", framed("cut").substr(0, 4), "13", false, true},
                                {"cut off", framed("cut").substr(0, 7), "13", false, true}};
  for (const bool begun : {false, true}) {
    StreamServer server;
    uint32_t id = 1;
    for (const Case& one : cases) {
      const Headers headers =
          stream_headers(one.gzip ? Headers{{"grpc-encoding", "gzip"}} : Headers{});
      const uint32_t number = server.begin(id, headers);
      if (begun) {
        ASSERT_TRUE(server.session.send(number, "before"));
      }
      server.exchange(data(id, framed("good"), false) + frames(id, one.bytes, one.last));
      EXPECT_EQ(server.take(number), (std::pair{Texts{"good"}, GrpcNext::refused})) << one.name;
      // Later events of the call report nothing.
      EXPECT_FALSE(server.session.is_waiting(number));
      EXPECT_EQ(server.take(number), (std::pair{Texts{}, GrpcNext::none})) << one.name;
      server.flush();
      const Answer& answer = server.peer.answers[id];
      EXPECT_EQ(begun ? answer.trailer("grpc-status") : answer.header("grpc-status"), one.status)
          << one.name;
      EXPECT_NE(begun ? answer.trailer("grpc-message") : answer.header("grpc-message"), "");
      EXPECT_TRUE(answer.ended);
      EXPECT_EQ(answer.reset, one.last ? -1 : NGHTTP2_NO_ERROR) << one.name;
      EXPECT_EQ(server.held(), 0u) << one.name;
      id += 2;
    }
    EXPECT_EQ(server.session.http().unanswered(), 0u);
  }
}

TEST(GrpcStreaming, DoesNotReportInvalidCalls) {
  StreamServer server;
  const auto status = [&](uint32_t id, const Headers& headers) {
    server.exchange(server.peer.headers(id, headers, false) + data(id, framed("x"), false));
    const Answer& answer = server.peer.answers[id];
    EXPECT_TRUE(answer.ended);
    EXPECT_EQ(answer.reset, NGHTTP2_NO_ERROR);
    return answer.status() + " " + answer.header("grpc-status");
  };
  EXPECT_EQ(status(1, Peer::post("/stream/x", {{"content-type", "text/plain"}})), "415 3");
  Headers get = stream_headers();
  get[0].second = "GET";
  EXPECT_EQ(status(3, get), "405 13");
  EXPECT_EQ(status(5, stream_headers({{"grpc-timeout", "soon"}})), "400 13");
  EXPECT_EQ(status(7, stream_headers({{"grpc-encoding", "snappy"}})), "200 12");
  Headers head = stream_headers();
  head[0].second = "HEAD";
  server.exchange(server.peer.headers(9, head));
  EXPECT_EQ(server.peer.answers[9].status(), "405");
  EXPECT_EQ(server.events.size(), 0u);
  EXPECT_EQ(server.session.http().unanswered(), 0u);
  EXPECT_EQ(server.held(), 0u);
}

// ---- Ends ----

TEST(GrpcStreaming, ACancelledCallIsReportedAndSendsNothingMore) {
  for (const bool begun : {false, true}) {
    StreamServer server({}, {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}});
    const uint32_t number = server.begin(1);
    if (begun) {
      EXPECT_TRUE(server.session.send(number, "more than the window"));
      server.flush();
    }
    server.exchange(data(1, framed("x"), false) + rst_stream(1));
    ASSERT_EQ(server.events.size(), 3u);
    EXPECT_EQ(server.events[2].kind, Kind::reset);
    EXPECT_TRUE(server.session.is_waiting(number));
    EXPECT_TRUE(server.session.call(number).is_cancelled);
    EXPECT_EQ(server.take(number), (std::pair{Texts{}, GrpcNext::none}));
    EXPECT_TRUE(server.session.send(number, std::string(5'000'000, 'm')));
    if (begun)
      server.session.answer(number, GrpcStatus::ok, "", "");
    else
      server.session.drop(number);
    server.flush();
    EXPECT_EQ(server.peer.answers[1].reset, -1);
    EXPECT_EQ(server.peer.answers[1].headers.empty(), !begun);
    EXPECT_EQ(server.held(), 0u);
    EXPECT_EQ(server.session.http().unanswered(), 0u);
  }
}

TEST(GrpcStreaming, ACallThatTheServerEndsFirstResetsTheClient) {
  StreamServer server;
  const uint32_t number = server.begin(1);
  ASSERT_TRUE(server.session.send(number, "one"));
  server.session.answer(number, GrpcStatus::ok, "", "");
  server.flush();
  EXPECT_EQ(server.peer.answers[1].trailer("grpc-status"), "0");
  EXPECT_EQ(server.peer.answers[1].reset, NGHTTP2_NO_ERROR);
  server.events.clear();
  const uint64_t begun = server.peer.window_updates[0];
  for (int i = 0; i < 100; ++i) server.exchange(data(1, std::string(16'000, 'x'), false));
  EXPECT_EQ(server.events.size(), 0u);
  EXPECT_GT(server.peer.window_updates[0], begun);
  EXPECT_EQ(server.held(), 0u);
}

TEST(GrpcStreaming, OutputIsWrittenPieceByPieceWhileMoreIsSent) {
  // The four ways to end a call while one of its frames waits for room in the output.
  for (const int end : {0, 1, 2, 3}) {
    StreamServer server({}, {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}});
    const uint32_t number = server.begin(1), other = server.begin(3);
    server.exchange(window_update(0, 1 << 20));
    Texts expected;
    base::Buffer out;
    const auto write = [&] {
      out.clear();
      server.session.http().write(out, 100);
      EXPECT_LE(out.size(), 100u + (16 << 10) + 9);
      server.peer.read(out.view());
    };
    for (int i = 0; i < 30; ++i) {
      expected.push_back(std::string(3'000, static_cast<char>('a' + i % 26)));
      ASSERT_TRUE(server.session.send(number, expected.back()));
      ASSERT_TRUE(server.session.send(other, "o"));
      write();
    }
    out.clear();
    server.session.http().write(out, 0);
    if (end == 0) server.session.answer(number, GrpcStatus::ok, "", "");
    if (end == 1) server.session.drop(number);
    if (end == 2) server.exchange(rst_stream(1));
    while (server.session.http().has_output()) write();
    const Answer& answer = server.peer.answers[1];
    if (end == 0) {
      EXPECT_TRUE(answer.ended);
    }
    if (end == 0 || end == 3) {
      EXPECT_EQ(messages_of(answer.body), expected);
    }
    if (end == 1) {
      EXPECT_EQ(answer.reset, NGHTTP2_INTERNAL_ERROR);
    }
    if (end == 2) {
      server.session.answer(number, GrpcStatus::ok, "", "");
    }
    EXPECT_EQ(messages_of(server.peer.answers[3].body), Texts(30, "o"));
    if (end == 3) server.session.answer(number, GrpcStatus::ok, "", "");
    server.session.answer(other, GrpcStatus::ok, "", "");
    server.flush();
    EXPECT_TRUE(server.peer.answers[3].ended);
    EXPECT_EQ(server.held(), 0u);
    EXPECT_EQ(server.session.http().fault(), Http2Fault::none);
  }
}

TEST(GrpcStreaming, AShutdownWaitsForOpenCallsUntilTheirOwnerEndsThem) {
  StreamServer server;
  const uint32_t first = server.begin(1);
  ASSERT_TRUE(server.session.send(first, "one"));
  server.session.http().begin_shutdown();
  server.flush();
  // Calls that the client began before it knew of the shutdown are served.
  const uint32_t second = server.begin(3);
  server.exchange(server.peer.request(5, Peer::grpc("/p.S/M"), framed("x")));
  const uint32_t unary = server.events.back().request;
  server.session.http().finish_shutdown();
  server.flush();
  EXPECT_EQ(server.peer.goaways.back(), (std::pair<uint32_t, uint32_t>{5, 0}));
  server.events.clear();
  server.exchange(server.peer.headers(7, stream_headers(), false));
  EXPECT_EQ(server.events.size(), 0u);
  server.exchange(data(1, framed("still read"), false));
  EXPECT_EQ(server.take(first), (std::pair{Texts{"still read"}, GrpcNext::none}));
  EXPECT_TRUE(server.session.send(first, "two"));
  server.session.answer(unary, GrpcStatus::ok, "", "y");
  server.flush();
  EXPECT_EQ(messages_of(server.peer.answers[1].body), (Texts{"one", "two"}));
  EXPECT_TRUE(server.peer.answers[5].ended);
  EXPECT_FALSE(server.session.http().is_drained());
  server.session.answer(first, GrpcStatus::unavailable, "the server stops", "");
  server.session.answer(second, GrpcStatus::unavailable, "the server stops", "");
  EXPECT_FALSE(server.session.http().is_drained());  // the answer must still be sent
  server.flush();
  EXPECT_EQ(server.peer.answers[1].trailer("grpc-status"), "14");
  EXPECT_EQ(server.peer.answers[3].header("grpc-status"), "14");
  EXPECT_TRUE(server.session.http().is_drained());
}

TEST(GrpcStreaming, ADroppedCallDoesNotDelayAShutdown) {
  StreamServer server({}, {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  const uint32_t number = server.begin(1), other = server.begin(3);
  ASSERT_TRUE(server.session.send(number, "stays"));
  server.session.http().begin_shutdown();
  server.session.http().finish_shutdown();
  server.session.http().reset_unfinished();  // does not reset an open streaming call
  server.flush();
  EXPECT_EQ(server.session.http().unanswered(), 2u);
  EXPECT_FALSE(server.session.http().is_drained());
  server.session.drop(number);
  server.session.answer(other, GrpcStatus::ok, "", "");
  server.flush();
  EXPECT_EQ(server.peer.answers[1].reset, NGHTTP2_INTERNAL_ERROR);
  EXPECT_EQ(server.peer.answers[3].reset, NGHTTP2_NO_ERROR);
  EXPECT_TRUE(server.session.http().is_drained());
}

TEST(GrpcStreaming, ASessionThatEndsReturnsTheMemoryOfOpenCalls) {
  GrpcWorker worker;
  {
    GrpcServerSession session(worker, {}, is_streamed);
    Peer peer;
    std::string in = hello({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}) + settings_ack();
    in += peer.headers(1, stream_headers(), false) + data(1, framed("x") + "part", false);
    in += peer.headers(3, stream_headers(), false) + rst_stream(3);
    session.receive(in, {});
    ASSERT_EQ(session.events().size(), 4u);
    EXPECT_TRUE(session.send(session.events()[0].request, std::string(5'000, 'm')));
    base::Buffer out;
    session.http().write(out);
    EXPECT_GT(worker.pool.held_bytes(), 5'000u);
  }
  EXPECT_EQ(worker.pool.held_bytes(), 0u);
  EXPECT_EQ(worker.pool.blocks(), 0u);
}

}  // namespace
}  // namespace sluice::wire::grpc_streaming_test
