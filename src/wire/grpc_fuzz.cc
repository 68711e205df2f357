// Any bytes as the parts of a gRPC call: its deadline, content type and encoding, and its message,
// gzipped or not. What is told must be the message that was framed, by another way to read it.
//
// The first byte chooses: encoding, what is done to the message, and how the input is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

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

// Deadlines as they are defined, in nanoseconds; below 0: ill-formed.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  static wire::Gzip gzip;
  const uint8_t choice = data[0];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_texts(text);

  // 0: the text is the body; 1: framed; 2: framed and packed; 3: framed, and said to be packed.
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
