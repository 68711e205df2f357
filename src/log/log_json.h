// A line of the log as JSON: one object, of a time, a level, the module that logs and the message,
// well formed whatever bytes the message has. Pure functions; any thread.
#pragma once

#include <spdlog/details/log_msg.h>

#include <string>

namespace sluice::log {

// {"time":"2026-01-02T03:04:05.678901Z","level":"info","module":"server","message":"..."} and LF.
void append_json_line(std::string& out, const spdlog::details::log_msg& line);

}  // namespace sluice::log
