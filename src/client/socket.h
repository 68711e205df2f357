// A blocking connection of the terminal's clients, on TCP or a UNIX socket, with one deadline for
// everything but the lookup of the host's name. Owned by the thread that it blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/stream.h"

namespace sluice::calls {

// Is that host the path of a UNIX socket?
inline bool is_unix_path(std::string_view host) {
  return host.starts_with('/');
}

class Socket {
 public:
  using Clock = std::chrono::steady_clock;

  // Connects to the first address of `host` that answers. The deadline is `timeout` after the name
  // was found. A host that begins with `/` is the path of a UNIX socket, which has no port.
  static base::Result<Socket> connect(const std::string& host, uint16_t port,
                                      std::chrono::milliseconds timeout);
  Socket(Socket&& other) = default;
  Socket& operator=(Socket&&) = delete;

  // Sets the deadline to `timeout` from now, for the next request on the same connection.
  void renew(std::chrono::milliseconds timeout) { deadline_ = Clock::now() + timeout; }

  // False: the bytes could not be sent before the deadline. A failed write counts as sent, because
  // a server may refuse before it reads; its reply then says more than the failed write, and
  // `receive` reports the failure if there is no reply.
  bool send(std::string_view bytes);

  // Appends the next bytes; waits for them.
  base::Done receive(std::string& to);
  // Has the server closed its side?
  bool ended() const { return ended_; }

  // The address of the server in digits; empty: it is not known.
  std::string peer() const;

 private:
  Socket(int fd, Clock::time_point deadline) : stream_(fd), deadline_(deadline) {}
  static base::Result<Socket> connect_unix(const std::string& path,
                                           std::chrono::milliseconds timeout);
  int await(short events) const;

  net::Stream stream_;
  Clock::time_point deadline_;
  bool ended_ = false;
};

inline constexpr const char* sent_too_late = "the request could not be sent in time";

}  // namespace sluice::calls
