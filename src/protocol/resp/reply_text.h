// Converts a reply to the text that `redis-cli` prints in a terminal. Pure functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "protocol/resp/reply_value.h"

namespace sluice::resp {

// `"text"`, `(integer) 1`, `(nil)`, `(error) ERR ...`, `1) ...`; ends with a line end. Control
// characters are escaped, so the text cannot move the cursor. Sets look like lists.
std::string as_redis_cli(const RespValue& reply);
// The same for the reply to a command. A text of several lines, such as INFO's, is not quoted.
std::string as_redis_cli(const RespValue& reply, std::span<const std::string_view> command);

// The reply as JSON. An error, at any depth, is an object {"error": ...}.
nlohmann::ordered_json json_of(const RespValue& reply);

}  // namespace sluice::resp
