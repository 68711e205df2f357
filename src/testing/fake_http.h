// A simple HTTP server for tests: on a free loopback port it accepts one connection after another,
// reads one request, has the test answer it with the bytes of a response, and closes. Owned by the
// test; its thread ends with it, and `answer` is called on that thread.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "testing/loopback_listener.h"

namespace sluice::calls {

class FakeHttp {
 public:
  struct Request {
    std::string method, target, head, body;
  };
  // The response that means: send nothing until the client has gone.
  static constexpr const char* silence = "(silence)";
  using Answer = std::function<std::string(const Request&)>;

  explicit FakeHttp(Answer answer) : answer_(std::move(answer)) {
    thread_ = std::thread([this] { run(); });
  }
  ~FakeHttp() {
    listener_.shut();
    thread_.join();
  }
  FakeHttp(const FakeHttp&) = delete;
  FakeHttp& operator=(const FakeHttp&) = delete;

  uint16_t port() const { return listener_.port(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }

  // The requests so far, complete once their clients have the answers.
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // A complete response.
  static std::string response(unsigned status, const std::string& body,
                              const std::string& type = "application/json") {
    return "HTTP/1.1 " + std::to_string(status) + " Words\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
           body;
  }

 private:
  void run() {
    for (;;) {
      const int fd = listener_.accept();
      if (fd < 0) return;
      Request request = read(fd);
      const std::string text = answer_(request);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(std::move(request));
      }
      char c = 0;
      if (text == silence)
        while (::recv(fd, &c, 1, 0) == 1) continue;
      else
        ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      ::close(fd);
    }
  }

  static Request read(int fd) {
    Request request;
    std::string& head = request.head;
    for (char c = 0; !head.ends_with("\r\n\r\n") && ::recv(fd, &c, 1, 0) == 1;) head += c;
    request.method = head.substr(0, head.find(' '));
    const size_t from = std::min(request.method.size() + 1, head.size());
    request.target = head.substr(from, head.find(' ', from) - from);
    const size_t length = head.find("Content-Length: ");
    size_t left = length == head.npos ? 0 : std::strtoul(head.c_str() + length + 16, nullptr, 10);
    for (char c = 0; left > 0 && ::recv(fd, &c, 1, 0) == 1; --left) request.body += c;
    return request;
  }

  const Answer answer_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  const tests::LoopbackListener listener_;
  std::thread thread_;
};

}  // namespace sluice::calls
