// A call of the gRPC client: against sluice's own server in memory, and against frames written by
// hand.
#include "wire/grpc_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "wire/grpc_server.h"
#include "wire/http2_peer_test.h"

namespace sluice::wire::grpc_client_test {
namespace {

using http2_peer::data;
using http2_peer::frame;
using http2_peer::Headers;
using http2_peer::join;
using http2_peer::number;
using http2_peer::Peer;
using http2_peer::rst_stream;
using http2_peer::settings;
using namespace std::chrono_literals;

constexpr std::string_view path = "/package.Service/Method";

std::string prefixed(std::string_view message, uint8_t flags = 0) {
  std::string text(grpc_prefix_bytes, '\0');
  GrpcPrefix{flags, static_cast<uint32_t>(message.size())}.write(text.data());
  return text += message;
}

// A client and a server in memory. Each reads what the other wrote in pieces of `step` bytes.
struct Exchange {
  Exchange(std::string_view message, size_t bytes)
      : call("host:1", path, message, 1'500ms), step(bytes) {}

  // Runs both sides until nothing more is written. Returns false if the call has not ended.
  bool run() {
    for (int round = 0; round < 10'000; ++round) {
      base::Buffer out;
      call.write(out);
      feed(out.view(), [&](std::string_view piece) {
        while (!piece.empty()) {
          piece.remove_prefix(session.receive(piece, {}));
          for (const Http2Event& event : session.events()) answer(event);
        }
      });
      base::Buffer back;
      session.http().write(back);
      if (call.is_over() || (out.empty() && back.empty())) return call.is_over();
      feed(back.view(), [&](std::string_view piece) { call.receive(piece); });
    }
    return false;
  }
  void answer(const Http2Event& event) {
    if (event.kind != Http2Event::Kind::request) return;
    const GrpcCall got = session.call(event.request);
    path_got = got.path;
    authority_got = got.authority;
    message_got = got.message;
    timeout_got = got.timeout;
    session.answer(event.request, status, text, reply);
  }
  template <class Take>
  void feed(std::string_view bytes, Take take) const {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size())))
      take(bytes.substr(0, step));
  }

  GrpcClientCall call;
  size_t step;
  GrpcWorker worker;
  GrpcServerSession session{worker};
  GrpcStatus status = GrpcStatus::ok;
  std::string text, reply;
  std::string path_got, authority_got, message_got;
  base::Duration timeout_got{};
};

TEST(GrpcClientCalls, SendAMessageAndReturnTheAnswer) {
  for (const size_t step : {SIZE_MAX, size_t{1}}) {
    Exchange exchange("question", step);
    exchange.reply = "answer";
    ASSERT_TRUE(exchange.run());
    EXPECT_EQ(exchange.call.problem(), "");
    EXPECT_EQ(exchange.call.answer().status, 0u);
    EXPECT_EQ(exchange.call.answer().message, "answer");
    EXPECT_EQ(exchange.path_got, path);
    EXPECT_EQ(exchange.authority_got, "host:1");
    EXPECT_EQ(exchange.message_got, "question");
    EXPECT_EQ(exchange.timeout_got, base::milliseconds(1'500));
  }
}

// Requests and answers that are larger than the windows of a new connection.
TEST(GrpcClientCalls, CarryLongMessages) {
  for (const size_t bytes : {size_t{0}, size_t{400'000}, size_t{900'000}}) {
    Exchange exchange(std::string(bytes, 'q'), 5'000);
    exchange.reply = std::string(bytes, 'a');
    ASSERT_TRUE(exchange.run());
    EXPECT_EQ(exchange.call.problem(), "");
    EXPECT_TRUE(exchange.message_got == std::string(bytes, 'q'));
    EXPECT_TRUE(exchange.call.answer().message == exchange.reply);
  }
}

TEST(GrpcClientCalls, ReportARefusalWithItsText) {
  Exchange exchange("question", 7);
  exchange.status = GrpcStatus::unavailable;
  exchange.text = "the store\n is 100 % busy: \xC3\xA9";
  ASSERT_TRUE(exchange.run());
  EXPECT_EQ(exchange.call.problem(), "");
  EXPECT_EQ(exchange.call.answer().status, 14u);
  EXPECT_EQ(exchange.call.answer().text, exchange.text);
  EXPECT_EQ(exchange.call.answer().message, "");
}

TEST(GrpcClientCalls, NameStatusesAndUnescapeTexts) {
  EXPECT_EQ(grpc_status_name(0), "OK");
  EXPECT_EQ(grpc_status_name(16), "UNAUTHENTICATED");
  EXPECT_EQ(grpc_status_name(17), "status 17");
  EXPECT_EQ(unescaped_grpc_text("a%20b%0a%0A%%zz%4"), "a b\n\n%%zz%4");
  EXPECT_EQ(unescaped_grpc_text("%"), "%");
}

// The state of a call after the server has sent `bytes` after its settings.
struct Told {
  explicit Told(const std::string& bytes, const std::string& begin = settings({})) {
    GrpcClientCall call("host:1", path, "question", 1s);
    base::Buffer out;
    call.write(out);
    call.receive(begin + bytes);
    call.write(out);
    is_over = call.is_over();
    problem = call.problem();
    answer = call.answer();
  }
  bool is_over;
  std::string problem;
  GrpcAnswer answer;
};

const Headers ok{{":status", "200"}, {"content-type", "application/grpc"}};
const Headers status_0{{"grpc-status", "0"}};

std::string answered(const std::string& body, const Headers& trailers, const Headers& head = ok) {
  Peer peer;
  return join({peer.headers(1, head, false), data(1, body, false), peer.headers(1, trailers)});
}

TEST(GrpcClientCalls, ReadAnswersOfOtherServers) {
  EXPECT_EQ(Told(answered(prefixed("x"), status_0)).answer.message, "x");
  EXPECT_EQ(Told(answered(prefixed(""), status_0)).problem, "");
  Peer peer;  // for an answer with only trailers
  const Told refused(peer.headers(
      1, {{":status", "200"}, {"content-type", "application/grpc+proto"}, {"grpc-status", "12"}}));
  EXPECT_TRUE(refused.is_over);
  EXPECT_EQ(refused.problem, "");
  EXPECT_EQ(refused.answer.status, 12u);
}

TEST(GrpcClientCalls, AreNotOverBeforeTheAnswerIsWhole) {
  const std::string all = answered(prefixed("x"), status_0);
  for (size_t size = 0; size < all.size(); ++size)
    EXPECT_FALSE(Told(all.substr(0, size)).is_over) << size;
}

TEST(GrpcClientCalls, ReportInvalidAnswers) {
  const char* const no_answer = "that is not an answer of gRPC";
  EXPECT_EQ(Told(answered("", status_0)).problem, no_answer);
  EXPECT_EQ(Told(answered(prefixed("x", 1), status_0)).problem, no_answer);
  EXPECT_EQ(Told(answered(prefixed("x") + prefixed("y"), status_0)).problem, no_answer);
  EXPECT_EQ(Told(answered(prefixed("x").substr(0, 5), status_0)).problem, no_answer);
  EXPECT_EQ(Told(answered(prefixed("x"), {{"grpc-status", "zero"}})).problem, no_answer);
  EXPECT_EQ(Told(answered(prefixed("x"), {{"a", "b"}})).problem, no_answer);
  EXPECT_EQ(Told(answered("<html>", status_0, {{":status", "200"}})).problem, no_answer);
  EXPECT_EQ(Told(answered("<html>", {{"a", "b"}}, {{":status", "404"}})).problem,
            "the server refused with HTTP status 404");
  EXPECT_EQ(Told(rst_stream(1, NGHTTP2_REFUSED_STREAM)).problem,
            "the server reset the call: REFUSED_STREAM");
  EXPECT_EQ(Told(frame(NGHTTP2_GOAWAY, 0, 0, number(0, 4) + number(11, 4) + "too much")).problem,
            "the server takes no calls: ENHANCE_YOUR_CALM, too much");
  // A server that has seen the call still answers it.
  const std::string goaway = frame(NGHTTP2_GOAWAY, 0, 0, number(1, 4) + number(0, 4));
  EXPECT_EQ(Told(goaway + answered(prefixed("x"), status_0)).answer.message, "x");
}

TEST(GrpcClientCalls, ReportAServerWithoutHttp2) {
  const char* const no_http2 = "that is not a server of gRPC: it does not speak HTTP/2";
  EXPECT_EQ(Told("", "HTTP/1.1 400 Bad Request\r\n\r\n").problem, no_http2);
  EXPECT_EQ(Told("", "-ERR unknown command 'PRI'\r\n").problem, no_http2);
  EXPECT_EQ(Told("", std::string(40, '\0')).problem, no_http2);
}

TEST(GrpcClientStreams, BoundEachMessageAlsoIfItArrivesWhole) {
  const auto prefixed = [](std::string_view message) {
    std::string all(grpc_prefix_bytes, '\0');
    GrpcPrefix{.bytes = static_cast<uint32_t>(message.size())}.write(all.data());
    return all += message;
  };
  Peer peer;
  const std::string all = settings({}) + peer.headers(1, ok, false) +
                          data(1, prefixed("four") + prefixed("fives") + prefixed("six"), false);
  GrpcClientStream stream({.authority = "host:1", .path = path, .message_bytes_max = 4});
  base::Buffer out;
  stream.write(out);
  stream.receive(all);
  EXPECT_TRUE(stream.was_too_large());
  EXPECT_EQ(stream.take_message(), "four");
  EXPECT_EQ(stream.take_message(), std::nullopt);
  EXPECT_EQ(stream.take_message(), std::nullopt);
}

TEST(GrpcClientCalls, BoundTheAnswer) {
  Peer peer;
  std::string all = peer.headers(1, ok, false);
  const std::string piece(16'384, 'x');
  std::string prefix(grpc_prefix_bytes, '\0');
  GrpcPrefix{.bytes = grpc_message_bytes_max + 1}.write(prefix.data());
  all += data(1, prefix, false);
  for (size_t bytes = 0; bytes <= grpc_message_bytes_max + grpc_prefix_bytes; bytes += piece.size())
    all += data(1, piece, false);
  GrpcClientCall call("host:1", path, "question", 1s);
  base::Buffer out;
  call.write(out);
  call.receive(settings({}));
  // The bytes arrive as from a server that waits for the client to open windows.
  for (size_t at = 0; at < all.size() && !call.is_over(); at += 20'000) {
    call.receive(std::string_view(all).substr(at, 20'000));
    call.write(out);
  }
  EXPECT_NE(call.problem().find("and may have 4194304"), std::string::npos) << call.problem();
}

}  // namespace
}  // namespace sluice::wire::grpc_client_test
