// Http2Session: requests and answers, however the bytes are cut; other duties of a server of
// HTTP/2; and how a connection ends.
#include "wire/http2_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "wire/http2_server_test.h"

namespace sluice::wire::http2_session_test {
namespace {

using http2_peer::data;
using http2_peer::frame;
using http2_peer::hello;
using http2_peer::join;
using http2_peer::Peer;
using http2_peer::ping;
using http2_peer::rst_stream;
using http2_peer::Server;
using http2_peer::settings;
using http2_peer::settings_ack;
using http2_peer::window_update;

TEST(Http2Session, ReportsARequestWithAllItsParts) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.request(
      1, Peer::post("/a?b=c", {{"content-type", "text/plain"}, {"x-two", "1"}, {"x-two", "2"}}),
      "the body"));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1u);
  const Http2Request request = server.session.request(told[0]);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.scheme, "http");
  EXPECT_EQ(request.path, "/a?b=c");
  EXPECT_EQ(request.authority, "test");
  EXPECT_EQ(request.body, "the body");
  EXPECT_EQ(request.body_bytes, 8u);
  EXPECT_TRUE(request.is_whole);
  EXPECT_FALSE(request.is_reset);
  EXPECT_EQ(request.headers.find("content-type"), "text/plain");
  EXPECT_EQ(request.headers.find("x-two"), "1");
  EXPECT_EQ(request.headers.find("x-three"), std::nullopt);
  std::string all;
  for (const Http2Header& header : request.headers)
    all += std::string(header.name) + "=" + std::string(header.value) + ";";
  EXPECT_EQ(all, "content-type=text/plain;x-two=1;x-two=2;");
}

TEST(Http2Session, AHostHeaderReplacesTheAuthority) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.headers(
      1, {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "by-host"}}));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(server.session.request(told[0]).authority, "by-host");
}

TEST(Http2Session, AHostHeaderBesideAnotherAuthorityIsRefused) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  const auto request = [&](uint32_t stream, const std::string& host, bool last = true) {
    return server.peer.headers(stream,
                               {{":method", "GET"},
                                {":scheme", "http"},
                                {":path", "/"},
                                {":authority", "a.example:80"},
                                {"host", host}},
                               last);
  };
  for (const auto& [stream, host] :
       {std::pair(1u, "b.example"), std::pair(3u, "a.example"), std::pair(5u, "A.example:80")})
    server.exchange(request(stream, host));
  server.exchange(request(7, "c", false));
  server.exchange(data(7, "body", true));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(server.session.request(told[0]).authority, "a.example:80");
  for (const uint32_t stream : {1u, 3u, 7u})
    EXPECT_EQ(server.answer(stream).header(":status"), "400");
}

TEST(Http2Session, AnnouncesItsBounds) {
  Http2Pool pool;
  Server server(pool);
  server.exchange(hello());
  EXPECT_EQ(server.peer.first_frame, NGHTTP2_SETTINGS);
  EXPECT_EQ(server.peer.server_settings[NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS], 1000u);
  EXPECT_EQ(server.peer.server_settings[NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE], 65536u);
  EXPECT_EQ(server.peer.acknowledged_settings, 1u);
  EXPECT_EQ(server.peer.window_updates[0], (2u << 20) - 65535);
}

TEST(Http2Session, AnswersInAnyOrderWithHeadersBodyAndTrailers) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(
      join({server.peer.headers(1, Peer::get("/1")), server.peer.headers(3, Peer::get("/3")),
            server.peer.headers(5, Peer::get("/5"))}));
  auto told = server.told();
  ASSERT_EQ(told.size(), 3u);
  const std::array<Http2Header, 1> type{{{"content-type", "text/plain"}}};
  const std::array<Http2Header, 2> trailers{{{"grpc-status", "0"}, {"x-end", "yes"}}};
  server.session.respond(told[2], {.status = 404, .headers = type, .body = "none"});
  server.flush();
  EXPECT_TRUE(server.answer(5).ended);
  EXPECT_FALSE(server.answer(1).ended);
  server.session.respond(told[0],
                         {.headers = type, .body = "a", .more_body = "b", .trailers = trailers});
  server.session.respond(told[1], {.headers = trailers});
  server.flush();
  EXPECT_EQ(server.answer(5).status(), "404");
  EXPECT_EQ(server.answer(5).body, "none");
  EXPECT_EQ(server.answer(5).header("content-type"), "text/plain");
  EXPECT_EQ(server.answer(1).status(), "200");
  EXPECT_EQ(server.answer(1).body, "ab");
  EXPECT_EQ(server.answer(1).trailer("grpc-status"), "0");
  EXPECT_EQ(server.answer(1).trailer("x-end"), "yes");
  EXPECT_TRUE(server.answer(1).ended);
  EXPECT_EQ(server.answer(3).header("grpc-status"), "0");  // an answer of trailers only
  EXPECT_EQ(server.answer(3).data_frames, 0u);
  EXPECT_TRUE(server.answer(3).ended);
  EXPECT_EQ(server.session.held_bytes(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(Http2Session, AnAnswerMayBeCopiedFromItsRequest) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.request(1, Peer::post("/path"), "echo this"));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1u);
  const Http2Request request = server.session.request(told[0]);
  server.session.respond(told[0], {.body = request.body, .more_body = request.path});
  server.flush();
  EXPECT_EQ(server.answer(1).body, "echo this/path");
}

TEST(Http2Session, HeadIsAnsweredWithoutABody) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  auto list = Peer::get("/");
  list[0].second = "HEAD";
  server.exchange(server.peer.headers(1, list));
  const std::array<Http2Header, 1> length{{{"content-length", "4"}}};
  server.session.respond(server.told().at(0), {.headers = length, .body = "body"});
  server.flush();
  EXPECT_EQ(server.answer(1).header("content-length"), "4");
  EXPECT_EQ(server.answer(1).data_frames, 0u);
  EXPECT_TRUE(server.answer(1).ended);
}

TEST(Http2Session, HeadDoesNotStream) {
  Http2Pool pool;
  Http2Session session(pool, {}, [](std::string_view path) { return path == "/streams"; });
  Peer peer;
  auto head = Peer::get("/streams");
  head[0].second = "HEAD";
  session.receive(join({hello(), settings_ack(), peer.headers(1, head),
                        peer.headers(3, Peer::get("/streams")), peer.headers(5, Peer::get("/"))}),
                  {});
  ASSERT_EQ(session.events().size(), 4u);
  EXPECT_EQ(session.events()[0].kind, Http2Event::Kind::request);
  EXPECT_EQ(session.events()[1].kind, Http2Event::Kind::begun);
  EXPECT_EQ(session.events()[2].kind, Http2Event::Kind::body);
  EXPECT_EQ(session.events()[3].kind, Http2Event::Kind::request);
}

TEST(Http2Session, IgnoresTheTrailersOfARequest) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(join({server.peer.headers(1, Peer::post("/"), false), data(1, "body", false),
                        server.peer.headers(1, {{"x-trailer", "1"}})}));
  const auto told = server.told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(server.session.request(told[0]).body, "body");
  EXPECT_EQ(server.session.request(told[0]).headers.find("x-trailer"), std::nullopt);
}

TEST(Http2Session, PaddingBelongsToNoBody) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.headers(1, Peer::post("/"), false) +
                  frame(NGHTTP2_DATA, NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_END_STREAM, 1,
                        std::string("\3bodyxxx", 8)));
  EXPECT_EQ(server.session.request(server.told().at(0)).body, "body");
}

// The bytes of a client that uses many features, for tests that cut them.
std::string script(Peer& peer) {
  std::string in = hello({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100}}) + settings_ack();
  in += peer.request(1, Peer::post("/one", {{"x-long", std::string(3000, 'h')}}),
                     std::string(5000, 'b'));
  in += ping(7) + peer.headers(3, Peer::get("/two"));
  in += peer.headers(5, Peer::post("/reset"), false) + data(5, "part", false) + rst_stream(5);
  in += peer.headers(7, {{":method", "GET"}, {":path", "/no-scheme"}});
  in += peer.headers(9, Peer::post("/parts"), false);
  for (int i = 0; i < 6; ++i)
    in += data(9, std::string(10'000, static_cast<char>('a' + i)), i == 5);
  in += frame(NGHTTP2_PRIORITY, 0, 11, std::string("\0\0\0\1\20", 5));
  in += frame(0xBB, 0, 0, "unknown") + window_update(0, 1000);
  in += peer.headers(11, Peer::get("/gone")) + rst_stream(11);
  const std::string block = peer.block(Peer::get("/split", {{"x-more", std::string(200, 'm')}}));
  in += frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 13, block.substr(0, 20)) +
        frame(NGHTTP2_CONTINUATION, 0, 13, block.substr(20, 20)) +
        frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 13, block.substr(40));
  in += window_update(3, 50'000) + window_update(9, 1'000'000);
  return in;
}

struct Outcome {
  std::string events, written;
  bool operator==(const Outcome&) const = default;
};

// Requests are answered after all input was read, so that only the cuts differ between two runs.
template <class NextStep>
Outcome outcome_of(const std::string& in, NextStep next_step, size_t events_max = SIZE_MAX) {
  Http2Pool pool;
  Server server(pool);
  Outcome outcome;
  for (size_t at = 0; at < in.size();) {
    const size_t step = next_step();
    const std::string_view piece = std::string_view(in).substr(at, step);
    at += server.session.receive(piece, server.now, events_max);
    for (const Http2Event& event : server.session.events()) {
      const Http2Request request = server.session.request(event.request);
      outcome.events += (event.kind == Http2Event::Kind::request ? "request " : "reset ") +
                        std::string(request.path) + " " + std::to_string(request.body.size()) +
                        "\n";
      if (event.kind == Http2Event::Kind::request) server.events.push_back(event);
    }
  }
  for (const uint32_t number : server.told())
    server.respond(number, server.session.request(number).body);
  server.flush();
  outcome.written = server.written;
  return outcome;
}

TEST(Http2Session, AnyCutOfTheInputGivesTheSameEventsAndAnswers) {
  Peer peer;
  const std::string in = script(peer);
  const Outcome whole = outcome_of(in, [] { return SIZE_MAX; });
  EXPECT_EQ(whole.events,
            "request /one 5000\nrequest /two 0\nrequest /parts 60000\nrequest /gone 0\n"
            "reset /gone 0\nrequest /split 0\n");
  Http2Pool pool;
  Server reader(pool);
  reader.peer.read(whole.written);
  EXPECT_EQ(reader.answer(1).body, std::string(100, 'b'));  // the size of its window
  EXPECT_EQ(reader.answer(7).reset, NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(reader.answer(9).body.size(), 60'000u);
  EXPECT_TRUE(reader.answer(3).ended);
  EXPECT_TRUE(reader.answer(13).ended);

  const Outcome bytes = outcome_of(in, [] { return size_t{1}; });
  EXPECT_EQ(bytes.events, whole.events);
  EXPECT_EQ(bytes.written, whole.written);
  std::mt19937 dice(17);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t most = trial % 2 == 0 ? 40 : 4000;
    std::uniform_int_distribution<size_t> step(1, most);
    ASSERT_EQ(outcome_of(
                  in, [&] { return step(dice); }, trial % 3 == 0 ? 1 : SIZE_MAX),
              whole)
        << "trial " << trial;
  }
}

TEST(Http2Session, ReadsInputAfterAGoawayTheSameHoweverItIsSplit) {
  // nghttp2 ignores frames after a GOAWAY while no stream is open. The second input is such a case.
  Peer peer;
  std::string in = hello() + settings_ack() + peer.headers(1, Peer::get("/before"));
  in += frame(NGHTTP2_GOAWAY, 0, 0, std::string(8, '\0')) + peer.headers(3, Peer::get("/behind"));
  std::string ignored = hello() + settings_ack();
  ignored += frame(NGHTTP2_GOAWAY, 0, 0, std::string(8, '\0')) + data(99, "of an idle stream");
  for (const std::string& one : {in, ignored}) {
    const Outcome whole = outcome_of(one, [] { return SIZE_MAX; });
    for (const size_t step : {size_t{1}, size_t{2}, size_t{5}, size_t{30}})
      EXPECT_EQ(outcome_of(one, [=] { return step; }), whole) << step;
    EXPECT_EQ(outcome_of(
                  one, [] { return SIZE_MAX; }, 1),
              whole);
  }
  Http2Pool pool;
  Server server(pool);
  server.exchange(ignored);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  server.exchange(data(99, "of an idle stream"));
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

TEST(Http2Session, ReadsAtMostTheRequestedNumberOfRequests) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  std::string in;
  for (uint32_t i = 0; i < 10; ++i) in += server.peer.headers(2 * i + 1, Peer::get());
  const size_t consumed = server.session.receive(in, server.now, 3);
  EXPECT_EQ(server.session.events().size(), 3u);
  EXPECT_LT(consumed, in.size());
  EXPECT_EQ(server.session.receive(in.substr(consumed), server.now), in.size() - consumed);
  EXPECT_EQ(server.session.events().size(), 7u);
}

TEST(Http2Session, SendsGoawayToAClientWithoutHttp2) {
  for (const std::string& in : {std::string("GET / HTTP/1.1\r\n\r\n"),
                                std::string("PUT / HTTP/1.1"), std::string("PRI * HTTP/1.1\r\n")}) {
    for (const size_t step : {SIZE_MAX, size_t{1}}) {
      Http2Pool pool;
      Server server(pool);
      server.take(in, step);
      base::Buffer out;
      server.session.write(out);
      EXPECT_EQ(server.session.fault(), Http2Fault::not_http2);
      const std::string_view text = out.view();
      EXPECT_EQ(text.substr(0, 12), "HTTP/1.1 505");
      const size_t body = text.find("\r\n\r\n") + 4;
      EXPECT_NE(text.find("content-length: " + std::to_string(text.size() - body) + "\r\n"),
                text.npos);
      EXPECT_TRUE(server.session.is_drained());
      EXPECT_FALSE(server.session.has_output());
    }
  }
  Http2Pool pool;
  Server server(pool);
  server.exchange(std::string("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_EQ(server.session.fault(), Http2Fault::not_http2);
  EXPECT_EQ(server.peer.first_frame, NGHTTP2_SETTINGS);
  EXPECT_EQ(server.goaway_code(), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(http2_fault_name(server.session.fault()), "not_http2");
}

TEST(Http2Session, NothingIsWrittenBeforeTheClientSpeaksHttp2) {
  Http2Pool pool;
  Server server(pool);
  server.exchange(hello().substr(0, 23));
  EXPECT_EQ(server.written, "");
  EXPECT_FALSE(server.session.has_output());
  server.exchange(hello().substr(23));
  EXPECT_EQ(server.peer.first_frame, NGHTTP2_SETTINGS);
}

TEST(Http2Session, ReportsAResetAndKeepsTheReportedRequest) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(join({server.peer.request(1, Peer::post("/kept"), "body"),
                        server.peer.headers(3, Peer::post("/never-told"), false)}));
  server.exchange(rst_stream(1) + rst_stream(3));
  ASSERT_EQ(server.events.size(), 2u);
  EXPECT_EQ(server.events[1].kind, Http2Event::Kind::reset);
  EXPECT_EQ(server.events[1].request, server.events[0].request);
  const uint32_t number = server.events[0].request;
  EXPECT_TRUE(server.session.is_waiting(number));
  EXPECT_TRUE(server.session.request(number).is_reset);
  EXPECT_EQ(server.session.request(number).path, "/kept");
  EXPECT_EQ(server.session.request(number).body, "body");
  EXPECT_EQ(server.session.unanswered(), 1u);
  EXPECT_EQ(server.session.unfinished(), 0u);
  const size_t written = server.written.size();
  server.respond(number, "late");
  server.flush();
  EXPECT_EQ(server.written.size(), written);
  EXPECT_FALSE(server.session.is_waiting(number));
  EXPECT_EQ(server.session.held_bytes(), 0u);
  EXPECT_EQ(server.session.unanswered(), 0u);
}

TEST(Http2Session, DropAndResetUnfinishedResetStreams) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(join({server.peer.headers(1, Peer::get()),
                        server.peer.headers(3, Peer::post(), false), data(3, "part", false)}));
  EXPECT_EQ(server.session.unfinished(), 1u);
  server.session.drop(server.told().at(0));
  server.session.reset_unfinished();
  EXPECT_EQ(server.session.unfinished(), 0u);
  server.flush();
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_INTERNAL_ERROR);
  EXPECT_EQ(server.answer(3).reset, NGHTTP2_CANCEL);
  EXPECT_EQ(server.session.held_bytes(), 0u);
  server.exchange(server.peer.headers(5, Peer::get("/on")));
  server.echo_paths();
  EXPECT_EQ(server.answer(5).body, "/on");
}

TEST(Http2Session, AnswersKeepalivePingsAtAnOrdinaryRateWithoutEnd) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  for (uint64_t i = 0; i < 20'000; ++i) {
    server.now.us += 1'000'000;
    server.exchange(ping(i));
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  EXPECT_EQ(server.peer.acknowledged_pings.size(), 20'000u);
  EXPECT_EQ(server.peer.acknowledged_pings.back(), 19'999u);
}

TEST(Http2Session, TheOwnerMayAttachANoteToEachRequest) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(join({server.peer.headers(1, Peer::get()), server.peer.headers(3, Peer::get())}));
  const auto told = server.told();
  server.session.note(told[0]) = 7;
  EXPECT_EQ(server.session.note(told[0]), 7u);
  EXPECT_EQ(server.session.note(told[1]), 0u);
  server.respond(told[0], "");
  server.exchange(server.peer.headers(5, Peer::get()));
  EXPECT_EQ(server.session.note(server.told().at(0)), 0u);  // the number is used again
}

// ---- The end ----

TEST(Http2Session, ShutsDownInTwoStepsAndAnswersOpenRequests) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(server.peer.headers(1, Peer::get("/1")));
  server.session.begin_shutdown();
  server.flush();
  ASSERT_EQ(server.peer.goaways.size(), 1u);
  EXPECT_EQ(server.peer.goaways[0], (std::pair<uint32_t, uint32_t>{0x7FFFFFFF, 0}));
  ASSERT_EQ(server.peer.pings.size(), 1u);
  server.exchange(ping(server.peer.pings[0]));  // a ping of the client, not the answer to ours
  EXPECT_EQ(server.peer.goaways.size(), 1u);
  // Requests that the client sent before it knew of the shutdown are served.
  server.exchange(server.peer.headers(3, Peer::get("/3")));
  server.exchange(ping(server.peer.pings[0], true));
  ASSERT_EQ(server.peer.goaways.size(), 2u);
  EXPECT_EQ(server.peer.goaways[1], (std::pair<uint32_t, uint32_t>{3, 0}));
  server.exchange(server.peer.headers(5, Peer::get("/5")));
  EXPECT_FALSE(server.session.is_drained());
  server.echo_paths();
  EXPECT_EQ(server.answer(1).body, "/1");
  EXPECT_EQ(server.answer(3).body, "/3");
  EXPECT_TRUE(server.answer(5).headers.empty());
  EXPECT_TRUE(server.session.is_drained());
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

TEST(Http2Session, ReadsInputAfterTheLastGoawayTheSameHoweverItIsSplit) {
  // After the last stream has ended, nothing more is read.
  std::string written;
  for (const size_t step : {SIZE_MAX, size_t{1}, size_t{13}}) {
    Http2Pool pool;
    Server server(pool);
    server.begin();
    server.exchange(server.peer.headers(1, Peer::get()));
    server.session.begin_shutdown();
    server.session.finish_shutdown();
    server.flush();
    server.take(ping(3) + rst_stream(1) + ping(4), step);
    server.session.drop(server.told().at(0));
    server.flush();
    EXPECT_EQ(server.peer.acknowledged_pings, std::vector<uint64_t>{3});
    EXPECT_TRUE(server.session.is_drained());
    if (written.empty()) written = server.written;
    EXPECT_EQ(server.written, written);
  }
}

TEST(Http2Session, AnIdleConnectionIsDrainedWhenItsShutdownIsSeen) {
  Http2Pool pool;
  Server silent(pool);
  silent.session.begin_shutdown();
  EXPECT_TRUE(silent.session.is_drained());
  Server server(pool);
  server.begin();
  server.session.begin_shutdown();
  server.flush();
  EXPECT_FALSE(server.session.is_drained());
  server.exchange(ping(1, true));  // the answer to a ping that was not sent
  EXPECT_FALSE(server.session.is_drained());
  server.session.finish_shutdown();
  EXPECT_FALSE(server.session.is_drained());  // the last GOAWAY must still be sent
  server.flush();
  EXPECT_TRUE(server.session.is_drained());
  EXPECT_EQ(server.peer.goaways.size(), 2u);
}

}  // namespace
}  // namespace sluice::wire::http2_session_test
