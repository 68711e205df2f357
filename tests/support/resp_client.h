// A client of the Redis protocol on loopback. It reads what a server writes by the form that RESP2
// and RESP3 give it and by nothing of the program's, so that it may judge that. It waits for
// everything it does, up to a deadline: too late is thrown, and so is what is no reply.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

// A reply as a tree.
struct RespValue {
  enum class Type : uint8_t { simple, error, integer, bulk, null, boolean, real, list, map };
  Type type = Type::null;
  std::string text{};             // of simple, error, bulk, real
  int64_t number = 0;             // of integer; boolean: 0 or 1
  std::vector<RespValue> list{};  // of list; of map a key and a value in turn
};
// As redis-cli shows it, in one line.
std::string to_text(const RespValue& value);
void PrintTo(const RespValue& value, std::ostream* out);

// A command as clients send it.
std::string to_resp(const std::vector<std::string>& words);

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
  RespValue read_value(std::string_view head, Deadline deadline);
  std::string read_bulk(std::string_view size, Deadline deadline);
  std::vector<RespValue> read_items(size_t count, Deadline deadline);

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
