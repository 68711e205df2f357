// A server for tests: on a free loopback port it accepts one connection after another, reads a line
// from each, or up to another end, answers with the next text of its script, and closes. Owned by
// the test; its thread ends with it.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "testing/loopback_listener.h"

namespace sluice::calls {

class FakeServer {
 public:
  // The text in a script that means: send nothing until the client has gone.
  static constexpr const char* silence = "(silence)";

  explicit FakeServer(std::vector<std::string> script, std::string end = "\n")
      : script_(std::move(script)), end_(std::move(end)) {
    thread_ = std::thread([this] { run(); });
  }
  ~FakeServer() {
    listener_.shut();
    thread_.join();
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  uint16_t port() const { return listener_.port(); }

  // The lines so far, complete once their clients have the answers.
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  void run() {
    for (const std::string& text : script_) {
      const int fd = listener_.accept();
      if (fd < 0) return;
      std::string line = read_line(fd);
      {
        const std::lock_guard lock(mutex_);
        lines_.push_back(std::move(line));
      }
      if (text == silence)
        read_line(fd);  // until the client has gone
      else
        ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      ::close(fd);
    }
  }

  std::string read_line(int fd) const {
    std::string line;
    for (char c = 0; !line.ends_with(end_) && ::recv(fd, &c, 1, 0) == 1;) line += c;
    if (line.ends_with(end_)) line.resize(line.size() - end_.size());
    return line;
  }

  const std::vector<std::string> script_;
  const std::string end_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  const tests::LoopbackListener listener_;
  std::thread thread_;
};

}  // namespace sluice::calls
