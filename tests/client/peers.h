// The servers that the client library is tested against: the real one, with a port for each
// protocol, and ones that misbehave as a test says. The test owns them.
#pragma once

#include <gtest/gtest.h>
#include <sluice/client.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "testing/loopback_listener.h"
#include "tests/support/divvy_server.h"
#include "tests/support/process.h"

namespace sluice::tests {

// The real server with five protocols. limitd has bucket types, the others a rule.
class ServerOfAll {
 public:
  ServerOfAll() {
    folder_.write("limitd.yaml",
                  "buckets:\n  ip: { size: 10, per_second: 5 }\n"
                  "  fixed: { size: 3 }\n");
    const std::string config = folder_.write("sluice.yaml", R"(listen:
  - { protocol: divvy, address: "127.0.0.1:0" }
  - { protocol: limitd, address: "127.0.0.1:0" }
  - { protocol: droplet, address: "127.0.0.1:0" }
  - { protocol: resp, address: "127.0.0.1:0" }
  - { protocol: http, address: "127.0.0.1:0" }
policy: [{ limitd: limitd.yaml }]
rules:
  - name: by-ip
    match: { ip: "*" }
    actor: ip
    limit: { quota: 5, window: 1h, algorithm: fixed_window }
)");
    process_ = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", config}, .environment = {{"SLUICE_LOG_LEVEL", "warn"}}});
    for (const char* protocol : {"divvy", "limitd", "droplet", "resp", "http"})
      ports_[protocol] = await_listening(*process_, protocol);
  }
  ~ServerOfAll() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
  }

  // "resp://127.0.0.1:40001", by the protocol's name and the client's scheme.
  std::string address(const std::string& protocol, const std::string& scheme = "") const {
    return (scheme.empty() ? protocol : scheme) +
           "://127.0.0.1:" + std::to_string(ports_.at(protocol));
  }
  Process& process() { return *process_; }

 private:
  Folder folder_;
  std::unique_ptr<Process> process_;
  std::map<std::string, uint16_t> ports_;
};

// Accepts connections. Each has a thread that runs `serve(socket, number)`, where `number` counts
// the connections from 0, and closes the socket when `serve` returns.
class Peer {
 public:
  using Serve = std::function<void(int fd, int number)>;
  explicit Peer(Serve serve) : serve_(std::move(serve)) {
    thread_ = std::thread([this] { accept_all(); });
  }
  ~Peer() {
    listener_.shut();
    thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& one : threads_) one.join();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  std::string address(const std::string& scheme) const {
    return scheme + "://127.0.0.1:" + std::to_string(listener_.port());
  }
  int connections() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  static bool say(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Reads up to the next LF, which is included. Empty if the connection ended.
  static std::string line(int fd) {
    std::string line;
    for (char c = 0; c != '\n';) {
      if (::recv(fd, &c, 1, 0) != 1) return "";
      line += c;
    }
    return line;
  }
  // Reads and sends nothing until the client disconnects.
  static void be_silent(int fd) {
    char bytes[4096];
    while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
  }

 private:
  void accept_all() {
    for (int fd = listener_.accept(); fd >= 0; fd = listener_.accept()) {
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd, number = count_++] {
        serve_(fd, number);
        const std::lock_guard closing(mutex_);
        std::erase(open_, fd);
        ::close(fd);
      });
    }
  }

  const Serve serve_;
  const LoopbackListener listener_;
  mutable std::mutex mutex_;
  int count_ = 0;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread thread_;
};

}  // namespace sluice::tests
