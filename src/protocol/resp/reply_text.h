// Replies as people read them in a terminal: the text that `redis-cli` prints there. Pure
// functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "protocol/resp/reply_value.h"

namespace sluice::resp {

// `"text"`, `(integer) 1`, `(nil)`, `(error) ERR ...`, `1) ...`; ends with a line end. Nothing in
// it moves the cursor. Sets look like lists.
std::string as_redis_cli(const RespValue& reply);
// The same of a reply to that command: a text of lines, as INFO's, stands as it is.
std::string as_redis_cli(const RespValue& reply, std::span<const std::string_view> command);

// An error is an object {"error": ...}, wherever it stands.
nlohmann::ordered_json json_of(const RespValue& reply);

}  // namespace sluice::resp
