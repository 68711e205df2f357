// A WebSocket client for droplet's messages on loopback. It uses the program's own code for frames
// and messages, which the conformance vectors and protoc check. Each operation waits up to a
// deadline. Throws at a frame that a server may not send.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

std::string unhex(std::string_view hex);
std::string to_hex(std::string_view bytes);

// ---- Frames ----

struct Frame {
  uint8_t opcode = 0;
  std::string payload;
  bool operator==(const Frame&) const = default;
};
inline constexpr uint8_t text_frame = 1, binary_frame = 2, close_frame = 8, ping_frame = 9,
                         pong_frame = 10;

struct FrameShape {
  bool final = true;
  uint8_t reserved = 0;  // ORed into the first byte
  bool masked = true;
};
// The bytes of a frame; by default as a client sends it.
std::string to_frame(uint8_t opcode, std::string_view payload, FrameShape shape = {});
Frame close_with(uint16_t code, std::string_view reason = {});

// ---- Messages ----

using Periods = std::map<std::string, int64_t>;  // ls, lm, lh, ld, lw, lo

struct DropletTake {
  std::string bucket, id = "t";
  std::optional<int64_t> count{};
  bool reset = false;
  Periods limits{};
  bool query = false;
};
std::string to_message(const DropletTake& take);

struct DropletLeft {
  bool accept = false;
  Periods left{};
  bool operator==(const DropletLeft&) const = default;
};
// Throws if `message` is not a response.
DropletLeft read_response(std::string_view message);
void PrintTo(const DropletLeft& left, std::ostream* out);

// ---- The client ----

class DropletClient {
 public:
  static constexpr std::string_view handshake =
      "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nHost: localhost\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

  // Connects and completes the handshake; throws if either fails.
  explicit DropletClient(uint16_t port, const std::string& host = "127.0.0.1");

  // False: the server has closed the connection. Throws if the deadline passes.
  bool send(std::string_view bytes) { return socket_.send(bytes, soon()); }
  bool send(uint8_t opcode, std::string_view payload, FrameShape shape = {}) {
    return send(to_frame(opcode, payload, shape));
  }
  // Nothing: the connection ended, or no whole frame arrived in time.
  std::optional<Frame> read(Deadline deadline = soon());

  bool send(const DropletTake& take) { return send(binary_frame, to_message(take)); }
  // The next frame must be a response; throws otherwise.
  DropletLeft read_left(Deadline deadline = soon());
  DropletLeft ask(const DropletTake& take);

  // Reads up to the end of the connection. Returns "" if the end is clean and no bytes arrived
  // before it, otherwise these bytes in hex or "reset".
  std::string read_to_end();

  TcpClient& socket() { return socket_; }

 private:
  TcpClient socket_;
};

// `sluice droplet` on a free port; it listens when the constructor returns. If it still runs, the
// destructor sends SIGTERM and expects a clean exit. The thread that makes a server must outlive it
// (process.h).
class DropletServer {
 public:
  explicit DropletServer(Process::Options options = {});
  ~DropletServer();

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }
  DropletClient client() const { return DropletClient(port_); }

 private:
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

}  // namespace sluice::tests
