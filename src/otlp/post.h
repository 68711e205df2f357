// Sends messages to one endpoint by HTTP/1.1, over a connection that is kept between them. Blocks
// the calling thread, for Options::timeout at most; used by one thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/socket.h"
#include "net/resolver.h"
#include "net/tls.h"
#include "otlp/options.h"

namespace sluice::otlp {

class Post {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `cut`: a descriptor: once it can be read, nothing is waited for any more.
  Post(Endpoint to, Headers headers, net::TlsClient tls, std::chrono::milliseconds timeout,
       int cut);

  struct Sent {
    std::string problem{};  // empty: it was taken
    bool may_retry = true;  // the same message may be taken later
    bool is_gone = false;   // the connection ended before an answer
    std::string body{};     // of the answer
  };
  Sent send(std::string_view message);

 private:
  base::Result<std::unique_ptr<calls::Socket>> connect() const;
  base::Result<std::vector<net::Address>> look_up() const;
  Sent exchange(std::string_view request);
  bool is_cut() const;

  const Endpoint to_;
  const Headers headers_;
  const net::TlsClient tls_settings_;
  const std::chrono::milliseconds timeout_;
  const int cut_;
  std::unique_ptr<net::TlsContext> tls_;   // of the connection
  std::unique_ptr<calls::Socket> socket_;  // null: there is none
};

}  // namespace sluice::otlp
