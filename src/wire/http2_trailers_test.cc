// Trailers of answers. Http2Session writes most of them itself, because that is cheaper, and leaves
// the others to nghttp2; a client must not see a difference.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "wire/http2_server_test.h"

namespace sluice::wire {
namespace {

using http2_peer::Peer;
using http2_peer::Server;

// The types of the frames of one stream, in order: the first letter of each type's name.
std::string frames_of(std::string_view bytes, uint32_t stream) {
  std::string types;
  while (bytes.size() >= 9) {
    if (http2_peer::read_number(bytes.substr(5, 4)) == stream)
      types += "DHPRS..GWC"[static_cast<unsigned char>(bytes[3])];
    bytes.remove_prefix(9 + http2_peer::read_number(bytes.substr(0, 3)));
  }
  return types;
}

std::string header_block_behind_data(std::string_view bytes, uint32_t stream) {
  bool data = false;
  while (bytes.size() >= 9) {
    const size_t size = http2_peer::read_number(bytes.substr(0, 3));
    if (http2_peer::read_number(bytes.substr(5, 4)) == stream) {
      if (bytes[3] == NGHTTP2_HEADERS && data) return std::string(bytes.substr(9, size));
      data |= bytes[3] == NGHTTP2_DATA;
    }
    bytes.remove_prefix(9 + size);
  }
  return {};
}

TEST(Http2Trailers, ArriveUnchangedAtAnyLength) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  uint32_t stream = 1;
  for (const size_t size : {0u, 1u, 126u, 127u, 128u, 254u, 255u, 256u, 1000u, 16300u}) {
    SCOPED_TRACE(size);
    const std::string name(size % 500 + 1, 'n'), value(size, 'v');
    const std::array<Http2Header, 2> trailers{{{name, value}, {"grpc-status", "0"}}};
    server.exchange(server.peer.headers(stream, Peer::get()));
    server.session.respond(server.told().at(0), {.body = "b", .trailers = trailers});
    server.flush();
    EXPECT_EQ(server.answer(stream).trailer(name), value);
    EXPECT_EQ(server.answer(stream).trailer("grpc-status"), "0");
    EXPECT_TRUE(server.answer(stream).ended);
    stream += 2;
  }
}

// Trailers that do not fit into a frame are divided by nghttp2.
TEST(Http2Trailers, LongerThanAFrameUseContinuations) {
  Http2Pool pool;
  Server server(pool);
  server.begin();
  const std::string value(40'000, 'v');
  const std::array<Http2Header, 1> trailers{{{"x-long", value}}};
  server.exchange(server.peer.headers(1, Peer::get()));
  server.session.respond(server.told().at(0), {.body = "b", .trailers = trailers});
  base::Buffer out;
  server.session.write(out);
  EXPECT_EQ(frames_of(out.view(), 1), "HDHCC");
  EXPECT_EQ(server.session.unanswered(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

// The next header block must announce the new size of the table (RFC 7541, 4.2). A client ends the
// connection if it does not.
TEST(Http2Trailers, AnnounceTheTableSizeAfterNewSettings) {
  Http2Pool pool;
  Server server(pool);
  server.begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
  const std::array<Http2Header, 1> trailers{{{"grpc-status", "0"}}};
  server.exchange(server.peer.headers(1, Peer::get()));
  server.session.respond(server.told().at(0), {.body = "b", .trailers = trailers});
  server.flush();
  EXPECT_EQ(frames_of(server.written, 1), "H");  // the window allows no data
  server.peer.next_table_bytes = 0;
  server.exchange(http2_peer::settings({{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}}));
  server.exchange(http2_peer::window_update(1, 100));
  EXPECT_EQ(server.answer(1).trailer("grpc-status"), "0");
  EXPECT_TRUE(server.answer(1).ended);
  const std::string block = header_block_behind_data(server.written, 1);
  ASSERT_FALSE(block.empty());
  EXPECT_EQ(block[0], '\x20');  // announces a size of 0
  // The next header block announces nothing.
  server.exchange(server.peer.headers(3, Peer::get()));
  server.session.respond(server.told().at(0), {.body = "b", .trailers = trailers});
  server.exchange(http2_peer::window_update(3, 100));
  EXPECT_EQ(server.answer(3).trailer("grpc-status"), "0");
  EXPECT_EQ(header_block_behind_data(server.written, 3)[0], '\0');
}

// Settings may arrive between any two frames of an answer, also while a frame waits for room in the
// output.
TEST(Http2Trailers, AreTheSameWhereverTheOutputIsCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    Http2Pool pool;
    Server server(pool);
    server.begin();
    const std::string body(random() % 30'000, 'b'), status = std::to_string(random() % 17);
    const std::array<Http2Header, 1> trailers{{{"grpc-status", status}}};
    for (const uint32_t stream : {1u, 3u}) {
      server.exchange(server.peer.headers(stream, Peer::get()));
      server.session.respond(server.told().at(0), {.body = body, .trailers = trailers});
    }
    for (int step = 0; server.session.has_output(); ++step) {
      ASSERT_LT(step, 10'000);
      if (step == round % 5) {
        server.peer.next_table_bytes = random() % 2 * 100;
        server.take(http2_peer::settings({{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE,
                                           static_cast<uint32_t>(*server.peer.next_table_bytes)}}));
      }
      base::Buffer out;
      server.session.write(out, 1 + random() % (random() % 2 == 0 ? 40 : 20'000));
      server.peer.read(out.view());
    }
    for (const uint32_t stream : {1u, 3u}) {
      EXPECT_EQ(server.answer(stream).body.size(), body.size());
      EXPECT_EQ(server.answer(stream).trailer("grpc-status"), status);
      EXPECT_TRUE(server.answer(stream).ended);
    }
  }
}

// An answer in pieces may end without further bytes. Then no empty frame is sent before its
// trailers.
TEST(Http2Trailers, FollowAnAnswerInPiecesWithoutAnEmptyFrame) {
  Http2Pool pool;
  Http2Session session(pool, {}, [](std::string_view) { return true; });
  Peer peer;
  base::Buffer out;
  session.receive(
      http2_peer::hello() + http2_peer::settings_ack() + peer.headers(1, Peer::post("/s")), {});
  const uint32_t number = session.events()[0].request;
  session.send(number, {}, "one");
  session.write(out);
  const std::array<Http2Header, 1> trailers{{{"grpc-status", "5"}}};
  session.respond(number, {.trailers = trailers});
  session.write(out);
  peer.read(out.view());
  EXPECT_EQ(frames_of(out.view(), 1), "HDH");
  EXPECT_EQ(peer.answers[1].trailer("grpc-status"), "5");
  EXPECT_TRUE(peer.answers[1].ended);
}

TEST(Http2Headers, UnusedHeadersCountAndAreNotStored) {
  Http2Pool pool;
  Http2Session all(pool),
      some(pool, {}, nullptr, [](std::string_view name) { return name == "x-a"; });
  for (Http2Session* session : {&all, &some}) {
    Peer peer;
    session->receive(
        http2_peer::hello() +
            peer.headers(1, Peer::get("/p", {{"x-a", "1"}, {"x-b", std::string(1'000, 'b')}})),
        {});
    ASSERT_EQ(session->events().size(), 1u);
    const Http2Request request = session->request(session->events()[0].request);
    EXPECT_EQ(request.path, "/p");
    EXPECT_EQ(request.headers.find("x-a"), "1");
    EXPECT_EQ(request.headers.find("x-b").has_value(), session == &all);
    // A header list above the announced size is refused, whether or not its fields are kept.
    base::Buffer out;
    session->receive(peer.headers(3, Peer::get("/p", {{"x-b", std::string(70'000, 'b')}})), {});
    session->write(out);
  }
  EXPECT_GT(all.held_bytes(), 1'000u);
  EXPECT_LT(some.held_bytes(), 100u);
}

}  // namespace
}  // namespace sluice::wire
