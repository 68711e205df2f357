// What an error that Redis answers with means for a decision, and what one of the connection to it
// says to people. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "net/stream.h"
#include "request/charge.h"

namespace sluice::redis {

// Of a command, of what a script's command said, or of a greeting. Never `none`.
request::Error error_of(std::string_view text);

// Does an error that begins so say that the Redis is a node of a Redis Cluster?
bool is_of_cluster(std::string_view text);

// What an errno of a call of `stream` says, and what to do about it, where that is known.
std::string problem_of(const net::Stream& stream, int error);

}  // namespace sluice::redis
