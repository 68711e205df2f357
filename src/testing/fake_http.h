// An HTTP server for tests, as rough as can be: on a free loopback port it takes connections one
// after another, reads one request, has the test answer it with the bytes of a response, and
// closes. Owned by the test; its thread ends with it, and `answer` is called on that thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
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

#include "base/check.h"

namespace sluice::client {

class FakeHttp {
 public:
  struct Request {
    std::string method, target, head, body;
  };
  // A response that says "keep silent until the client has gone".
  static constexpr const char* silence = "(silence)";
  using Answer = std::function<std::string(const Request&)>;

  explicit FakeHttp(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    SLUICE_CHECK(::bind(listener_, generic, size) == 0);
    SLUICE_CHECK(::listen(listener_, 64) == 0);
    SLUICE_CHECK(::getsockname(listener_, generic, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~FakeHttp() {
    ::shutdown(listener_, SHUT_RDWR);  // wakes an accept
    thread_.join();
    ::close(listener_);
  }
  FakeHttp(const FakeHttp&) = delete;
  FakeHttp& operator=(const FakeHttp&) = delete;

  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // The requests that came, once the clients have their answers.
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // A whole response.
  static std::string response(unsigned status, const std::string& body,
                              const std::string& type = "application/json") {
    return "HTTP/1.1 " + std::to_string(status) + " Words\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
           body;
  }

 private:
  void run() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
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
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace sluice::client
