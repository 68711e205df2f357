// A gRPC server for tests, on a free loopback port: it serves one connection after another, and
// asks the test for the answer to each call. Owned by the test; its thread ends with it.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "testing/loopback_listener.h"
#include "wire/grpc_server.h"

namespace sluice::envoy::fake {

struct Reply {
  std::string message{};
  wire::GrpcStatus status = wire::GrpcStatus::ok;
  std::string text{};
};

class Service {
 public:
  // `answer` is called on the server's thread, one call at a time.
  using Answer = std::function<Reply(const wire::GrpcCall& call)>;

  explicit Service(Answer answer) : answer_(std::move(answer)) {
    thread_ = std::thread([this] {
      for (int fd; (fd = listener_.accept()) >= 0;) serve(fd);
    });
  }
  ~Service() {
    listener_.shut();
    thread_.join();
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  uint16_t port() const { return listener_.port(); }

 private:
  void serve(int fd) {
    wire::GrpcServerSession session(worker_);
    std::array<char, 4096> bytes{};
    for (ssize_t got; (got = ::recv(fd, bytes.data(), bytes.size(), 0)) > 0;) {
      std::string_view in(bytes.data(), static_cast<size_t>(got));
      while (!in.empty()) {
        in.remove_prefix(session.receive(in, {}));
        for (const wire::Http2Event& event : session.events()) {
          if (event.kind != wire::Http2Event::Kind::request) continue;
          const Reply reply = answer_(session.call(event.request));
          session.answer(event.request, reply.status, reply.text, reply.message);
        }
      }
      base::Buffer out;
      session.http().write(out);
      for (std::string_view left = out.view(); !left.empty();) {
        const ssize_t sent = ::send(fd, left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        left.remove_prefix(static_cast<size_t>(sent));
      }
    }
    ::close(fd);
  }

  const Answer answer_;
  wire::GrpcWorker worker_;
  const tests::LoopbackListener listener_;
  std::thread thread_;
};

}  // namespace sluice::envoy::fake
