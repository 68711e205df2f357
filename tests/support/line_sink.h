// A statsd of the test's own on loopback: what arrives by UDP, datagram by datagram, or by TCP,
// from one connection after another. A thread collects; trouble is thrown.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/patience.h"

namespace sluice::tests {

class LineSink {
 public:
  enum class Kind { udp, tcp };
  explicit LineSink(Kind kind, uint16_t port = 0);
  ~LineSink();
  LineSink(const LineSink&) = delete;
  LineSink& operator=(const LineSink&) = delete;

  uint16_t port() const { return port_; }
  // Waits until `text` has arrived, in all. False: it has not by then.
  bool await(const std::string& text, Deadline deadline = soon());
  // Datagrams, or what each connection sent.
  std::vector<std::string> pieces() const;
  std::string all() const;

 private:
  void collect();

  const Kind kind_;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> pieces_;
  std::thread thread_;
};

}  // namespace sluice::tests
