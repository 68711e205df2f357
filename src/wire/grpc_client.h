// The client's side of one unary gRPC call over HTTP/2 with prior knowledge, without input and
// output of its own: it turns bytes into an answer. For tools: one call for each connection,
// without compression. One thread; must not be moved.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "wire/grpc.h"

struct nghttp2_session;

namespace sluice::wire {

struct GrpcAnswer {
  // As sent, so any number. If it is not 0, there is no message, and perhaps a text for people,
  // which may have any bytes.
  uint32_t status = 0;
  std::string text;
  std::string message;
};

// Decodes a value of `grpc-message`: `%0A` is a line end. A `%` that is not followed by two
// hexadecimal digits means itself.
std::string unescaped_grpc_text(std::string_view text);

// "UNAVAILABLE"; "status 17" for a status without a name.
std::string grpc_status_name(uint32_t status);

class GrpcClientCall {
 public:
  // `path`: "/package.Service/Method". `timeout`: the deadline that is sent to the server, 1 ms to
  // 99,999,999 ms. A message has at most grpc_message_bytes_max bytes. `authorization`: the
  // metadata of that name; empty: none.
  GrpcClientCall(std::string_view authority, std::string_view path, std::string_view message,
                 std::chrono::milliseconds timeout, std::string_view authorization = {});
  ~GrpcClientCall();
  GrpcClientCall(const GrpcClientCall&) = delete;
  GrpcClientCall& operator=(const GrpcClientCall&) = delete;

  // Appends the bytes that must be sent. Must be called first, and after each `receive`.
  void write(base::Buffer& out);
  // Reads bytes of the server. Ignores them if `is_over`.
  void receive(std::string_view in);

  bool is_over() const { return is_over_; }
  // When the call is over: why there is no answer, or empty.
  const std::string& problem() const { return problem_; }
  const GrpcAnswer& answer() const { return answer_; }

 private:
  struct Callbacks;

  void submit(std::string_view authority, std::string_view path, std::chrono::milliseconds timeout,
              std::string_view authorization);
  void on_header(std::string_view name, std::string_view value);
  void on_close(uint32_t code);
  void fail(std::string problem);
  void read_body();

  nghttp2_session* session_ = nullptr;
  std::string request_;   // the message with its prefix
  size_t sent_ = 0;       // bytes of it that were sent
  std::string body_;      // the body of the answer
  std::string received_;  // the first bytes of the server, which show whether it speaks HTTP/2
  bool has_status_ = false, is_http_ok_ = false, is_grpc_ = false, is_over_ = false;
  std::string http_status_;
  std::string problem_;
  GrpcAnswer answer_;
};

}  // namespace sluice::wire
