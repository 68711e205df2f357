// Converts a reply to the text that `redis-cli` prints in a terminal. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/resp.h"

namespace sluice::resp {

// A reply of Redis' protocol as a value, for the terminal. Pure functions, any thread.

// A reply with all its items.
struct RespValue {
  using Kind = wire::RespItem::Kind;
  Kind kind = Kind::null;
  std::string text{};            // as RespItem's
  int64_t number = 0;            // as RespItem's
  double real = 0;               // as RespItem's
  std::vector<RespValue> items;  // of a list; of a map: alternating keys and values

  bool is_error() const { return kind == Kind::error; }
  bool is_integer() const { return kind == Kind::integer; }
  bool is_text() const { return kind == Kind::bulk || kind == Kind::simple; }
  bool is_list() const { return kind == Kind::list; }
};

// `bytes`: one reply, as RespReplyReader finds it. Attributes are dropped. Nothing: its lists are
// nested more than resp_depth_max deep.
inline constexpr unsigned resp_depth_max = 32;
inline constexpr const char* resp_too_deep = "a reply is nested too deeply";
std::optional<RespValue> resp_value(std::string_view bytes);

// `"text"`, `(integer) 1`, `(nil)`, `(error) ERR ...`, `1) ...`; ends with a line end. Control
// characters are escaped, so the text cannot move the cursor. Sets look like lists.
std::string as_redis_cli(const RespValue& reply);
// The same for the reply to a command. A text of several lines, such as INFO's, is not quoted.
std::string as_redis_cli(const RespValue& reply, std::span<const std::string_view> command);

// The reply as JSON. An error, at any depth, is an object {"error": ...}.
nlohmann::ordered_json json_of(const RespValue& reply);

}  // namespace sluice::resp
