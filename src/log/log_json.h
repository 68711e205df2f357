// A line of the log as JSON: one object, of a time, a level, the module that logs and the message,
// well formed whatever bytes the message has. Pure functions; any thread.
#pragma once

#include <spdlog/details/log_msg.h>

#include <string>
#include <string_view>

namespace sluice::log {

// {"time":"2026-01-02T03:04:05.678901Z","level":"info","module":"server","message":"..."} and LF.
void append_json_line(std::string& out, const spdlog::details::log_msg& line);

// `text` in quotes. Control characters are escaped, ill-formed UTF-8 is replaced by U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace sluice::log
