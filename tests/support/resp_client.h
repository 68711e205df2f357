// A client of the Redis protocol on loopback. Each operation waits up to a deadline; it throws when
// the deadline passes, and at bytes that are not a reply.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/resp_value.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

class RespClient {
 public:
  // Throws if the connection is refused. `byte_by_byte`: each byte is sent by itself, except the
  // middle of what is longer than 4 KiB.
  explicit RespClient(uint16_t port, bool byte_by_byte = false);

  // False: the server has closed the connection.
  bool send(std::string_view bytes);
  // Nothing: the connection ended before a reply. Throws if it ends within one.
  std::optional<RespValue> read(Deadline deadline = soon());
  // Sends a command and reads its reply; throws if the connection ends first.
  RespValue operator()(const std::vector<std::string>& words);

  TcpClient& socket() { return socket_; }

 private:
  TcpClient socket_;
  bool byte_by_byte_;
};

// `sluice resp` on a free port; it listens when the constructor returns. The destructor expects a
// clean exit, and sends SIGTERM if it still runs. The thread that makes a server must outlive it
// (process.h).
class RespServer {
 public:
  explicit RespServer(Process::Options options = {});
  ~RespServer();

  uint16_t port() const { return port_; }
  Process& process() const { return *process_; }
  RespClient client(bool byte_by_byte = false) const { return RespClient(port_, byte_by_byte); }

 private:
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

}  // namespace sluice::tests
