// A client on loopback that waits for everything it does, up to a deadline: too late is thrown.
// What the server does to the connection (its end, a reset) is returned, not thrown. One thread may
// send while another one reads.
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
  // Nothing: refused.
  static std::optional<TcpClient> connect(uint16_t port, const std::string& host = "127.0.0.1",
                                          Deadline deadline = soon());
  TcpClient(TcpClient&& other) noexcept;
  TcpClient& operator=(TcpClient&& other) noexcept;
  ~TcpClient();

  // False: the server has closed or reset the connection.
  bool send(std::string_view bytes, Deadline deadline = soon());
  // As many bytes as the socket takes at once.
  size_t send_some(std::string_view bytes);

  // The next line without its LF; nothing at the end of the connection, whatever stood before it.
  std::optional<std::string> read_line(Deadline deadline = soon());
  // The next bytes, that many; nothing: the connection ended, or they did not come, and what did
  // is kept.
  std::optional<std::string> read_bytes(size_t count, Deadline deadline = soon());
  // Puts bytes back in front of what comes.
  void unread(std::string_view bytes) { in_.insert(0, bytes); }
  // What comes until the end of the connection, be it a reset.
  std::string read_to_end(Deadline deadline = soon());
  // As read_line, but without waiting longer than the pause: nothing came, or the end did.
  std::optional<std::string> peek_line(Milliseconds pause);

  // Sends a line and reads one. The text is "(end)" at the end of the connection.
  std::string ask(std::string_view line, Deadline deadline = soon());

  // Has the server ended the connection, as far as was read? And was that a reset?
  bool ended() const { return ended_; }
  bool was_reset() const { return reset_; }

  // Bytes read off the socket that are not a complete line.
  const std::string& rest() const { return in_; }

  void half_close();
  // Closes with a reset.
  void abort();

  // Receives no more than that unread, so that the server finds the socket full early. Before the
  // first byte comes.
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
