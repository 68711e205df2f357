// Any bytes, used as the parts of a gRPC call: its deadline, content type and encoding, and its
// message, with gzip or without. The server must report the same message as a naive reader; then
// the same for the messages of a streaming call.
//
// The first byte chooses: encoding, what is done to the message, and how the input is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "wire/grpc_server.h"
#include "wire/http2_peer_test.h"

namespace {

using namespace sluice;
using wire::http2_peer::Peer;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// A deadline by its definition, in nanoseconds; below 0: ill-formed.
double model_timeout_ns(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return -1;
  double value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (std::string_view("0123456789").find(c) == std::string_view::npos) return -1;
    value = value * 10 + (c - '0');
  }
  const size_t unit = std::string_view("numSMH").find(text.back());
  if (unit == std::string_view::npos) return -1;
  const double ns[] = {1, 1e3, 1e6, 1e9, 60e9, 3600e9};
  return value * ns[unit];
}

void check_texts(std::string_view text) {
  const auto timeout = wire::read_grpc_timeout(text.substr(0, 12));
  const double expected = model_timeout_ns(text.substr(0, 12));
  require(timeout.has_value() == (expected >= 0), "a deadline is read otherwise");
  if (timeout) {
    const double left = static_cast<double>(timeout->us) * 1e3 - expected;
    require(left >= 0 && left < 1000, "a deadline is another");
  }
  wire::read_grpc_content_type(text);
  std::string escaped;
  wire::append_grpc_text(text, escaped);
  for (const char c : escaped) require(c >= ' ' && c <= '~', "a text is not escaped");
}

// What a streaming call must report of its body: the messages before the first broken one, and
// whether one is broken.
struct Expected {
  std::vector<std::string> messages;
  bool broken = false;
};

Expected expected_of(std::string_view body, bool says_gzip) {
  Expected all;
  wire::Gzip gzip;
  while (!body.empty()) {
    all.broken = true;
    if (body.size() < wire::grpc_prefix_bytes) return all;
    uint32_t size = 0;
    for (size_t i = 1; i < wire::grpc_prefix_bytes; ++i)
      size = size * 256 + static_cast<unsigned char>(body[i]);
    const char flags = body[0];
    body.remove_prefix(wire::grpc_prefix_bytes);
    if (size > body.size() || (flags != 0 && !(flags == 1 && says_gzip))) return all;
    std::string message(body.substr(0, size));
    if (flags == 1) {
      std::string unpacked;
      if (gzip.decompress(message, wire::grpc_unpacked_bytes_max(message.size()), unpacked) !=
          wire::Gzip::Result::done)
        return all;
      message = unpacked;
    }
    all.broken = false;
    all.messages.push_back(message);
    body.remove_prefix(size);
  }
  return all;
}

// Sends the body in two frames, divided at any place, and in pieces of `step` bytes. Each message
// is sent back.
void check_streaming(std::string_view body, bool says_gzip, size_t step) {
  const Expected expected = expected_of(body, says_gzip);
  wire::GrpcWorker worker;
  {
    wire::GrpcServerSession session(
        worker, wire::Http2Session::Bounds{.connection_bytes = 32'000, .body_bytes = 20'000},
        [](std::string_view path) { return path == "/p.S/Stream"; });
    Peer peer;
    std::string in = wire::http2_peer::hello() + wire::http2_peer::settings_ack();
    in += peer.headers(
        1,
        Peer::grpc("/p.S/Stream", says_gzip ? wire::http2_peer::Headers{{"grpc-encoding", "gzip"}}
                                            : wire::http2_peer::Headers{}),
        false);
    in += wire::http2_peer::data(1, body.substr(0, body.size() / 3), false);
    in += wire::http2_peer::data(1, body.substr(body.size() / 3), true);
    base::Buffer out;
    std::vector<std::string> messages;
    bool refused = false, reset = false, ended = false;
    for (std::string_view rest = in; !rest.empty();) {
      rest.remove_prefix(session.receive(rest.substr(0, step), {}));
      for (const wire::Http2Event& event : session.events()) {
        std::string_view message;
        wire::GrpcNext next = wire::GrpcNext::none;
        while ((next = session.next(event.request, message)) == wire::GrpcNext::message) {
          messages.emplace_back(message);
          if (!session.send(event.request, message)) {
            reset = true;
            break;
          }
          session.http().write(out);
        }
        refused |= next == wire::GrpcNext::refused;
        if (next == wire::GrpcNext::end) {
          ended = true;
          session.answer(event.request, wire::GrpcStatus::ok, {}, {});
        }
      }
      require(session.http().held_bytes() <= 32'000, "a connection holds too much");
    }
    session.http().write(out);
    peer.read(out.view());
    if (reset) {
      require(messages.size() <= expected.messages.size(), "there are more messages");
    } else {
      require(messages == expected.messages, "the messages are others");
      require(refused == expected.broken && ended != refused, "the end is another");
      // The answer may not have ended, because the client's window is too small for it.
      const auto& answer = peer.answers[1];
      if (answer.ended) {
        const std::string status =
            answer.trailers.empty() ? answer.header("grpc-status") : answer.trailer("grpc-status");
        require(status != "" && (status == "0") == ended, "the status is another");
      }
    }
    require(session.http().unanswered() == 0, "a call is left");
  }
  require(worker.pool.held_bytes() == 0 && worker.pool.blocks() == 0, "memory was lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  static wire::Gzip gzip;
  const uint8_t choice = data[0];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_texts(text);

  // 0: the text is the body; 1: framed; 2: framed and packed; 3: framed, with the flag of packed
  // ones.
  const int form = choice & 3;
  std::string message = text;
  if (form == 2) {
    message.clear();
    require(gzip.compress(text, message), "no memory");
  }
  std::string body = text;
  if (form != 0) {
    body.assign(wire::grpc_prefix_bytes, '\0');
    wire::GrpcPrefix{static_cast<uint8_t>(form >= 2), static_cast<uint32_t>(message.size())}.write(
        body.data());
    body += message;
  }
  body.resize(std::min<size_t>(body.size(), 16'000));
  const bool says_gzip = form >= 2 || (choice & 4) != 0;

  wire::GrpcWorker worker;
  wire::GrpcServerSession session(
      worker, wire::Http2Session::Bounds{.connection_bytes = 32'000, .body_bytes = 20'000});
  Peer peer;
  std::string in = wire::http2_peer::hello();
  in += wire::http2_peer::settings_ack();
  in += peer.request(
      1,
      Peer::grpc("/p.S/M", says_gzip ? wire::http2_peer::Headers{{"grpc-encoding", "gzip"}}
                                     : wire::http2_peer::Headers{}),
      body);
  const size_t step = (choice & 8) != 0 ? 7 : in.size();
  check_streaming(body, says_gzip, step);
  base::Buffer out;
  size_t calls = 0;
  for (std::string_view rest = in; !rest.empty();) {
    rest.remove_prefix(session.receive(rest.substr(0, step), {}));
    for (const wire::Http2Event& event : session.events()) {
      const wire::GrpcCall call = session.call(event.request);
      if (form == 1 || form == 2) require(call.message == text, "the message is another");
      if (form == 0) require(body.size() >= wire::grpc_prefix_bytes, "there is no message");
      require(call.message.size() <= 32'000, "the message is too large");
      session.answer(event.request, wire::GrpcStatus::ok, {}, call.message.substr(0, 100));
      ++calls;
    }
  }
  session.http().write(out);
  peer.read(out.view());
  const auto& answer = peer.answers[1];
  require(answer.ended, "there is no answer");
  require((calls == 1) == (answer.trailer("grpc-status") == "0"), "the status is another");
  require(calls == 1 || answer.header("grpc-status") != "", "there is no status");
  if (form == 1 && body.size() == text.size() + wire::grpc_prefix_bytes)
    require(calls == 1, "a call was not told");
  require(session.http().held_bytes() == 0, "bytes are held by none");
  return 0;
}
