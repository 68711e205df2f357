// What the clients behind `sluice ask` have in common: one connection with one deadline over
// everything but the lookup of the name. Blocks the calling thread, which owns it; problems are
// values, in words for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/stream.h"

namespace sluice::calls {

// Is that host the path of a UNIX socket?
inline bool is_unix_path(std::string_view host) {
  return host.starts_with('/');
}

class Socket {
 public:
  using Clock = std::chrono::steady_clock;

  // Connected to the first address of `host` that answers; nothing: to none, for the reason in
  // `problem`. The deadline is `timeout` from when the name is found. As soon as one of the
  // descriptors `interrupts` can be read, whatever waits gives up; they outlive the socket. A host
  // with a `/` in front is the path of a UNIX socket, which has no port.
  static std::optional<Socket> connect(const std::string& host, uint16_t port,
                                       std::chrono::milliseconds timeout, std::string& problem,
                                       std::span<const int> interrupts = {});
  Socket(Socket&& other) = default;
  Socket& operator=(Socket&&) = delete;

  // The deadline is `timeout` from now: for a caller that asks again over the same connection.
  void renew(std::chrono::milliseconds timeout) { deadline_ = Clock::now() + timeout; }

  // True: all of it is on its way, or the peer does not take it, which reading will tell: a server
  // may refuse before it reads, and then its words say more than the failed write. False: not in
  // time.
  bool send(std::string_view bytes);

  // Appends what comes next. False: nothing will, for the reason in `problem`.
  bool receive(std::string& to, std::string& problem);
  // Has the server ended its side?
  bool ended() const { return ended_; }

  // The address that it is connected to, in digits.
  std::string peer() const;

  static constexpr size_t interrupts_max = 4;
  static bool any_readable(std::span<const int> descriptors);

 private:
  Socket(int fd, Clock::time_point deadline, std::span<const int> interrupts)
      : stream_(fd), deadline_(deadline), interrupts_(interrupts) {}
  static std::optional<Socket> connect_unix(const std::string& path,
                                            std::chrono::milliseconds timeout, std::string& problem,
                                            std::span<const int> interrupts);
  int await(short events) const;

  net::Stream stream_;
  Clock::time_point deadline_;
  std::span<const int> interrupts_;
  bool ended_ = false;
};

inline constexpr const char* sent_too_late = "the request could not be sent in time";

}  // namespace sluice::calls
