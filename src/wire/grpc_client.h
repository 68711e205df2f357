// The client's side of one gRPC call over HTTP/2 with prior knowledge, without input and output of
// its own: it turns messages into bytes and bytes into messages. One call for each connection,
// without compression. One thread; must not be moved.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// A call with any number of messages both ways.
class GrpcClientStream {
 public:
  struct Request {
    // `path`: "/package.Service/Method".
    std::string_view authority, path;
    bool over_tls = false;
    // The deadline that is sent to the server, 1 ms to 99,999,999 ms; 0: none.
    std::chrono::milliseconds timeout{0};
    // Further fields, with names in lower case.
    std::vector<std::pair<std::string, std::string>> metadata{};
    // A larger message of the server ends the call.
    size_t message_bytes_max = grpc_message_bytes_max;
  };
  explicit GrpcClientStream(const Request& request);
  ~GrpcClientStream();
  GrpcClientStream(const GrpcClientStream&) = delete;
  GrpcClientStream& operator=(const GrpcClientStream&) = delete;

  void send(std::string_view message);
  // Says that no more messages are sent.
  void end_sending();

  // Appends the bytes that must be sent. Must be called first, and after each other call but
  // `take_message`.
  void write(base::Buffer& out);
  // Reads bytes of the server. Ignores them if `is_over`.
  void receive(std::string_view in);
  // The next message of the server.
  std::optional<std::string> take_message();

  bool is_over() const { return is_over_; }
  // When the call is over: why the server gave no status, or empty.
  const std::string& problem() const { return problem_; }
  // Did a message end the call that was larger than it may be?
  bool was_too_large() const { return was_too_large_; }
  // The server's status and its text.
  const GrpcAnswer& answer() const { return answer_; }

 protected:
  void fail(std::string problem);
  GrpcAnswer answer_;

 private:
  struct Callbacks;

  void submit(const Request& request);
  void on_header(std::string_view name, std::string_view value);
  void on_data(std::string_view data);
  void on_close(uint32_t code);

  const size_t message_bytes_max_;
  nghttp2_session* session_ = nullptr;
  int32_t stream_ = 0;
  std::string unsent_;    // messages with their prefixes
  size_t sent_ = 0;       // bytes of `unsent_` that were sent
  std::string body_;      // received bytes that were not taken
  size_t taken_ = 0;      // bytes of `body_` that were taken
  std::string received_;  // the first bytes of the server, which show whether it speaks HTTP/2
  bool ends_ = false;     // no more messages are sent
  bool has_status_ = false, is_grpc_ = false, is_over_ = false, was_too_large_ = false;
  std::string http_status_;
  std::string problem_;
};

// A call with one message each way.
class GrpcClientCall : private GrpcClientStream {
 public:
  // `timeout`, `over_tls`: as in Request. A message has at most grpc_message_bytes_max bytes.
  // `authorization`: the metadata of that name; empty: none.
  GrpcClientCall(std::string_view authority, std::string_view path, std::string_view message,
                 std::chrono::milliseconds timeout, std::string_view authorization = {},
                 bool over_tls = false);

  using GrpcClientStream::answer;
  using GrpcClientStream::is_over;
  using GrpcClientStream::problem;
  using GrpcClientStream::write;
  void receive(std::string_view in);
};

}  // namespace sluice::wire
