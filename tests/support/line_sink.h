// A statsd server for a test, on loopback. It collects what arrives, by UDP in datagrams or by TCP
// from one connection after another, on a thread of its own. The constructor throws if it cannot
// listen.
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
  // Waits until one piece contains `text`. False: none does in time.
  bool await(const std::string& text, Deadline deadline = soon());
  // The datagrams, or the bytes of each connection.
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
