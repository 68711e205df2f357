// Translates errors: those that Redis answers into errors of decisions, and those of connections
// into messages. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "net/stream.h"
#include "request/charge.h"

namespace sluice::redis {

// The error that Redis' text means, be it of a command, of a script's command or of a greeting.
// Never `none`.
request::Error error_of(std::string_view text);

// Does an error that begins with `text` show that the Redis is a node of a Redis Cluster?
bool is_of_cluster(std::string_view text);

// What to do where Redis answers `text` to a login or a command, as the end of a message; empty
// where that is not known. `account`: the settings that say who logs in.
std::string remedy_of(std::string_view text, std::string_view account);
inline constexpr std::string_view redis_account = "store.redis.username and password";

// The message for an errno of a call of `stream`, with what to do about it if that is known.
std::string problem_of(const net::Stream& stream, int error);

}  // namespace sluice::redis
