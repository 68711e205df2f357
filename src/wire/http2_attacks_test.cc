// Floods and malformed requests: each kind ends only its own connection or stream, with a named
// fault, and within the bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/http2_server_test.h"
#include "wire/http2_session.h"

namespace sluice::wire::http2_attacks_test {
namespace {

using http2_peer::data;
using http2_peer::frame;
using http2_peer::Headers;
using http2_peer::join;
using http2_peer::Peer;
using http2_peer::ping;
using http2_peer::rst_stream;
using http2_peer::Server;
using http2_peer::settings;
using http2_peer::window_update;

struct Flood {
  const char* name;
  Http2Fault fault;
  uint32_t code;
  int64_t allowed;  // how often it may be sent at a time
  // The bytes to send for the i-th time.
  std::function<std::string(Server&, uint32_t i)> send;
};

void PrintTo(const Flood& flood, std::ostream* out) {
  *out << flood.name;
}

class Http2Floods : public testing::TestWithParam<Flood> {};

std::string next_request(Server& server, uint32_t i, bool last) {
  return server.peer.headers(2 * i + 101, Peer::get("/"), last);
}

TEST_P(Http2Floods, EndTheConnectionWithANamedFaultAndNoOther) {
  const Flood& flood = GetParam();
  Http2Pool pool;
  Server server(pool), other(pool);
  server.begin();
  other.begin();
  server.exchange(server.peer.headers(1, Peer::post(), false));
  int64_t sent = 0;
  while (server.session.fault() == Http2Fault::none && sent < 40'000) {
    server.exchange(flood.send(server, static_cast<uint32_t>(sent)));
    // Requests that were reported get no answer.
    for (const uint32_t number : server.told()) server.session.drop(number);
    ++sent;
  }
  EXPECT_EQ(server.session.fault(), flood.fault);
  EXPECT_EQ(server.goaway_code(), flood.code);
  EXPECT_EQ(server.peer.goaways.size(), 1u);
  EXPECT_GT(sent, flood.allowed - 3);
  EXPECT_LE(sent, flood.allowed + 3);
  EXPECT_LE(server.session.held_bytes(), http2_connection_bytes_max);
  EXPECT_TRUE(server.session.is_drained());
  // Later bytes are not read.
  const size_t written = server.written.size();
  server.exchange(ping(1));
  EXPECT_EQ(server.written.size(), written);

  other.exchange(other.peer.headers(1, Peer::get("/on")));
  other.echo_paths();
  EXPECT_EQ(other.answer(1).body, "/on");

  // At a rate that is allowed, nothing happens.
  if (flood.allowed < 100) return;
  Server slow(pool);
  slow.begin();
  slow.exchange(slow.peer.headers(1, Peer::post(), false));
  for (uint32_t i = 0; i < flood.allowed + 1000; ++i) {
    slow.now.us += 20'000;
    slow.exchange(flood.send(slow, i));
    for (const uint32_t number : slow.told()) slow.session.drop(number);
  }
  EXPECT_EQ(slow.session.fault(), Http2Fault::none);
}

INSTANTIATE_TEST_SUITE_P(
    Http2Session, Http2Floods,
    testing::Values(
        Flood{"resets", Http2Fault::resets, NGHTTP2_ENHANCE_YOUR_CALM, http2_resets_max,
              [](Server& s, uint32_t i) {
                return next_request(s, i, true) + rst_stream(2 * i + 101);
              }},
        Flood{"unfinished_resets", Http2Fault::resets, NGHTTP2_ENHANCE_YOUR_CALM, http2_resets_max,
              [](Server& s, uint32_t i) {
                return next_request(s, i, false) + rst_stream(2 * i + 101);
              }},
        // The client makes the server reset its streams.
        Flood{"provoked_resets", Http2Fault::resets, NGHTTP2_ENHANCE_YOUR_CALM, http2_resets_max,
              [](Server& s, uint32_t i) {
                return next_request(s, i, false) + window_update(2 * i + 101, 0x7FFFFFFF);
              }},
        Flood{"malformed_requests", Http2Fault::resets, NGHTTP2_ENHANCE_YOUR_CALM, http2_resets_max,
              [](Server& s, uint32_t i) {
                return s.peer.headers(2 * i + 101, {{":method", "GET"}});
              }},
        Flood{"reset_frames", Http2Fault::reset_frames, NGHTTP2_ENHANCE_YOUR_CALM, http2_frames_max,
              [](Server&, uint32_t) { return rst_stream(1); }},
        Flood{"settings", Http2Fault::settings, NGHTTP2_ENHANCE_YOUR_CALM, http2_frames_max - 2,
              [](Server&, uint32_t) { return settings({}); }},
        Flood{"pings", Http2Fault::pings, NGHTTP2_ENHANCE_YOUR_CALM, http2_frames_max,
              [](Server&, uint32_t i) { return ping(i); }},
        Flood{"priorities", Http2Fault::priorities, NGHTTP2_ENHANCE_YOUR_CALM, http2_frames_max,
              [](Server&, uint32_t i) {
                return frame(NGHTTP2_PRIORITY, 0, 2 * i + 3,
                             http2_peer::number(2 * i + 1, 4) + "\20");
              }},
        Flood{"window_updates", Http2Fault::window_updates, NGHTTP2_ENHANCE_YOUR_CALM,
              http2_frames_max, [](Server&, uint32_t) { return window_update(0, 1); }},
        Flood{"empty_data", Http2Fault::small_data, NGHTTP2_ENHANCE_YOUR_CALM, http2_frames_max,
              [](Server&, uint32_t) { return data(1, "", false); }},
        Flood{"data_of_gone_streams", Http2Fault::small_data, NGHTTP2_ENHANCE_YOUR_CALM,
              http2_frames_max,
              [](Server&, uint32_t i) { return i == 0 ? rst_stream(1) : data(1, "x", true); }},
        Flood{"headers_of_gone_streams", Http2Fault::repeated_headers, NGHTTP2_ENHANCE_YOUR_CALM,
              http2_frames_max,
              [](Server& s, uint32_t i) {
                return i == 0 ? rst_stream(1) : s.peer.headers(1, Peer::get());
              }},
        Flood{"unknown_frames", Http2Fault::other_frames, NGHTTP2_ENHANCE_YOUR_CALM,
              http2_frames_max, [](Server&, uint32_t) { return frame(0xCC, 0, 0, "?"); }},
        Flood{"priority_updates", Http2Fault::other_frames, NGHTTP2_ENHANCE_YOUR_CALM,
              http2_frames_max,
              [](Server&, uint32_t) {
                return frame(NGHTTP2_PRIORITY_UPDATE, 0, 0, http2_peer::number(3, 4) + "u=1");
              }},
        Flood{"continuations", Http2Fault::continuations, NGHTTP2_ENHANCE_YOUR_CALM,
              http2_continuations_max + 2,
              [](Server&, uint32_t i) {
                return i == 0 ? frame(NGHTTP2_HEADERS, 0, 101, "")
                              : frame(NGHTTP2_CONTINUATION, 0, 101, "");
              }},
        Flood{"header_bomb", Http2Fault::header_list, NGHTTP2_ENHANCE_YOUR_CALM, 1,
              [](Server& s, uint32_t) {
                // One large value in HPACK's table, and one byte for each repetition of it.
                std::string block = s.peer.block(Peer::get("/", {{"x", std::string(2'900, 'h')}}));
                block += std::string(10'000, '\xBE');
                return frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM,
                             101, block);
              }},
        Flood{"settings_entries", Http2Fault::settings_size, NGHTTP2_ENHANCE_YOUR_CALM, 1,
              [](Server&, uint32_t) {
                return settings(std::vector<std::pair<uint16_t, uint32_t>>(
                    33, {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16'384}));
              }},
        Flood{"connection_window_overflow", Http2Fault::flow_control, NGHTTP2_FLOW_CONTROL_ERROR, 1,
              [](Server&, uint32_t) { return window_update(0, 0x7FFFFFFF); }},
        Flood{"too_much_data", Http2Fault::flow_control, NGHTTP2_FLOW_CONTROL_ERROR, 1,
              [](Server& s, uint32_t) {
                std::string all;
                for (uint32_t i = 0; i < 36; ++i) {
                  all += s.peer.headers(2 * i + 101, Peer::post(), false);
                  for (int part = 0; part < 4; ++part)
                    all += data(2 * i + 101, std::string(16'000, 'b'), false);
                }
                return all;
              }},
        Flood{"bad_hpack", Http2Fault::compression, NGHTTP2_COMPRESSION_ERROR, 1,
              [](Server&, uint32_t) {
                return frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 101, "\xFF\xFF\xFF\xFF");
              }},
        Flood{"large_frame", Http2Fault::frame_size, NGHTTP2_FRAME_SIZE_ERROR, 1,
              [](Server&, uint32_t) { return data(1, std::string(16'385, 'x'), false); }},
        Flood{"headers_of_an_ended_stream", Http2Fault::stream_closed, NGHTTP2_STREAM_CLOSED, 1,
              [](Server& s, uint32_t) {
                return join({s.peer.headers(101, Peer::get()), s.peer.headers(101, Peer::get())});
              }},
        Flood{"a_servers_stream", Http2Fault::protocol, NGHTTP2_PROTOCOL_ERROR, 1,
              [](Server& s, uint32_t) { return s.peer.headers(2, Peer::get()); }},
        Flood{"data_of_an_idle_stream", Http2Fault::protocol, NGHTTP2_PROTOCOL_ERROR, 1,
              [](Server&, uint32_t) { return data(99, "x"); }},
        Flood{"push_promise", Http2Fault::protocol, NGHTTP2_PROTOCOL_ERROR, 1,
              [](Server&, uint32_t) {
                return frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1,
                             http2_peer::number(2, 4));
              }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Http2Bounds, StreamsAboveTheBoundAreRefusedUpToAFlood) {
  Http2Pool pool;
  Server server(pool);
  server.exchange(http2_peer::hello());  // the client has not acknowledged that more are allowed
  uint32_t id = 1;
  for (uint32_t i = 0; i < http2_unacknowledged_streams_max; ++i, id += 2)
    server.exchange(server.peer.headers(id, Peer::get()));
  int64_t refused = 0;
  for (; server.session.fault() == Http2Fault::none && refused < 20'000; ++refused, id += 2)
    server.exchange(server.peer.headers(id, Peer::get()));
  EXPECT_EQ(server.session.fault(), Http2Fault::refused_streams);
  EXPECT_NEAR(static_cast<double>(refused), http2_frames_max, 2);
  EXPECT_EQ(server.told().size(), http2_unacknowledged_streams_max);
}

TEST(Http2Bounds, RequestsThatAreResetBeforeTheirAnswerAreAFlood) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  uint32_t id = 1;
  for (; server.session.fault() == Http2Fault::none && id < 10'000; id += 2) {
    server.take(server.peer.headers(id, Peer::get()));
    for (const uint32_t number : server.told()) server.respond(number, "too late");
    server.take(rst_stream(id));
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::resets);
  EXPECT_NEAR(id / 2, http2_resets_max, 3);
}

TEST(Http2Bounds, StreamsThatTheServerDropsAreNotAFlood) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  for (uint32_t id = 1; id < 2 * 3 * http2_resets_max; id += 2) {
    server.exchange(server.peer.headers(id, Peer::get()));
    server.session.drop(server.told().at(0));
    server.flush();
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

TEST(Http2Bounds, ContinuationsAreCountedForEachHeaderBlock) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  for (uint32_t id = 1; id < 20; id += 2) {
    const std::string block = server.peer.block(Peer::get("/parts"));
    std::string in = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, id, block);
    for (size_t i = 1; i < http2_continuations_max; ++i)
      in += frame(NGHTTP2_CONTINUATION, 0, id, "");
    server.exchange(in + frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, id, ""));
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  EXPECT_EQ(server.told().size(), 10u);
}

TEST(Http2Bounds, GoawayNamesTheLastProcessedStream) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(join({server.peer.headers(1, Peer::get()), server.peer.headers(7, Peer::get())}));
  std::string pings;
  for (int64_t i = 0; i < http2_frames_max + 1; ++i) pings += ping(1);
  server.exchange(pings);
  ASSERT_EQ(server.peer.goaways.size(), 1u);
  EXPECT_EQ(server.peer.goaways[0], (std::pair<uint32_t, uint32_t>{7, NGHTTP2_ENHANCE_YOUR_CALM}));
}

TEST(Http2Bounds, AnAnsweredClientMaySendFramesInProportion) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  // Two window updates and a ping for each answer: far more in total than are allowed at a time.
  for (uint32_t id = 1; id < 2 * 20'000; id += 2) {
    server.exchange(server.peer.headers(id, Peer::get()) + ping(id) + window_update(0, 1) +
                    window_update(0, 1));
    server.echo_paths();
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  EXPECT_EQ(server.peer.answers.size(), 20'000u);
}

TEST(Http2Bounds, AHeaderListAboveTheAnnouncedSizeGets431) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  Headers many;
  for (int i = 0; i < 1200; ++i) many.emplace_back("x-" + std::to_string(i), std::string(30, 'h'));
  std::string block = server.peer.block(Peer::post("/", many));
  std::string in;
  for (size_t at = 0; at < block.size(); at += 16'000)
    in += frame(at == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                at + 16'000 >= block.size() ? NGHTTP2_FLAG_END_HEADERS : 0, 1,
                block.substr(at, 16'000));
  server.exchange(in);
  EXPECT_EQ(server.told().size(), 0u);
  EXPECT_EQ(server.answer(1).status(), "431");
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_NO_ERROR);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  EXPECT_EQ(server.session.held_bytes(), 0u);
  server.exchange(server.peer.headers(3, Peer::get("/on")));
  server.echo_paths();
  EXPECT_EQ(server.answer(3).body, "/on");
}

TEST(Http2Bounds, AHeaderListFourTimesAsLargeEndsTheConnection) {
  // One value in HPACK's table, and one byte for each repetition of it.
  const size_t entry = 1 + 2'900 + 32;
  for (const bool is_over : {false, true}) {
    Http2Pool pool;
    Server server(pool);
    server.begin();
    std::string block = server.peer.block(Peer::get("/", {{"x", std::string(2'900, 'h')}}));
    block += std::string(4 * http2_header_list_bytes_max / entry - (is_over ? 0 : 2), '\xBE');
    server.exchange(
        frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, block));
    EXPECT_EQ(server.session.fault(), is_over ? Http2Fault::header_list : Http2Fault::none);
    EXPECT_EQ(server.answer(1).status(), is_over ? "" : "431");
  }
}

TEST(Http2Bounds, AnAnsweredClientMayResetOtherStreams) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  for (uint32_t id = 1; id < 4 * 3 * http2_resets_max; id += 4) {
    server.exchange(server.peer.headers(id, Peer::get("/answered")));
    server.echo_paths();
    server.exchange(server.peer.headers(id + 2, Peer::get("/taken-back")) + rst_stream(id + 2));
    server.session.drop(server.told().at(0));
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
}

TEST(Http2Bounds, ARateAboveTheAllowedOneEndsAsAFlood) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  int64_t sent = 0;
  for (; server.session.fault() == Http2Fault::none && sent < 40'000; ++sent) {
    if (sent % (2 * http2_frames_per_second) == 0) server.now.us += 1'000'000;
    server.exchange(ping(1));
  }
  EXPECT_EQ(server.session.fault(), Http2Fault::pings);
  EXPECT_NEAR(static_cast<double>(sent), 2 * http2_frames_max, 2 * http2_frames_per_second);
}

TEST(Http2Bounds, AClockThatGoesBackAllowsNothingMore) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(ping(1));
  server.now.us -= 900'000'000;
  int64_t sent = 1;
  for (; server.session.fault() == Http2Fault::none && sent < 20'000; ++sent)
    server.exchange(ping(1));
  EXPECT_EQ(server.session.fault(), Http2Fault::pings);
  EXPECT_NEAR(static_cast<double>(sent), http2_frames_max, 2);
}

TEST(Http2Bounds, NamesOfFaultsDiffer) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < http2_fault_count; ++i) {
    const std::string_view name = http2_fault_name(static_cast<Http2Fault>(i));
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 0) << name;
    names.push_back(name);
  }
}

// ---- What makes a request malformed ----

struct Malformed {
  const char* name;
  std::function<std::string(Peer&)> send;
};

void PrintTo(const Malformed& one, std::ostream* out) {
  *out << one.name;
}

class Http2Malformed : public testing::TestWithParam<Malformed> {};

TEST_P(Http2Malformed, RequestIsResetAndNotReported) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  server.exchange(GetParam().send(server.peer));
  EXPECT_EQ(server.told().size(), 0u);
  EXPECT_EQ(server.answer(1).reset, NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(server.session.fault(), Http2Fault::none);
  EXPECT_EQ(server.session.held_bytes(), 0u);
  server.exchange(server.peer.headers(3, Peer::get("/on")));
  server.echo_paths();
  EXPECT_EQ(server.answer(3).body, "/on");
}

Malformed with(const char* name, Headers list) {
  return {name, [list](Peer& peer) { return peer.headers(1, list); }};
}

Headers without(std::string_view name) {
  Headers list = Peer::get();
  std::erase_if(list, [&](const auto& one) { return one.first == name; });
  return list;
}

INSTANTIATE_TEST_SUITE_P(
    Http2Session, Http2Malformed,
    testing::Values(
        with("no_method", without(":method")), with("no_scheme", without(":scheme")),
        with("no_path", without(":path")), with("no_authority", without(":authority")),
        with("two_paths", Peer::get("/", {{":path", "/again"}})),
        with("pseudo_header_behind_others",
             {{":method", "GET"}, {":scheme", "http"}, {"x", "y"}, {":path", "/"}}),
        with("unknown_pseudo_header", Peer::get("/", {{":what", "x"}})),
        with("pseudo_header_of_an_answer", Peer::get("/", {{":status", "200"}})),
        with("upper_case_name", Peer::get("/", {{"X-Upper", "1"}})),
        with("connection_header", Peer::get("/", {{"connection", "close"}})),
        with("keep_alive_header", Peer::get("/", {{"keep-alive", "1"}})),
        with("transfer_encoding", Peer::get("/", {{"transfer-encoding", "chunked"}})),
        with("upgrade", Peer::get("/", {{"upgrade", "h2c"}})),
        with("te_but_trailers", Peer::get("/", {{"te", "gzip"}})),
        with("path_without_a_slash", Peer::get("x")), with("empty_path", Peer::get("")),
        with("content_length_without_a_body", Peer::post("/", {{"content-length", "3"}})),
        with("two_content_lengths", Peer::get("/", {{"content-length", "0"}, {"content-length", "0"}})),
        Malformed{"content_length_too_small",
                  [](Peer& peer) {
                    return peer.request(1, Peer::post("/", {{"content-length", "3"}}), "four");
                  }},
        Malformed{"content_length_too_large",
                  [](Peer& peer) {
                    return peer.request(1, Peer::post("/", {{"content-length", "5"}}), "four");
                  }},
        Malformed{"trailers_that_do_not_end",
                  [](Peer& peer) {
                    return join({peer.headers(1, Peer::post(), false),
                                 peer.headers(1, {{"x", "y"}}, false)});
                  }},
        Malformed{"pseudo_header_in_trailers",
                  [](Peer& peer) {
                    return join({peer.headers(1, Peer::post(), false),
                                 peer.headers(1, {{":path", "/"}})});
                  }}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace sluice::wire::http2_attacks_test
