// Clients of HTTP/2 that keep what they began: requests that they do not end, answers that they do
// not take, and what their streams cost meanwhile.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "wire/http2_server_test.h"
#include "wire/http2_session.h"

namespace sluice::wire::http2_slow_test {
namespace {

using http2_peer::data;
using http2_peer::join;
using http2_peer::Peer;
using http2_peer::rst_stream;
using http2_peer::Server;
using http2_peer::settings;
using http2_peer::window_update;

constexpr size_t streams_of = 500;

// A server whose client has shut all windows of streams.
struct Shut : Server {
  explicit Shut(Http2Pool& pool) : Server(pool) {
    begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  }
  // Answers a new request with a body of so many bytes; returns its stream.
  uint32_t ask(size_t bytes) {
    const uint32_t id = next_;
    next_ += 2;
    exchange(peer.headers(id, Peer::get()));
    respond(told().at(0), std::string(bytes, 'a'));
    flush();
    return id;
  }

 private:
  uint32_t next_ = 1;
};

// ---- What is held, and by whom ----

TEST(Http2Kept, AnAnswerIsKeptUntilItsClientHasTakenIt) {
  Http2Pool pool;
  Shut server(pool);
  EXPECT_FALSE(server.session.withholds());
  EXPECT_EQ(server.session.kept_bytes(), 0u);
  const uint32_t stream = server.ask(5'000);
  EXPECT_TRUE(server.session.withholds());
  EXPECT_GE(server.session.kept_bytes(), 5'000u + http2_stream_bytes);
  EXPECT_EQ(server.session.unfinished_bytes(), 0u);
  server.exchange(window_update(stream, 5'000));
  EXPECT_FALSE(server.session.withholds());
  EXPECT_EQ(server.session.kept_bytes(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(Http2Kept, ARequestIsUnfinishedThenUnderWayThenKept) {
  Http2Pool pool;
  Shut server(pool);
  server.exchange(
      join({server.peer.headers(1, Peer::post(), false), data(1, std::string(3'000, 'b'), false)}));
  EXPECT_GE(server.session.unfinished_bytes(), 3'000u + http2_stream_bytes);
  EXPECT_EQ(server.session.kept_bytes(), 0u);
  server.exchange(data(1, "", true));
  EXPECT_EQ(server.session.unfinished_bytes(), 0u);
  EXPECT_EQ(server.session.kept_bytes(), 0u);
  EXPECT_GE(pool.held_bytes(), 3'000u + http2_stream_bytes);
  server.respond(server.told().at(0), "a");
  server.flush();
  EXPECT_GE(server.session.kept_bytes(), http2_stream_bytes);
  server.exchange(rst_stream(1));
  EXPECT_EQ(server.session.kept_bytes(), 0u);
  EXPECT_FALSE(server.session.withholds());
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(Http2Kept, TheTextsOfARequestAreLetGo) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.request(1, Peer::post("/p", {{"x", "y"}}), std::string(9'000, 'b')));
  const uint32_t number = server.told().at(0);
  server.session.let_go(number);
  EXPECT_EQ(server.session.held_bytes(), 0u);
  EXPECT_EQ(pool.held_bytes(), http2_stream_bytes);
  const Http2Request request = server.session.request(number);
  EXPECT_EQ(request.path, "");
  EXPECT_EQ(request.body, "");
  EXPECT_EQ(request.headers.begin(), request.headers.end());
  server.respond(number, "late");
  server.flush();
  EXPECT_EQ(server.answer(1).body, "late");
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(Http2Kept, StreamsBeyondThePoolsBoundAreRefused) {
  Http2Pool pool(10 * http2_stream_bytes);
  Server server(pool);
  server.begin();
  for (uint32_t id = 1; id < 2 * 20; id += 2) server.exchange(server.peer.headers(id, Peer::get()));
  EXPECT_LT(server.told().size(), 10u);
  EXPECT_GT(server.session.refused_streams(), 9u);
  EXPECT_LE(pool.held_bytes(), 10 * http2_stream_bytes);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

// The pool has all memory of streams, nghttp2's as well.
TEST(Http2Kept, AStreamCostsNoMoreThanItCountsAs) {
  Http2Pool pool;
  const auto cost = [&](auto&& begin) {
    Shut server(pool);
    // The tables of the session have their size.
    for (uint32_t i = 0; i < 10; ++i) begin(server, 2 * i + 1);
    const size_t before = pool.used_bytes(), held = pool.held_bytes();
    for (size_t i = 10; i < streams_of; ++i) begin(server, static_cast<uint32_t>(2 * i + 1));
    EXPECT_EQ(server.session.fault(), Http2Fault::none);
    const size_t used = pool.used_bytes() - before, counted = pool.held_bytes() - held;
    EXPECT_GE(counted, (streams_of - 10) * http2_stream_bytes);
    return static_cast<double>(used) / static_cast<double>(counted);
  };
  EXPECT_LE(cost([](Shut& server, uint32_t) { server.ask(1); }), 1.0) << "an answer";
  EXPECT_LE(cost([](Shut& server, uint32_t id) {
              server.exchange(server.peer.headers(id, Peer::post(), false));
            }),
            1.1)
      << "a request";
}

// ---- Answers that are not taken ----

TEST(Http2Withheld, AClientThatTakesNothingIsReported) {
  Http2Pool pool;
  Shut server(pool);
  server.ask(5'000);
  EXPECT_EQ(server.session.end_withheld(), std::nullopt);
}

TEST(Http2Withheld, AnAnswerThatIsNotTakenIsResetAlone) {
  Http2Pool pool;
  Shut server(pool);
  const uint32_t stuck = server.ask(5'000), taken = server.ask(50'000);
  server.exchange(window_update(taken, http2_slow_bytes));
  EXPECT_EQ(server.session.end_withheld(), 0u);  // both are noted
  server.exchange(window_update(taken, http2_slow_bytes));
  EXPECT_EQ(server.session.end_withheld(), 1u);
  server.flush();
  EXPECT_EQ(server.answer(stuck).reset, NGHTTP2_CANCEL);
  EXPECT_EQ(server.answer(taken).reset, -1);
  server.exchange(window_update(taken, 50'000));
  EXPECT_TRUE(server.answer(taken).ended);
  EXPECT_EQ(pool.held_bytes(), 0u);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

TEST(Http2Withheld, BytesTakenOneByOneDoNotCount) {
  Http2Pool pool;
  Shut server(pool);
  const uint32_t stream = server.ask(5'000);
  for (int i = 0; i < 100; ++i) server.exchange(window_update(stream, 1));
  EXPECT_EQ(server.answer(stream).body.size(), 100u);
  EXPECT_EQ(server.session.end_withheld(), std::nullopt);
}

TEST(Http2Withheld, TheEndOfAnAnswerCounts) {
  Http2Pool pool;
  Shut server(pool);
  server.ask(5'000);
  const uint32_t small = server.ask(10);
  server.exchange(window_update(small, 10));
  EXPECT_EQ(server.session.end_withheld(), 0u);
  EXPECT_EQ(server.session.end_withheld(), std::nullopt);
}

// What was taken before an answer was withheld says nothing of it.
TEST(Http2Withheld, AnswersTakenBeforeDoNotCount) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.headers(1, Peer::get("/first")));
  server.echo_paths();
  server.exchange(settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2'000}}));
  server.exchange(server.peer.headers(3, Peer::get("/second")));
  server.respond(server.told().at(0), std::string(5'000, 'a'));
  server.flush();
  EXPECT_EQ(server.answer(3).body.size(), 2'000u);
  EXPECT_TRUE(server.session.withholds());
  EXPECT_EQ(server.session.end_withheld(), std::nullopt);
}

// ---- Requests that are not ended ----

TEST(Http2Unfinished, TheOldestIsEndedAloneIfOthersWereCompleted) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  EXPECT_EQ(server.session.oldest_unfinished(), 0u);
  EXPECT_FALSE(server.session.end_oldest());
  server.exchange(server.peer.headers(1, Peer::post(), false));
  server.exchange(server.peer.headers(3, Peer::post(), false));
  EXPECT_EQ(server.session.oldest_unfinished(), 1u);
  EXPECT_FALSE(server.session.end_oldest());  // nothing was completed
  server.exchange(server.peer.headers(5, Peer::get("/on")));
  server.echo_paths();
  EXPECT_EQ(server.session.oldest_unfinished(), 1u);
  EXPECT_TRUE(server.session.end_oldest());
  server.flush();
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_CANCEL);
  EXPECT_EQ(server.session.oldest_unfinished(), 3u);
  EXPECT_FALSE(server.session.end_oldest());  // nothing was completed since it is the oldest
  server.exchange(data(3, "b", true));
  EXPECT_EQ(server.session.oldest_unfinished(), 0u);
  server.echo_paths();
  EXPECT_EQ(server.answer(3).body, "/");
  EXPECT_EQ(server.answer(5).body, "/on");
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(Http2Unfinished, AllAreResetAtOnce) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  for (uint32_t id = 1; id < 10; id += 2)
    server.exchange(server.peer.headers(id, Peer::post(), false) + data(id, "part", false));
  server.session.reset_unfinished();
  server.flush();
  for (uint32_t id = 1; id < 10; id += 2) EXPECT_EQ(server.answer(id).reset, NGHTTP2_CANCEL);
  EXPECT_EQ(server.session.unfinished(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

}  // namespace
}  // namespace sluice::wire::http2_slow_test
