#include "wire/grpc_server.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sluice::wire {
namespace {

// The most that a packed message of a streaming call may become: such calls ask for names (health,
// reflection), and all that have arrived are unpacked in one turn.
constexpr size_t streamed_bytes_max = 4 << 10;

// Bits of Http2Session::note: how a call is answered, and whether a message of it was sent.
constexpr uint32_t answer_gzip = 1, answer_proto = 2, answer_streams = 4, answer_begun = 8;
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

// What is wrong with a message. `ok`: nothing.
struct Problem {
  GrpcStatus status = GrpcStatus::ok;
  std::string_view text{};
};
constexpr Problem cut_off{GrpcStatus::internal, "the message is cut off"};
constexpr Problem no_place{GrpcStatus::resource_exhausted,
                           "the message is larger than what is free for it"};

std::array<char, grpc_prefix_bytes> prefix_of(std::string_view message, bool packed) {
  std::array<char, grpc_prefix_bytes> text;
  GrpcPrefix{.flags = packed, .bytes = static_cast<uint32_t>(message.size())}.write(text.data());
  return text;
}

bool is_plain(const GrpcPrefix& prefix) {
  return prefix.flags == 0 && prefix.bytes <= grpc_message_bytes_max;
}

Problem problem_of(const GrpcPrefix& prefix, bool gzip) {
  if (prefix.flags > 1) return {GrpcStatus::internal, "the message has unknown flags"};
  if (prefix.flags == 1 && !gzip)
    return {GrpcStatus::internal, "the message is compressed, and no grpc-encoding says how"};
  if (prefix.bytes > grpc_message_bytes_max)
    return {GrpcStatus::resource_exhausted, "the message is larger than 4194304 bytes"};
  return {};
}

Problem problem_of(Gzip::Result result) {
  switch (result) {
    case Gzip::Result::done:
      return {};
    case Gzip::Result::too_large:
      return {GrpcStatus::resource_exhausted,
              "the message unpacks to more than 64 KiB and more than 32 times its length, or to "
              "more than 4194304 bytes"};
    case Gzip::Result::broken:
      return {GrpcStatus::internal, "the message cannot be unpacked"};
    case Gzip::Result::no_memory:
      break;
  }
  return {GrpcStatus::resource_exhausted, "no memory to unpack the message"};
}

}  // namespace

size_t GrpcServerSession::receive(std::string_view in, base::Time now, size_t calls_max) {
  events_.clear();
  size_t consumed = 0;
  if (!has_more()) {
    consumed = http_.receive(in, now, calls_max);
    next_event_ = 0;
  }
  for (const size_t before = unpacked_; has_more() && unpacked_ - before < grpc_unpacked_at_once;) {
    const Http2Event event = http_.events()[next_event_++];
    const bool is_new =
        event.kind == Http2Event::Kind::request || event.kind == Http2Event::Kind::begun;
    if (http_.is_waiting(event.request) && (!is_new || accept(event.request)))
      events_.push_back(event);
  }
  return consumed;
}

bool GrpcServerSession::is_of_grpc(std::string_view name) {
  switch (name.size()) {
    case 4:
      return name == "host";
    case 12:
      return name == "content-type" || name == "grpc-timeout";
    case 13:
      return name == "grpc-encoding" || name == "authorization";
    default:
      return false;
  }
}

// Is the request a call? If not, it is answered here.
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
  } else if (encoding.empty() || read_encoding(number, encoding)) {
    if (!request.is_streaming) return take_message(number, request);
    http_.note(number) |= answer_streams;
    return true;
  }
  return false;
}

// Reads the compression of the call's messages. False: it is unknown, and the call was answered.
bool GrpcServerSession::read_encoding(uint32_t number, std::string_view encoding) {
  if (encoding == "gzip") {
    http_.note(number) |= answer_gzip;
  } else if (encoding != "identity") {
    std::string text = "grpc-encoding is not known: ";
    text += encoding.substr(0, 64);
    refuse(number, 200, GrpcStatus::unimplemented, text, true);
    return false;
  }
  return true;
}

// Takes the message of a unary call. False: it is malformed, and the call was answered.
bool GrpcServerSession::take_message(uint32_t number, const Http2Request& request) {
  const auto fail = [&](const Problem& problem) {
    refuse(number, 200, problem.status, problem.text);
    return false;
  };
  if (!request.is_whole) return fail(no_place);
  const std::string_view body = request.body;
  if (body.empty())
    return fail({GrpcStatus::internal, "a unary call must have one message, not none"});
  if (body.size() < grpc_prefix_bytes) return fail(cut_off);
  const GrpcPrefix prefix = GrpcPrefix::read(body);
  const std::string_view message = body.substr(grpc_prefix_bytes);
  if (!is_plain(prefix)) {
    const Problem problem = problem_of(prefix, (http_.note(number) & answer_gzip) != 0);
    if (problem.status != GrpcStatus::ok) return fail(problem);
  }
  if (message.size() < prefix.bytes) return fail(cut_off);
  if (message.size() > prefix.bytes)
    return fail({GrpcStatus::internal, "a unary call must have one message, not more"});
  if (prefix.flags == 0) return true;

  std::string& unpacked = renewed(worker_.scratch);
  unpacked.assign(grpc_prefix_bytes, '\0');  // as a body that came unpacked
  const size_t most = grpc_unpacked_bytes_max(message.size()), free = http_.free_bytes();
  const Gzip::Result result = unpack(message, std::min(most, free), unpacked);
  if (result == Gzip::Result::too_large && free < most) return fail(no_place);
  if (result != Gzip::Result::done) return fail(problem_of(result));
  return http_.replace_body(number, unpacked) || fail(no_place);
}

GrpcNext GrpcServerSession::next(uint32_t number, std::string_view& message) {
  if (!http_.is_waiting(number)) return GrpcNext::none;
  const Http2Request request = http_.request(number);
  if (request.is_reset) return GrpcNext::none;
  const auto fail = [&](const Problem& problem) {
    refuse(number, 200, problem.status, problem.text);
    return GrpcNext::refused;
  };
  const std::string_view body = request.body;
  if (request.body_bytes > body.size()) return fail(no_place);
  if (body.empty()) return request.is_whole ? GrpcNext::end : GrpcNext::none;
  if (body.size() < grpc_prefix_bytes) return request.is_whole ? fail(cut_off) : GrpcNext::none;
  const GrpcPrefix prefix = GrpcPrefix::read(body);
  if (!is_plain(prefix)) {
    const Problem problem = problem_of(prefix, (http_.note(number) & answer_gzip) != 0);
    if (problem.status != GrpcStatus::ok) return fail(problem);
  }
  if (body.size() - grpc_prefix_bytes < prefix.bytes)
    return request.is_whole ? fail(cut_off) : GrpcNext::none;

  std::string& shown = renewed(worker_.message);
  const std::string_view sent = body.substr(grpc_prefix_bytes, prefix.bytes);
  if (prefix.flags == 0) {
    shown.assign(sent);
  } else if (const Gzip::Result result = unpack(
                 sent, std::min(grpc_unpacked_bytes_max(sent.size()), streamed_bytes_max), shown);
             result != Gzip::Result::done) {
    return fail(problem_of(result));
  }
  http_.take_body(number, grpc_prefix_bytes + prefix.bytes);
  message = shown;
  return GrpcNext::message;
}

GrpcCall GrpcServerSession::call(uint32_t number) const {
  const Http2Request request = http_.request(number);
  const std::optional<std::string_view> timeout = request.headers.find("grpc-timeout");
  return {request.path, request.authority,
          request.is_streaming ? std::string_view() : request.body.substr(grpc_prefix_bytes),
          timeout ? read_grpc_timeout(*timeout).value_or(base::never) : base::never,
          request.is_reset};
}

bool GrpcServerSession::send(uint32_t number, std::string_view message) {
  uint32_t& note = http_.note(number);
  const bool gzip = (note & answer_gzip) != 0;
  const bool packed = gzip && !http_.request(number).is_reset && pack(message);
  const auto prefix = prefix_of(message, packed);
  const std::array<Http2Header, 2> headers{
      {{"content-type", content_type(note)}, {"grpc-encoding", "gzip"}}};
  note |= answer_begun;
  return http_.send(number, std::span(headers).first(gzip ? 2 : 1), {prefix.data(), prefix.size()},
                    message);
}

void GrpcServerSession::answer(uint32_t number, GrpcStatus status, std::string_view text,
                               std::string_view message) {
  const uint32_t note = http_.note(number);
  if (status != GrpcStatus::ok || (note & answer_streams) != 0) {
    refuse(number, 200, status, text);
    return;
  }
  const bool packed = (note & answer_gzip) != 0 && !http_.request(number).is_reset && pack(message);
  const auto prefix = prefix_of(message, packed);
  const std::array<Http2Header, 2> headers{
      {{"content-type", content_type(note)}, {"grpc-encoding", "gzip"}}};
  static constexpr std::array<Http2Header, 1> trailers{{{"grpc-status", "0"}}};
  http_.respond(number, {.headers = std::span(headers).first(packed ? 2 : 1),
                         .body = {prefix.data(), prefix.size()},
                         .more_body = message,
                         .trailers = trailers});
}

Gzip::Result GrpcServerSession::unpack(std::string_view packed, size_t bytes_max,
                                       std::string& out) {
  const size_t before = out.size();
  const Gzip::Result result = worker_.gzip.decompress(packed, bytes_max, out);
  // A message that is broken at its beginning has cost something too.
  unpacked_ += out.size() - before + packed.size();
  return result;
}

// Replaces `message` by its compressed form. False: no memory.
bool GrpcServerSession::pack(std::string_view& message) {
  std::string& scratch = renewed(worker_.scratch);
  if (!worker_.gzip.compress(message, scratch)) return false;
  message = scratch;
  return true;
}

void GrpcServerSession::refuse(uint32_t number, uint16_t http_status, GrpcStatus status,
                               std::string_view text, bool with_encodings) {
  std::string& escaped = renewed(worker_.scratch);
  append_grpc_text(text, escaped);
  const uint32_t note = http_.note(number);
  std::array<Http2Header, 4> headers{
      {{"content-type", content_type(note)}, {"grpc-status", grpc_status_text(status)}}};
  size_t count = 2;
  if (!escaped.empty()) headers[count++] = {"grpc-message", escaped};
  if (with_encodings) headers[count++] = {"grpc-accept-encoding", "identity,gzip"};
  const std::span<const Http2Header> all = std::span(headers).first(count);
  if ((note & answer_begun) != 0)
    http_.respond(number, {.trailers = all.subspan(1)});
  else
    http_.respond(number, {.status = http_status, .headers = all});
}

}  // namespace sluice::wire
