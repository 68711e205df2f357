// A client of the Redis protocol on loopback. It waits for everything it does, up to a deadline:
// too late is thrown, and so is what is not a reply.
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
  // Throws when it is refused. `byte_by_byte`: every byte is sent by itself, but for
  // the middle of what is longer than 4 KiB.
  explicit RespClient(uint16_t port, bool byte_by_byte = false);

  // False: the server has closed the connection.
  bool send(std::string_view bytes);
  // Nothing: the connection ended in front of a reply. Throws when it ends within one.
  std::optional<RespValue> read(Deadline deadline = soon());
  // Sends a command and reads its reply; throws at the end of the connection.
  RespValue operator()(const std::vector<std::string>& words);

  TcpClient& socket() { return socket_; }

 private:
  TcpClient socket_;
  bool byte_by_byte_;
};

// `sluice resp` on a free port, listening when the constructor returns. One that still runs when it
// is destroyed has to end cleanly on SIGTERM. The thread that makes it outlives it.
class RespServer {
 public:
  explicit RespServer(Process::Options options = {});
  ~RespServer();

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }
  RespClient client(bool byte_by_byte = false) const { return RespClient(port_, byte_by_byte); }

 private:
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

}  // namespace sluice::tests
