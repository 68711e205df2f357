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

struct GrpcClientCall::Callbacks {
  static GrpcClientCall& of(void* self) { return *static_cast<GrpcClientCall*>(self); }

  static int on_header(nghttp2_session*, const nghttp2_frame*, const uint8_t* name,
                       size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t,
                       void* self) {
    of(self).on_header(as_text(name, name_bytes), as_text(value, value_bytes));
    return 0;
  }
  static int on_data(nghttp2_session*, uint8_t, int32_t, const uint8_t* data, size_t bytes,
                     void* self) {
    GrpcClientCall& call = of(self);
    if (call.body_.size() + bytes > grpc_message_bytes_max + grpc_prefix_bytes)
      call.fail("the answer is larger than 4 MiB");
    else
      call.body_.append(as_text(data, bytes));
    return 0;
  }
  static int on_close(nghttp2_session*, int32_t, uint32_t code, void* self) {
    of(self).on_close(code);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type != NGHTTP2_GOAWAY || frame->goaway.last_stream_id > 0) return 0;
    const auto& goaway = frame->goaway;
    const std::string_view text = as_text(goaway.opaque_data, goaway.opaque_data_len);
    of(self).fail(
        "the server takes no calls: " + std::string(nghttp2_http2_strerror(goaway.error_code)) +
        (text.empty() ? "" : ", " + std::string(text)));
    return 0;
  }
  static ssize_t read_request(nghttp2_session*, int32_t, uint8_t* to, size_t bytes, uint32_t* flags,
                              nghttp2_data_source*, void* self) {
    GrpcClientCall& call = of(self);
    const size_t size = std::min(bytes, call.request_.size() - call.sent_);
    call.request_.copy(reinterpret_cast<char*>(to), size, call.sent_);
    call.sent_ += size;
    if (call.sent_ == call.request_.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }
};

GrpcClientCall::GrpcClientCall(std::string_view authority, std::string_view path,
                               std::string_view message, std::chrono::milliseconds timeout,
                               std::string_view authorization) {
  request_.resize(grpc_prefix_bytes);
  GrpcPrefix{.bytes = static_cast<uint32_t>(message.size())}.write(request_.data());
  request_ += message;
  nghttp2_session_callbacks* callbacks = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::on_close);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::on_frame);
  const int bad = nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  if (bad != 0) throw std::bad_alloc();
  submit(authority, path, timeout, authorization);
}

GrpcClientCall::~GrpcClientCall() {
  nghttp2_session_del(session_);
}

void GrpcClientCall::submit(std::string_view authority, std::string_view path,
                            std::chrono::milliseconds timeout, std::string_view authorization) {
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, answer_header_bytes_max}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  const std::string milliseconds = std::to_string(timeout.count()) + 'm';
  const std::array<nghttp2_nv, 9> headers{
      request_entry(":method", "POST"),
      request_entry(":scheme", "http"),
      request_entry(":path", path),
      request_entry(":authority", authority),
      request_entry("content-type", "application/grpc"),
      request_entry("te", "trailers"),
      request_entry("user-agent", "sluice"),
      request_entry("grpc-timeout", milliseconds),
      request_entry("authorization", authorization),
  };
  const nghttp2_data_provider body{{}, Callbacks::read_request};
  if (nghttp2_submit_request(session_, nullptr, headers.data(),
                             headers.size() - (authorization.empty() ? 1 : 0), &body, nullptr) < 0)
    fail("the request could not be made");
}

void GrpcClientCall::write(base::Buffer& out) {
  const uint8_t* bytes = nullptr;
  ssize_t size = 0;
  while ((size = nghttp2_session_mem_send(session_, &bytes)) > 0)
    out.append(as_text(bytes, static_cast<size_t>(size)));
  // nghttp2 ends the session after it has written a GOAWAY for a breach of HTTP/2.
  if (!is_over_ && (size < 0 || nghttp2_session_want_read(session_) == 0)) fail(no_http2);
}

void GrpcClientCall::receive(std::string_view in) {
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

void GrpcClientCall::on_header(std::string_view name, std::string_view value) {
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

void GrpcClientCall::on_close(uint32_t code) {
  if (is_over_) return;
  if (!has_status_ && code != NGHTTP2_NO_ERROR)
    return fail("the server reset the call: " + std::string(nghttp2_http2_strerror(code)));
  if (http_status_ != "200" && !has_status_)
    return fail("the server refused with HTTP status " + http_status_);
  if (!is_grpc_ || !has_status_) return fail(no_grpc);
  is_over_ = true;
  if (answer_.status == 0) read_body();
}

void GrpcClientCall::read_body() {
  if (body_.size() < grpc_prefix_bytes) return fail(no_grpc);
  const GrpcPrefix prefix = GrpcPrefix::read(body_);
  if (prefix.flags != 0 || prefix.bytes != body_.size() - grpc_prefix_bytes) return fail(no_grpc);
  answer_.message = body_.substr(grpc_prefix_bytes);
}

void GrpcClientCall::fail(std::string problem) {
  is_over_ = true;
  if (problem_.empty()) problem_ = std::move(problem);
}

}  // namespace sluice::wire
