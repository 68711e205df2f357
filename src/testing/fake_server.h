// A server for tests: on a free loopback port it takes connections one after another, reads a line
// from each, or up to another end, answers with the next text of its script and closes. Owned by
// the test; its thread ends with it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace sluice::client {

class FakeServer {
 public:
  // A text of the script that says "keep silent until the client has gone".
  static constexpr const char* silence = "(silence)";

  explicit FakeServer(std::vector<std::string> script, std::string end = "\n")
      : script_(std::move(script)), end_(std::move(end)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    SLUICE_CHECK(::bind(listener_, generic, size) == 0);
    SLUICE_CHECK(::listen(listener_, 8) == 0);
    SLUICE_CHECK(::getsockname(listener_, generic, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);  // wakes an accept
    thread_.join();
    ::close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  uint16_t port() const { return port_; }

  // The lines that came, once the clients have their answers.
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  void run() {
    for (const std::string& text : script_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      std::string line = read_line(fd);
      {
        const std::lock_guard lock(mutex_);
        lines_.push_back(std::move(line));
      }
      if (text == silence)
        read_line(fd);  // up to the end
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
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace sluice::client
