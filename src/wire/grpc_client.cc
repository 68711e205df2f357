#include "wire/grpc_client.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <utility>

namespace sluice::wire {
namespace {

constexpr const char* no_http2 = "that is not a server of gRPC: it does not speak HTTP/2";
constexpr const char* no_grpc = "that is not an answer of gRPC";
// The most bytes of an answer's header, name and value. Beyond it the answer is not gRPC.
constexpr size_t answer_header_bytes_max = size_t{64} << 10;
// What a server may send ahead of its being read.
constexpr uint32_t window_bytes = 1u << 20;

int percent_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

nghttp2_nv request_entry(std::string_view name, std::string_view value) {
  // nghttp2 copies them.
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

std::string_view as_text(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

std::vector<std::pair<std::string, std::string>> with_authorization(std::string_view field) {
  if (field.empty()) return {};
  return {{"authorization", std::string(field)}};
}

}  // namespace

std::string unescaped_grpc_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? percent_digit(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : percent_digit(text[i + 2]);
    if (low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

std::string grpc_status_name(uint32_t status) {
  constexpr std::array<const char*, 17> names{
      "OK",
      "CANCELLED",
      "UNKNOWN",
      "INVALID_ARGUMENT",
      "DEADLINE_EXCEEDED",
      "NOT_FOUND",
      "ALREADY_EXISTS",
      "PERMISSION_DENIED",
      "RESOURCE_EXHAUSTED",
      "FAILED_PRECONDITION",
      "ABORTED",
      "OUT_OF_RANGE",
      "UNIMPLEMENTED",
      "INTERNAL",
      "UNAVAILABLE",
      "DATA_LOSS",
      "UNAUTHENTICATED",
  };
  return status < names.size() ? names[status] : "status " + std::to_string(status);
}

struct GrpcClientStream::Callbacks {
  static GrpcClientStream& of(void* self) { return *static_cast<GrpcClientStream*>(self); }

  static int on_header(nghttp2_session*, const nghttp2_frame*, const uint8_t* name,
                       size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t,
                       void* self) {
    of(self).on_header(as_text(name, name_bytes), as_text(value, value_bytes));
    return 0;
  }
  static int on_data(nghttp2_session*, uint8_t, int32_t, const uint8_t* data, size_t bytes,
                     void* self) {
    of(self).on_data(as_text(data, bytes));
    return 0;
  }
  static int on_close(nghttp2_session*, int32_t, uint32_t code, void* self) {
    of(self).on_close(code);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    // The server has ended its side: a call is over then, although this side may still send.
    const bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA);
    if (is_end && frame->hd.stream_id == of(self).stream_) of(self).on_close(NGHTTP2_NO_ERROR);
    if (frame->hd.type != NGHTTP2_GOAWAY || frame->goaway.last_stream_id > 0) return 0;
    const auto& goaway = frame->goaway;
    const std::string_view text = as_text(goaway.opaque_data, goaway.opaque_data_len);
    of(self).fail(
        "the server takes no calls: " + std::string(nghttp2_http2_strerror(goaway.error_code)) +
        (text.empty() ? "" : ", " + std::string(text)));
    return 0;
  }
  static ssize_t read_unsent(nghttp2_session*, int32_t, uint8_t* to, size_t bytes, uint32_t* flags,
                             nghttp2_data_source*, void* self) {
    GrpcClientStream& call = of(self);
    const size_t size = std::min(bytes, call.unsent_.size() - call.sent_);
    call.unsent_.copy(reinterpret_cast<char*>(to), size, call.sent_);
    call.sent_ += size;
    if (call.sent_ == call.unsent_.size()) {
      call.unsent_.clear();
      call.sent_ = 0;
      if (call.ends_) *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    if (size == 0 && !call.ends_) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(size);
  }
};

GrpcClientStream::GrpcClientStream(const Request& request)
    : message_bytes_max_(request.message_bytes_max) {
  nghttp2_session_callbacks* callbacks = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::on_close);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::on_frame);
  const int bad = nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  if (bad != 0) throw std::bad_alloc();
  submit(request);
}

GrpcClientStream::~GrpcClientStream() {
  nghttp2_session_del(session_);
}

void GrpcClientStream::submit(const Request& request) {
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, answer_header_bytes_max}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, window_bytes);
  const std::string milliseconds = std::to_string(request.timeout.count()) + 'm';
  std::vector<nghttp2_nv> fields{
      request_entry(":method", "POST"),
      request_entry(":scheme", request.over_tls ? "https" : "http"),
      request_entry(":path", request.path),
      request_entry(":authority", request.authority),
      request_entry("content-type", "application/grpc"),
      request_entry("te", "trailers"),
      request_entry("user-agent", "sluice"),
  };
  if (request.timeout.count() > 0) fields.push_back(request_entry("grpc-timeout", milliseconds));
  for (const auto& [name, value] : request.metadata) fields.push_back(request_entry(name, value));
  const nghttp2_data_provider body{{}, Callbacks::read_unsent};
  stream_ = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &body, nullptr);
  if (stream_ < 0) fail("the request could not be made");
}

void GrpcClientStream::send(std::string_view message) {
  const size_t at = unsent_.size();
  unsent_.resize(at + grpc_prefix_bytes);
  GrpcPrefix{.bytes = static_cast<uint32_t>(message.size())}.write(unsent_.data() + at);
  unsent_ += message;
  nghttp2_session_resume_data(session_, stream_);
}

void GrpcClientStream::end_sending() {
  ends_ = true;
  nghttp2_session_resume_data(session_, stream_);
}

void GrpcClientStream::write(base::Buffer& out) {
  const uint8_t* bytes = nullptr;
  ssize_t size = 0;
  while ((size = nghttp2_session_mem_send(session_, &bytes)) > 0)
    out.append(as_text(bytes, static_cast<size_t>(size)));
  // nghttp2 ends the session after it has written a GOAWAY for a breach of HTTP/2.
  if (!is_over_ && (size < 0 || nghttp2_session_want_read(session_) == 0)) fail(no_http2);
}

void GrpcClientStream::receive(std::string_view in) {
  if (is_over_) return;
  // A server of HTTP/1 answers with text, which HTTP/2 would read as the start of a long frame.
  constexpr std::string_view http1 = "HTTP/";
  if (received_.size() < http1.size()) {
    received_ += in.substr(0, http1.size() - received_.size());
    if (received_ == http1) return fail(no_http2);
  }
  const ssize_t read =
      nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(in.data()), in.size());
  if (read < 0) fail(no_http2);
}

void GrpcClientStream::on_header(std::string_view name, std::string_view value) {
  if (name == ":status") {
    http_status_ = value;
  } else if (name == "content-type") {
    is_grpc_ = read_grpc_content_type(value) != GrpcContent::none;
  } else if (name == "grpc-status") {
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, answer_.status);
    has_status_ = error == std::errc() && at == end;
  } else if (name == "grpc-message") {
    answer_.text = unescaped_grpc_text(value);
  }
}

// What arrives is bounded as soon as the size of its message is known.
void GrpcClientStream::on_data(std::string_view data) {
  if (is_over_ || !is_grpc_) return;
  if (taken_ > 0) body_.erase(0, std::exchange(taken_, 0));
  body_.append(data);
  size_t at = 0;
  while (body_.size() - at >= grpc_prefix_bytes) {
    const GrpcPrefix prefix = GrpcPrefix::read(std::string_view(body_).substr(at));
    if (prefix.flags != 0) return fail(no_grpc);
    was_too_large_ = prefix.bytes > message_bytes_max_;
    if (was_too_large_)
      return fail("a message of the server has " + std::to_string(prefix.bytes) +
                  " bytes, and may have " + std::to_string(message_bytes_max_));
    at += std::min(grpc_prefix_bytes + prefix.bytes, body_.size() - at);
  }
}

std::optional<std::string> GrpcClientStream::take_message() {
  const std::string_view rest = std::string_view(body_).substr(taken_);
  if (rest.size() < grpc_prefix_bytes) return std::nullopt;
  const GrpcPrefix prefix = GrpcPrefix::read(rest);
  // What on_data refused may be here whole.
  if (prefix.flags != 0 || prefix.bytes > message_bytes_max_) return std::nullopt;
  if (rest.size() - grpc_prefix_bytes < prefix.bytes) return std::nullopt;
  taken_ += grpc_prefix_bytes + prefix.bytes;
  return std::string(rest.substr(grpc_prefix_bytes, prefix.bytes));
}

void GrpcClientStream::on_close(uint32_t code) {
  if (is_over_) return;
  if (!has_status_ && code != NGHTTP2_NO_ERROR)
    return fail("the server reset the call: " + std::string(nghttp2_http2_strerror(code)));
  if (http_status_ != "200" && !has_status_)
    return fail("the server refused with HTTP status " + http_status_);
  if (!is_grpc_ || !has_status_) return fail(no_grpc);
  is_over_ = true;
}

void GrpcClientStream::fail(std::string problem) {
  is_over_ = true;
  if (problem_.empty()) problem_ = std::move(problem);
}

GrpcClientCall::GrpcClientCall(std::string_view authority, std::string_view path,
                               std::string_view message, std::chrono::milliseconds timeout,
                               std::string_view authorization, bool over_tls)
    : GrpcClientStream({.authority = authority,
                        .path = path,
                        .over_tls = over_tls,
                        .timeout = timeout,
                        .metadata = with_authorization(authorization)}) {
  send(message);
  end_sending();
}

void GrpcClientCall::receive(std::string_view in) {
  const bool was_over = is_over();
  GrpcClientStream::receive(in);
  if (was_over || !is_over() || !problem().empty() || answer_.status != 0) return;
  auto message = take_message();
  if (!message || take_message()) return fail(no_grpc);
  answer_.message = *std::move(message);
}

}  // namespace sluice::wire
