// What the clients behind `sluice ask` have in common: one connection with one deadline over
// everything but the look-up of the name. Blocks the calling thread, which owns it; problems are
// values, in words for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::client {

class Socket {
 public:
  using Clock = std::chrono::steady_clock;

  // Connected to the first address of `host` that answers; nothing: to none, for the reason in
  // `problem`. The deadline is `timeout` from when the name is found.
  static std::optional<Socket> connect(const std::string& host, uint16_t port,
                                       std::chrono::milliseconds timeout, std::string& problem);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  // True: all of it is on its way, or the peer does not take it, which reading will tell: a server
  // may refuse before it reads, and then its words say more than the failed write. False: not in
  // time.
  bool send(std::string_view bytes);

  // Appends what comes next. False: nothing will, for the reason in `problem`.
  bool receive(std::string& to, std::string& problem);

 private:
  Socket(int fd, Clock::time_point deadline) : fd_(fd), deadline_(deadline) {}
  int await(short events) const;

  int fd_;
  Clock::time_point deadline_;
};

inline constexpr const char* sent_too_late = "the request could not be sent in time";

}  // namespace sluice::client
