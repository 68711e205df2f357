// A TCP client on loopback. Each operation waits up to a deadline, and throws when it passes unless
// its comment says otherwise. What the server does to the connection (its end, a reset) is
// returned, not thrown. One thread may send while another one reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/patience.h"

namespace sluice::tests {

class TcpClient {
 public:
  // Nothing: the connection was refused.
  static std::optional<TcpClient> connect(uint16_t port, const std::string& host = "127.0.0.1",
                                          Deadline deadline = soon());
  TcpClient(TcpClient&& other) noexcept;
  TcpClient& operator=(TcpClient&& other) noexcept;
  ~TcpClient();

  // False: the server has closed or reset the connection.
  bool send(std::string_view bytes, Deadline deadline = soon());
  // Sends as many bytes as the socket takes at once, and returns how many.
  size_t send_some(std::string_view bytes);

  // The next line without its LF; nothing if the connection ends before the line does.
  std::optional<std::string> read_line(Deadline deadline = soon());
  // The next `count` bytes. Nothing: fewer arrived before the end or the deadline; they are kept.
  std::optional<std::string> read_bytes(size_t count, Deadline deadline = soon());
  // Puts bytes back, so that the next read returns them first.
  void unread(std::string_view bytes) { in_.insert(0, bytes); }
  // The bytes up to the end of the connection or its reset.
  std::string read_to_end(Deadline deadline = soon());
  // As read_line, but waits no longer than `pause`. Nothing: no line arrived in that time, or the
  // connection ended.
  std::optional<std::string> peek_line(Milliseconds pause);

  // Sends a line and reads one. Returns "(end)" if the connection ends first.
  std::string ask(std::string_view line, Deadline deadline = soon());

  // Whether the server has ended the connection, as far as was read, and whether by a reset.
  bool ended() const { return ended_; }
  bool was_reset() const { return reset_; }

  // Bytes that were received and not returned yet.
  const std::string& rest() const { return in_; }

  void half_close();
  // Closes with a reset.
  void abort();

  // Limits the unread bytes that the socket holds, so that the server finds it full early. Call it
  // before the first byte arrives.
  void limit_receive_buffer(int bytes);

 private:
  explicit TcpClient(int fd) : fd_(fd) {}
  bool await(short events, Deadline deadline) const;
  // False: the deadline passed.
  bool receive(Deadline deadline);

  int fd_ = -1;
  std::string in_;
  bool ended_ = false, reset_ = false;
};

}  // namespace sluice::tests
