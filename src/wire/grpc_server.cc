#include "wire/grpc_server.h"

#include <array>
#include <optional>

namespace sluice::wire {
namespace {

// Bits of Http2Session::note: how a call is answered.
constexpr uint32_t answer_gzip = 1, answer_proto = 2;
// The scratch text gives its memory back above this.
constexpr size_t scratch_bytes_kept = 64 << 10;

std::string_view content_type(uint32_t note) {
  return (note & answer_proto) != 0 ? "application/grpc+proto" : "application/grpc";
}

std::string& renewed(std::string& scratch) {
  if (scratch.capacity() > scratch_bytes_kept) std::string().swap(scratch);
  scratch.clear();
  return scratch;
}

}  // namespace

size_t GrpcServerSession::receive(std::string_view in, base::Time now, size_t calls_max) {
  events_.clear();
  const size_t consumed = http_.receive(in, now, calls_max);
  for (const Http2Event& event : http_.events()) {
    if (http_.is_waiting(event.request) &&
        (event.kind == Http2Event::Kind::reset || accept(event.request)))
      events_.push_back(event);
  }
  return consumed;
}

// Is it a call? If not it is answered.
bool GrpcServerSession::accept(uint32_t number) {
  const Http2Request request = http_.request(number);
  std::string_view type, encoding, timeout;
  for (const Http2Header& header : request.headers) {
    switch (header.name.size()) {
      case 12:
        if (header.name == "content-type")
          type = header.value;
        else if (header.name == "grpc-timeout")
          timeout = header.value;
        break;
      case 13:
        if (header.name == "grpc-encoding") encoding = header.value;
        break;
      default:
        break;
    }
  }
  const GrpcContent content = read_grpc_content_type(type);
  if (content == GrpcContent::proto) http_.note(number) = answer_proto;
  if (content == GrpcContent::none) {
    refuse(number, 415, GrpcStatus::invalid_argument, "content-type must be application/grpc");
  } else if (request.method != "POST") {
    refuse(number, 405, GrpcStatus::internal, "the method must be POST");
  } else if (!timeout.empty() && !read_grpc_timeout(timeout)) {
    refuse(number, 400, GrpcStatus::internal, "malformed grpc-timeout");
  } else {
    return take_message(number, request, encoding);
  }
  return false;
}

bool GrpcServerSession::take_message(uint32_t number, const Http2Request& request,
                                     std::string_view encoding) {
  const bool gzip = encoding == "gzip";
  if (!encoding.empty() && !gzip && encoding != "identity") {
    std::string text = "grpc-encoding is not known: ";
    text += encoding.substr(0, 64);
    refuse(number, 200, GrpcStatus::unimplemented, text, true);
    return false;
  }
  if (gzip) http_.note(number) |= answer_gzip;
  const auto fail = [&](GrpcStatus status, std::string_view text) {
    refuse(number, 200, status, text);
    return false;
  };
  constexpr auto exhausted = GrpcStatus::resource_exhausted;
  if (!request.is_whole) return fail(exhausted, "the message is larger than what is free for it");
  const std::string_view body = request.body;
  if (body.empty())
    return fail(GrpcStatus::internal, "a unary call must have one message, not none");
  if (body.size() < grpc_prefix_bytes) return fail(GrpcStatus::internal, "the message is cut off");
  const GrpcPrefix prefix = GrpcPrefix::read(body);
  const std::string_view message = body.substr(grpc_prefix_bytes);
  if (prefix.flags > 1) return fail(GrpcStatus::internal, "the message has unknown flags");
  if (prefix.flags == 1 && !gzip)
    return fail(GrpcStatus::internal, "the message is compressed, and no grpc-encoding says how");
  if (prefix.bytes > grpc_message_bytes_max)
    return fail(exhausted, "the message is larger than 4194304 bytes");
  if (message.size() < prefix.bytes) return fail(GrpcStatus::internal, "the message is cut off");
  if (message.size() > prefix.bytes)
    return fail(GrpcStatus::internal, "a unary call must have one message, not more");
  if (prefix.flags == 0) return true;

  std::string& unpacked = renewed(worker_.scratch);
  unpacked.assign(grpc_prefix_bytes, '\0');  // as a body that came unpacked
  switch (worker_.gzip.decompress(message, grpc_message_bytes_max, unpacked)) {
    case Gzip::Result::done:
      if (http_.replace_body(number, unpacked)) return true;
      return fail(exhausted, "the message is larger than what is free for it");
    case Gzip::Result::too_large:
      return fail(exhausted, "the message is larger than 4194304 bytes when unpacked");
    case Gzip::Result::broken:
      return fail(GrpcStatus::internal, "the message cannot be unpacked");
    case Gzip::Result::no_memory:
      break;
  }
  return fail(exhausted, "no memory to unpack the message");
}

GrpcCall GrpcServerSession::call(uint32_t number) const {
  const Http2Request request = http_.request(number);
  const std::optional<std::string_view> timeout = request.headers.find("grpc-timeout");
  return {request.path, request.authority, request.body.substr(grpc_prefix_bytes),
          timeout ? read_grpc_timeout(*timeout).value_or(base::never) : base::never,
          request.is_reset};
}

void GrpcServerSession::answer(uint32_t number, GrpcStatus status, std::string_view text,
                               std::string_view message) {
  if (status != GrpcStatus::ok) {
    refuse(number, 200, status, text);
    return;
  }
  const uint32_t note = http_.note(number);
  bool packed = (note & answer_gzip) != 0 && !http_.request(number).is_reset;
  if (packed) {
    std::string& scratch = renewed(worker_.scratch);
    packed = worker_.gzip.compress(message, scratch);
    if (packed) message = scratch;
  }
  std::array<char, grpc_prefix_bytes> prefix;
  GrpcPrefix{.flags = packed, .bytes = static_cast<uint32_t>(message.size())}.write(prefix.data());
  const std::array<Http2Header, 2> headers{
      {{"content-type", content_type(note)}, {"grpc-encoding", "gzip"}}};
  static constexpr std::array<Http2Header, 1> trailers{{{"grpc-status", "0"}}};
  http_.respond(number, {.headers = std::span(headers).first(packed ? 2 : 1),
                         .body = {prefix.data(), prefix.size()},
                         .more_body = message,
                         .trailers = trailers});
}

void GrpcServerSession::refuse(uint32_t number, uint16_t http_status, GrpcStatus status,
                               std::string_view text, bool with_encodings) {
  std::string& escaped = renewed(worker_.scratch);
  append_grpc_text(text, escaped);
  std::array<Http2Header, 4> headers{{{"content-type", content_type(http_.note(number))},
                                      {"grpc-status", grpc_status_text(status)}}};
  size_t count = 2;
  if (!escaped.empty()) headers[count++] = {"grpc-message", escaped};
  if (with_encodings) headers[count++] = {"grpc-accept-encoding", "identity,gzip"};
  http_.respond(number, {.status = http_status, .headers = std::span(headers).first(count)});
}

}  // namespace sluice::wire
