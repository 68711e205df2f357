// A small client of Redis' protocol for people and tools: commands in one go, a reply to each, a
// deadline over both. Blocks the calling thread, which owns it. Not meant for services.
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

// A reply with all that it holds.
struct RespValue {
  using Kind = wire::RespItem::Kind;
  Kind kind = Kind::null;
  std::string text{};            // as RespItem's
  int64_t number = 0;            // as RespItem's
  double real = 0;               // as RespItem's
  std::vector<RespValue> items;  // of a list; of a map keys and values by turns

  bool is_error() const { return kind == Kind::error; }
  bool is_integer() const { return kind == Kind::integer; }
  bool is_text() const { return kind == Kind::bulk || kind == Kind::simple; }
  bool is_list() const { return kind == Kind::list; }
};

// `bytes`: one reply, as RespReplyReader finds it; attributes are left out. Nothing: its lists are
// nested more than resp_depth_max deep.
inline constexpr unsigned resp_depth_max = 32;
std::optional<RespValue> resp_value(std::string_view bytes);

class RespClient {
 public:
  // `timeout` bounds the connecting, but for the lookup of the name, and then each exchange.
  static base::Result<RespClient> connect(const std::string& host, uint16_t port,
                                          std::chrono::milliseconds timeout);

  // Adds a command to those that the next exchange sends.
  void add(std::span<const std::string_view> words);
  void add(std::initializer_list<std::string_view> words) {
    add(std::span(words.begin(), words.size()));
  }
  // Sends what was added, and reads a reply to each; what the server sends without being asked is
  // skipped. After a problem the connection is of no more use.
  base::Result<std::vector<RespValue>> exchange();

 private:
  RespClient(calls::Socket socket, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}
  base::Result<std::vector<RespValue>> read_replies();

  calls::Socket socket_;
  std::chrono::milliseconds timeout_;
  base::Buffer out_;
  size_t awaited_ = 0;  // commands in `out_`
};

}  // namespace sluice::resp
