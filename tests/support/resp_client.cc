#include "tests/support/resp_client.h"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>
#include <utility>

#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

TcpClient connect(uint16_t port) {
  auto client = TcpClient::connect(port);
  if (!client) throw std::runtime_error("the server refuses a connection");
  return *std::move(client);
}

// Reads replies from a socket, up to a deadline.
class SocketSource final : public RespSource {
 public:
  SocketSource(TcpClient& socket, Deadline deadline) : socket_(socket), deadline_(deadline) {}
  std::optional<std::string> line() override {
    auto line = socket_.read_line(deadline_);
    if (!line && !socket_.rest().empty())
      throw std::runtime_error("the connection ended within a reply: " + socket_.rest());
    return line;
  }
  std::optional<std::string> bytes(size_t count) override {
    return socket_.read_bytes(count, deadline_);
  }

 private:
  TcpClient& socket_;
  const Deadline deadline_;
};

}  // namespace

RespClient::RespClient(uint16_t port, bool byte_by_byte)
    : socket_(connect(port)), byte_by_byte_(byte_by_byte) {}

bool RespClient::send(std::string_view bytes) {
  if (!byte_by_byte_) return socket_.send(bytes);
  // The middle of a long packet, which is part of one long word, is sent in larger pieces.
  constexpr size_t long_bytes = 4096, end_bytes = 256, piece_bytes = 61;
  const Deadline deadline = soon();
  for (size_t at = 0, size = 1; at < bytes.size(); at += size) {
    const bool middle =
        bytes.size() > long_bytes && at >= end_bytes && at + end_bytes + piece_bytes < bytes.size();
    size = middle ? piece_bytes : 1;
    if (!socket_.send(bytes.substr(at, size), deadline)) return false;
  }
  return true;
}

std::optional<RespValue> RespClient::read(Deadline deadline) {
  SocketSource source(socket_, deadline);
  return read_resp(source);
}

RespValue RespClient::operator()(const std::vector<std::string>& words) {
  if (send(to_resp(words)))
    if (auto reply = read()) return *std::move(reply);
  throw std::runtime_error("the connection ended instead of a reply to " + words.at(0));
}

RespServer::RespServer(Process::Options options) {
  options.arguments.insert(options.arguments.begin(), {"resp", "--port", "0"});
  options.environment.try_emplace("SLUICE_LOG_LEVEL", "warn");
  process_ = std::make_unique<Process>(options);
  port_ = await_listening(*process_, "resp");
}

RespServer::~RespServer() {
  if (!process_->wait(std::chrono::steady_clock::now())) process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(soon()), 0) << "the server's end: " << process_->err();
}

}  // namespace sluice::tests
