// A small client of Redis' protocol for people and tools: sends some commands together, reads a
// reply to each, with a deadline for both. Blocks the calling thread, which owns it. Not meant for
// services.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "client/socket.h"
#include "wire/resp.h"

namespace sluice::resp {

// A reply with its items.
struct RespValue {
  using Kind = wire::RespItem::Kind;
  Kind kind = Kind::null;
  std::string text{};            // as RespItem's
  int64_t number = 0;            // as RespItem's
  double real = 0;               // as RespItem's
  std::vector<RespValue> items;  // of a list; of a map keys and values, which alternate

  bool is_error() const { return kind == Kind::error; }
  bool is_integer() const { return kind == Kind::integer; }
  bool is_text() const { return kind == Kind::bulk || kind == Kind::simple; }
  bool is_list() const { return kind == Kind::list; }
};

// The value of one reply, as RespReplyReader finds it; attributes are left out. Empty: its lists
// are nested deeper than resp_depth_max.
inline constexpr unsigned resp_depth_max = 32;
std::optional<RespValue> resp_value(std::string_view bytes);

class RespClient {
 public:
  // `timeout` bounds the connection, except the lookup of the host's name, and then each exchange.
  static base::Result<RespClient> connect(const std::string& host, uint16_t port,
                                          std::chrono::milliseconds timeout);

  // Adds a command for the next exchange.
  void add(std::span<const std::string_view> words);
  void add(std::initializer_list<std::string_view> words) {
    add(std::span(words.begin(), words.size()));
  }
  // Sends the commands that were added, and reads a reply to each; pushes of the server are
  // skipped. After a problem the connection must not be used.
  base::Result<std::vector<RespValue>> exchange();

 private:
  RespClient(calls::Socket socket, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}
  base::Result<std::vector<RespValue>> read_replies();

  calls::Socket socket_;
  std::chrono::milliseconds timeout_;
  base::Buffer out_;
  size_t awaited_ = 0;  // the number of commands in `out_`
};

}  // namespace sluice::resp
