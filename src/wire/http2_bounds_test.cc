// Bounds of an HTTP/2 connection: streams, bytes, and the flow-control windows in both directions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "wire/http2_server_test.h"
#include "wire/http2_session.h"

namespace sluice::wire::http2_bounds_test {
namespace {

using http2_peer::data;
using http2_peer::frame;
using http2_peer::Headers;
using http2_peer::hello;
using http2_peer::join;
using http2_peer::Peer;
using http2_peer::ping;
using http2_peer::rst_stream;
using http2_peer::Server;
using http2_peer::settings;
using http2_peer::settings_ack;
using http2_peer::window_update;

// A body in frames of 16 KiB, the last one of which ends the stream.
std::string body_frames(uint32_t stream, size_t bytes, bool last = true) {
  std::string frames;
  while (bytes > 0) {
    const size_t part = std::min<size_t>(bytes, 16 << 10);
    bytes -= part;
    frames += data(stream, std::string(part, 'b'), last && bytes == 0);
  }
  return frames;
}

// Sends a body as a client does that respects the windows of the stream and of the connection.
// `before`: the bytes of bodies that it has sent before.
void upload(Server& server, uint32_t stream, size_t bytes, bool last = true, size_t before = 0) {
  for (size_t sent = 0; sent < bytes;) {
    const uint64_t of_stream = 65'535 + server.peer.window_updates[stream] - sent;
    const uint64_t of_connection = 65'535 + server.peer.window_updates[0] - before - sent;
    const size_t part = std::min<size_t>({bytes - sent, 16'000, of_stream, of_connection});
    ASSERT_GT(part, 0u) << "a window is shut behind " << sent << " bytes";
    sent += part;
    server.exchange(data(stream, std::string(part, 'b'), last && sent == bytes));
  }
}

// ---- Streams ----

TEST(Http2Streams, AHundredBeforeTheSettingsAreAcknowledgedAThousandAfter) {
  Http2Pool pool;
  Server server(pool);
  server.exchange(hello());
  uint32_t id = 1;
  for (; id < 2 * 101; id += 2) server.take(server.peer.headers(id, Peer::get()));
  server.flush();
  EXPECT_EQ(server.told().size(), 100u);
  EXPECT_EQ(server.answer(id - 2).reset, NGHTTP2_REFUSED_STREAM);
  EXPECT_EQ(server.session.refused_streams(), 1u);
  server.exchange(settings_ack());
  for (; id < 2 * 1001; id += 2) server.take(server.peer.headers(id, Peer::get()));
  server.flush();
  EXPECT_EQ(server.told().size(), 900u);
  EXPECT_EQ(server.session.unanswered(), 1000u);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  // More streams than the server announced are a fault of the client.
  server.exchange(server.peer.headers(id, Peer::get()));
  EXPECT_EQ(server.session.fault(), Http2Fault::protocol);
}

TEST(Http2Streams, AResetStreamCountsUntilItsWorkIsDone) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  uint32_t id = 1;
  for (; id < 2 * 1000; id += 2) {
    server.take(server.peer.headers(id, Peer::get()) + rst_stream(id));
    server.now.us += 1'000'000;  // so that the resets are not a flood
  }
  server.exchange(server.peer.headers(id, Peer::get()));
  EXPECT_EQ(server.answer(id).reset, NGHTTP2_REFUSED_STREAM);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1000u);
  server.respond(told[0], "");
  server.exchange(server.peer.headers(id + 2, Peer::get("/on")));
  server.echo_paths();
  EXPECT_EQ(server.answer(id + 2).body, "/on");
}

// ---- Bytes ----

TEST(Http2Bytes, ABodyPastTheBoundIsDroppedAndOtherStreamsContinue) {
  Http2Pool pool;
  Server server(pool, {.connection_bytes = 100'000});
  server.begin();
  server.exchange(server.peer.headers(1, Peer::post("/small"), false) + body_frames(1, 40'000));
  server.exchange(server.peer.headers(3, Peer::post("/large"), false));
  upload(server, 3, 300'000, true, 40'000);
  server.exchange(server.peer.headers(5, Peer::post("/after"), false) + body_frames(5, 40'000));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_TRUE(server.session.request(told[0]).is_whole);
  EXPECT_EQ(server.session.request(told[0]).body.size(), 40'000u);
  EXPECT_FALSE(server.session.request(told[1]).is_whole);
  EXPECT_EQ(server.session.request(told[1]).body, "");
  EXPECT_EQ(server.session.request(told[1]).body_bytes, 300'000u);
  EXPECT_EQ(server.session.request(told[1]).path, "/large");
  EXPECT_TRUE(server.session.request(told[2]).is_whole);
  EXPECT_EQ(server.session.dropped_bodies(), 1u);
  EXPECT_LE(server.session.held_bytes(), 100'000u);
  server.session.respond(told[1], {.status = 413});
  server.flush();
  EXPECT_EQ(server.answer(3).status(), "413");
  EXPECT_EQ(server.answer(3).reset, -1);
}

TEST(Http2Bytes, BoundsTheBodyOfOneRequest) {
  Http2Pool pool;
  Server server(pool, {.body_bytes = 10});
  server.begin();
  server.exchange(join({server.peer.request(1, Peer::post(), "0123456789"),
                        server.peer.request(3, Peer::post(), "0123456789a")}));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(server.session.request(told[0]).is_whole);
  EXPECT_FALSE(server.session.request(told[1]).is_whole);
  EXPECT_EQ(server.session.request(told[1]).body_bytes, 11u);
}

TEST(Http2Bytes, AnEndlessDroppedBodyIsReportedAndNoLongerRead) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.headers(1, Peer::post(), false));
  upload(server, 1, http2_dropped_body_bytes_max, false);
  EXPECT_EQ(server.told().size(), 0u);
  server.exchange(data(1, "x", false));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_FALSE(server.session.request(told[0]).is_whole);
  const uint64_t window = server.peer.window_updates[1];
  server.exchange(body_frames(1, 32'000, false));
  EXPECT_EQ(server.peer.window_updates[1], window);
  server.session.respond(told[0], {.status = 413});
  server.flush();
  EXPECT_EQ(server.answer(1).status(), "413");
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_NO_ERROR);  // the client may stop sending the body
  EXPECT_EQ(server.session.held_bytes(), 0u);
}

TEST(Http2Bytes, SessionsOfOneWorkerShareABound) {
  Http2Pool pool(100'000);
  Server first(pool), second(pool);
  first.begin();
  second.begin();
  first.exchange(first.peer.headers(1, Peer::post(), false) + body_frames(1, 60'000));
  second.exchange(second.peer.headers(1, Peer::post(), false) + body_frames(1, 60'000));
  const auto told = first.told(), others = second.told();
  ASSERT_EQ(told.size(), 1u);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_TRUE(first.session.request(told[0]).is_whole);
  EXPECT_FALSE(second.session.request(others[0]).is_whole);
  EXPECT_EQ(pool.held_bytes(),
            first.session.held_bytes() + second.session.held_bytes() + 2 * http2_stream_bytes);
  first.respond(told[0], "");
  first.flush();
  second.respond(others[0], "");
  second.exchange(second.peer.headers(3, Peer::post(), false) + body_frames(3, 60'000));
  EXPECT_TRUE(second.session.request(second.told().at(0)).is_whole);
}

TEST(Http2Bytes, ASessionThatEndsReturnsItsMemory) {
  Http2Pool pool;
  {
    Server server(pool);
    server.begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
    server.exchange(join({server.peer.request(1, Peer::post(), std::string(1000, 'b')),
                          server.peer.headers(3, Peer::post(), false), data(3, "part", false),
                          server.peer.headers(5, Peer::get())}));
    server.respond(server.told().at(0), std::string(5000, 'a'));
    server.flush();
    EXPECT_GT(pool.held_bytes(), 5000u);
  }
  EXPECT_EQ(pool.held_bytes(), 0u);
  EXPECT_EQ(pool.blocks(), 0u);
}

TEST(Http2Bytes, HeadersThatDoNotFitAreRefused) {
  Http2Pool pool;
  Server server(pool, {.connection_bytes = 10'000});
  server.begin();
  server.exchange(server.peer.headers(1, Peer::get("/", {{"x", std::string(20'000, 'h')}})));
  EXPECT_EQ(server.told().size(), 0u);
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_REFUSED_STREAM);
  EXPECT_EQ(server.session.refused_streams(), 1u);
  EXPECT_EQ(server.session.held_bytes(), 0u);
  EXPECT_EQ(server.session.unfinished(), 0u);
  server.exchange(server.peer.headers(3, Peer::get("/on")));
  server.echo_paths();
  EXPECT_EQ(server.answer(3).body, "/on");
}

TEST(Http2Bytes, AnAnswerThatDoesNotFitResetsItsStream) {
  Http2Pool pool;
  Server server(pool, {.connection_bytes = 10'000});
  server.begin();
  server.exchange(
      join({server.peer.headers(1, Peer::get()), server.peer.headers(3, Peer::get("/on"))}));
  const auto told = server.told();
  server.respond(told[0], std::string(20'000, 'a'));
  server.respond(told[1], "fits");
  server.flush();
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(server.answer(3).body, "fits");
  EXPECT_EQ(server.session.held_bytes(), 0u);
}

TEST(Http2Bytes, ABodyMayBeReplaced) {
  Http2Pool pool;
  Server server(pool, {.connection_bytes = 1'000});
  server.begin();
  server.exchange(server.peer.request(1, Peer::post("/p", {{"x", "y"}}), "packed"));
  const uint32_t number = server.told().at(0);
  EXPECT_FALSE(server.session.replace_body(number, std::string(2'000, 'u')));
  EXPECT_EQ(server.session.request(number).body, "packed");
  EXPECT_TRUE(server.session.replace_body(number, server.session.request(number).body.substr(2)));
  EXPECT_TRUE(server.session.replace_body(number, std::string(500, 'u')));
  EXPECT_EQ(server.session.request(number).body, std::string(500, 'u'));
  EXPECT_EQ(server.session.request(number).path, "/p");
  EXPECT_EQ(server.session.request(number).headers.find("x"), "y");
  EXPECT_GT(server.session.held_bytes(), 500u);
  server.respond(number, "");
  server.flush();
  EXPECT_EQ(server.session.held_bytes(), 0u);
}

TEST(Http2Bytes, AnAnswerMayUseTheMemoryOfItsRequest) {
  Http2Pool pool(9'000 + http2_stream_bytes);
  Server server(pool, {.connection_bytes = 9'000});
  server.begin();
  server.exchange(server.peer.request(1, Peer::post(), std::string(8'000, 'b')));
  server.respond(server.told().at(0), std::string(8'000, 'a'));
  server.flush();
  EXPECT_EQ(server.answer(1).body, std::string(8'000, 'a'));
}

TEST(Http2Bytes, AReplacedBodyCountsByItsNewSize) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.request(1, Peer::post(), std::string(500, 'b')));
  const uint32_t number = server.told().at(0);
  const size_t held = server.session.held_bytes();
  EXPECT_TRUE(server.session.replace_body(number, std::string(500, 'u')));
  EXPECT_EQ(server.session.held_bytes(), held);
  EXPECT_EQ(pool.held_bytes(), held + http2_stream_bytes);
}

// ---- Windows ----

TEST(Http2Windows, TheConnectionsWindowOpensAsBodiesAreTaken) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  const uint64_t begun = server.peer.window_updates[0];
  uint32_t id = 1;
  const auto send = [&] {
    for (size_t sent = 0; sent < 800'000; sent += 40'000, id += 2)
      server.exchange(server.peer.headers(id, Peer::post(), false) + body_frames(id, 40'000));
  };
  send();
  server.echo_paths();
  send();
  EXPECT_EQ(server.peer.window_updates[0], begun);  // opens when half of it was used and is free
  server.echo_paths();
  EXPECT_EQ(server.peer.window_updates[0], begun + 1'600'000);
}

TEST(Http2Windows, AReplacedBodyOpensTheWindowOnce) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  const uint64_t begun = server.peer.window_updates[0];
  uint32_t id = 1;
  const auto send = [&](size_t count, bool replace) {
    for (size_t i = 0; i < count; ++i, id += 2) {
      server.exchange(server.peer.headers(id, Peer::post(), false) + body_frames(id, 50'000));
      if (!replace) continue;
      const uint32_t number = server.told().at(0);
      ASSERT_TRUE(server.session.replace_body(number, std::string(40'000, 'u')));
      server.respond(number, "");
      server.flush();
    }
  };
  // The window opens when half of it, 1 MiB, was used and is free again.
  send(12, true);
  send(12, false);
  EXPECT_EQ(server.peer.window_updates[0], begun);
  send(8, true);
  EXPECT_EQ(server.peer.window_updates[0], begun);
  send(1, true);
  EXPECT_EQ(server.peer.window_updates[0], begun + 1'050'000);
}

TEST(Http2Windows, DropsABodyAtAnyWindowSize) {
  // The window opens only when half of it is free. So bodies that have left may have used up to
  // half of it, and a large body gets only the rest until it is dropped.
  for (const size_t before : {size_t{0}, size_t{100'000}, size_t{1'000'000}, size_t{2'000'000}}) {
    Http2Pool pool;
    Server server(pool);
    server.begin();
    size_t sent = 0;
    uint32_t id = 1;
    for (; sent < before; sent += 50'000, id += 2) {
      server.exchange(server.peer.headers(id, Peer::post(), false) + body_frames(id, 50'000));
      server.echo_paths();
    }
    server.exchange(server.peer.headers(id, Peer::post(), false));
    upload(server, id, 3'000'000, true, sent);
    const auto told = server.told();
    ASSERT_EQ(told.size(), 1u) << before;
    EXPECT_FALSE(server.session.request(told[0]).is_whole);
    EXPECT_EQ(server.session.request(told[0]).body_bytes, 3'000'000u);
  }
}

TEST(Http2Windows, ADroppedBodyOpensBothWindows) {
  Http2Pool pool;
  Server server(pool, {.body_bytes = 1000});
  server.begin();
  const uint64_t begun = server.peer.window_updates[0];
  server.exchange(server.peer.headers(1, Peer::post(), false));
  upload(server, 1, 2'500'000, false);
  EXPECT_GT(server.peer.window_updates[1], 2'400'000u);
  EXPECT_GT(server.peer.window_updates[0], begun + 1'000'000);
}

TEST(Http2Windows, DataForClosedStreamsOpensTheConnectionsWindow) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  const uint64_t begun = server.peer.window_updates[0];
  server.exchange(server.peer.headers(1, Peer::post(), false) + rst_stream(1));
  for (int i = 0; i < 100; ++i) server.exchange(data(1, std::string(16'000, 'b'), false));
  EXPECT_GT(server.peer.window_updates[0], begun + 1'000'000);
}

TEST(Http2Windows, BodiesOfRefusedStreamsOpenTheConnectionsWindow) {
  Http2Pool pool;
  Server server(pool);
  server.exchange(hello());
  const uint64_t begun = server.peer.window_updates[0];
  uint32_t id = 1;
  for (; id < 2 * http2_unacknowledged_streams_max; id += 2)
    server.exchange(server.peer.headers(id, Peer::get()));
  for (int i = 0; i < 30; ++i, id += 2)
    server.exchange(server.peer.headers(id, Peer::post(), false) + body_frames(id, 60'000));
  EXPECT_EQ(server.session.refused_streams(), 30u);
  EXPECT_GT(server.peer.window_updates[0], begun + 1'000'000);
}

TEST(Http2Windows, AClosedWindowAffectsOnlyItsOwnConnection) {
  Http2Pool pool;
  Server server(pool), other(pool);
  server.begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  other.begin();
  uint32_t id = 1;
  for (; id < 2 * 500; id += 2) server.exchange(server.peer.headers(id, Peer::get("/x")));
  for (const uint32_t number : server.told()) server.respond(number, std::string(10'000, 'a'));
  server.flush();
  EXPECT_LE(server.session.held_bytes(), http2_connection_bytes_max);
  EXPECT_GT(server.session.held_bytes(), 900'000u);
  EXPECT_FALSE(server.session.has_output());
  size_t refused = 0;
  for (const auto& [stream, answer] : server.peer.answers)
    refused += answer.reset == NGHTTP2_ENHANCE_YOUR_CALM;
  EXPECT_NEAR(static_cast<double>(refused), 500 - 104, 2);
  // Other connections of the worker are not affected.
  other.exchange(other.peer.headers(1, Peer::get("/on")));
  other.echo_paths();
  EXPECT_EQ(other.answer(1).body, "/on");
  server.exchange(window_update(1, 10'000));
  EXPECT_EQ(server.answer(1).body, std::string(10'000, 'a'));
  EXPECT_TRUE(server.answer(1).ended);
  server.exchange(settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 20'000}}) +
                  window_update(0, 2'000'000));
  EXPECT_EQ(server.session.held_bytes(), 0u);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

TEST(Http2Windows, TinyWindowsAreServedPieceByPiece) {
  Http2Pool pool;
  Server server(pool);
  server.begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1}});
  server.exchange(server.peer.headers(1, Peer::get("/0123456789")));
  server.echo_paths();
  EXPECT_EQ(server.answer(1).body, "/");
  for (int i = 0; i < 10; ++i) server.exchange(window_update(1, 1));
  EXPECT_EQ(server.answer(1).body, "/0123456789");
  EXPECT_TRUE(server.answer(1).ended);
}

TEST(Http2Windows, OutputIsWrittenUpToASize) {
  Http2Pool pool;
  Server server(pool);
  server.begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}});
  server.exchange(window_update(0, 1 << 20) + server.peer.headers(1, Peer::get()));
  server.respond(server.told().at(0), std::string(600'000, 'a'));
  size_t writes = 0;
  while (server.session.has_output()) {
    base::Buffer out;
    server.session.write(out, 50'000);
    EXPECT_LE(out.size(), 50'000u + (16 << 10) + 9);
    server.peer.read(out.view());
    ASSERT_LT(++writes, 100u);
  }
  EXPECT_GE(writes, 600'000u / (50'000 + 16'400));
  EXPECT_EQ(server.answer(1).body.size(), 600'000u);
}

}  // namespace
}  // namespace sluice::wire::http2_bounds_test
