// The terminal's client of the admin port: one request of HTTP/1.1, one answer, a deadline over
// both, and a bound on what is taken. Blocks the calling thread; holds no connection between
// calls. What the answer means is for others to say. The client library is not used here, as it
// has no UNIX sockets, does not stop when a descriptor says so (Ctrl-C), and bounds answers to
// 16 MiB.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/tls.h"

namespace sluice::calls {

struct HttpAnswer {
  unsigned status = 0;
  std::string content_type;  // as it was sent: "text/plain; version=0.0.4"
  std::string body;
};

// Either an answer, or in words what went wrong.
struct HttpResult {
  std::optional<HttpAnswer> answer;
  std::string error;  // empty with an answer
};

class HttpClient {
 public:
  struct Options {
    std::string host;  // as calls::Socket::connect takes it
    uint16_t port = 0;
    std::optional<net::TlsClient> tls{};  // empty: plain
    std::string token;                    // shown as `Authorization: Bearer`; empty: none
    std::chrono::milliseconds timeout{5000};
    size_t answer_bytes_max = size_t{64} << 20;  // of a body; more is an error
  };

  // Nothing is done before the first call.
  explicit HttpClient(Options options);

  // `target` is what stands in the request line, encoded. A body that is not empty is JSON. The
  // first call looks the name up, in the time that the system's resolver takes; all later ones go
  // to the address that answered it.
  HttpResult ask(std::string_view method, std::string_view target, std::string_view body = {});

  const Options& options() const { return options_; }

 private:
  Options options_;
  std::string address_;  // in digits; empty: not known yet
};

}  // namespace sluice::calls
