// A blocking connection, on TCP or a UNIX socket, plain or with TLS, with one deadline for
// everything but the lookup of the host's name. Owned by the thread that it blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "net/resolver.h"
#include "net/stream.h"
#include "net/tls.h"

namespace sluice::calls {

// Is that host the path of a UNIX socket?
inline bool is_unix_path(std::string_view host) {
  return host.starts_with('/');
}

// The address of a UNIX socket. A problem: the path is too long for one.
base::Result<net::Address> unix_address(const std::string& path);

class Socket {
 public:
  using Clock = std::chrono::steady_clock;
  // What a connection has besides. All of it outlives the socket.
  struct With {
    net::TlsContext* tls = nullptr;  // null: plain
    std::string name{};              // that the server's certificate must be for
    int wake = -1;                   // a descriptor: once it can be read, nothing waits any more
  };

  // Connects to the first address of `host` that answers. The deadline is `timeout` after the name
  // was found. A host that begins with `/` is the path of a UNIX socket, which has no port.
  static base::Result<Socket> connect(const std::string& host, uint16_t port,
                                      std::chrono::milliseconds timeout, const With& with);
  static base::Result<Socket> connect(const std::string& host, uint16_t port,
                                      std::chrono::milliseconds timeout) {
    return connect(host, port, timeout, With{});
  }
  // To the first of the addresses that answers; there is at least one. `shown`: their name in
  // messages.
  static base::Result<Socket> connect(std::span<const net::Address> addresses,
                                      const std::string& shown, std::chrono::milliseconds timeout,
                                      const With& with);
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
  // The same until that time. `problem`: why it failed.
  enum class Got : uint8_t { bytes, late, woken, ended, failed };
  Got receive(std::string& to, Clock::time_point until, std::string& problem);
  // Has the kernel find out within a minute or so that the peer is gone without a word.
  void keep_alive();
  // As net::Tls::alpn.
  std::string_view alpn() const { return stream_.alpn(); }
  // Has the server closed its side?
  bool ended() const { return ended_; }

  // The address of the server in digits; empty: it is not known.
  std::string peer() const;

 private:
  Socket(net::Stream stream, Clock::time_point deadline, int wake = -1)
      : stream_(std::move(stream)), deadline_(deadline), wake_(wake) {}
  base::Done shake_hands();
  int await(short events, Clock::time_point until) const;
  int await(short events) const { return await(events, deadline_); }

  net::Stream stream_;
  Clock::time_point deadline_;
  int wake_ = -1;
  bool ended_ = false;
};

inline constexpr const char* sent_too_late = "the request could not be sent in time";

}  // namespace sluice::calls
