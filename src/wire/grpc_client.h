// A client's side of one unary gRPC call over HTTP/2 with prior knowledge, without I/O: bytes in,
// the answer out. For tools that ask once: one call for each connection, no compression. One
// thread; must not be moved.
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
  // As sent: any number. Other than 0 it comes with a text for people, any bytes, and no message.
  uint32_t status = 0;
  std::string text;
  std::string message;
};

// What `grpc-message` holds in words: `%0A` is a line end. A `%` that is not followed by two digits
// stands for itself.
std::string unescaped_grpc_text(std::string_view text);

// "UNAVAILABLE"; "status 17" of one that has no name.
std::string grpc_status_name(uint32_t status);

class GrpcClientCall {
 public:
  // `path`: "/package.Service/Method". `timeout`: what is sent to the server, 1 ms to 99,999,999
  // ms. A message has at most grpc_message_bytes_max bytes.
  GrpcClientCall(std::string_view authority, std::string_view path, std::string_view message,
                 std::chrono::milliseconds timeout);
  ~GrpcClientCall();
  GrpcClientCall(const GrpcClientCall&) = delete;
  GrpcClientCall& operator=(const GrpcClientCall&) = delete;

  // Appends what must be sent; call first of all, and behind each `receive`.
  void write(base::Buffer& out);
  // Reads what the server sent. Once `is_over`, nothing more is read.
  void receive(std::string_view in);

  bool is_over() const { return is_over_; }
  // When it is over: why there is no answer, or empty.
  const std::string& problem() const { return problem_; }
  const GrpcAnswer& answer() const { return answer_; }

 private:
  struct Callbacks;

  void submit(std::string_view authority, std::string_view path, std::chrono::milliseconds timeout);
  void on_header(std::string_view name, std::string_view value);
  void on_close(uint32_t code);
  void fail(std::string problem);
  void read_body();

  nghttp2_session* session_ = nullptr;
  std::string request_;   // with its prefix
  size_t sent_ = 0;       // of it
  std::string body_;      // of the answer
  std::string received_;  // the first bytes of all, which say whether it is HTTP/2
  bool has_status_ = false, is_http_ok_ = false, is_grpc_ = false, is_over_ = false;
  std::string http_status_;
  std::string problem_;
  GrpcAnswer answer_;
};

}  // namespace sluice::wire
