// What the blocking clients have in common: a connection to a name, and bytes through it, all
// before a deadline. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::client {

using Clock = std::chrono::steady_clock;

// A socket that closes itself. It does not block; everything below waits for it.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// In words why a system call failed.
std::string words_for(int problem);

// Connected to one of the addresses of the name, the first that answers; otherwise `error` says why
// there is none. The deadline does not hold for the look-up of the name.
bool connect(const std::string& host, uint16_t port, Clock::time_point deadline, Socket& socket,
             std::string& error);

// 0, or an errno; ETIMEDOUT: the deadline passed first.
int send_all(const Socket& socket, std::string_view bytes, Clock::time_point deadline);

// Appends what comes next. Otherwise `error` says why nothing does.
bool receive_some(const Socket& socket, Clock::time_point deadline, std::string& bytes,
                  std::string& error);

}  // namespace sluice::client
