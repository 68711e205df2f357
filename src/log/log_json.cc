#include "log/log_json.h"

#include <chrono>
#include <ctime>

#include "base/json_writer.h"
#include "log/log.h"

namespace sluice::log {
namespace {

// RFC 3339, in UTC, to the microsecond.
void append_time(std::string& out, std::chrono::system_clock::time_point at) {
  using std::chrono::floor;
  const auto second = floor<std::chrono::seconds>(at);
  const auto us = floor<std::chrono::microseconds>(at - second).count();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(second);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  out.append(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.", &parts));
  const std::string digits = std::to_string(us);
  out.append(6 - digits.size(), '0');
  out += digits;
  out += 'Z';
}

}  // namespace

void append_json_line(std::string& out, const spdlog::details::log_msg& line) {
  out += "{\"time\":\"";
  append_time(out, line.time);
  out += "\",\"level\":\"";
  out += name_of(line.level);
  out += "\",\"module\":";
  // The log itself has no name.
  base::append_json_text(line.logger_name.size() == 0
                             ? std::string_view("log")
                             : std::string_view(line.logger_name.data(), line.logger_name.size()),
                         out);
  out += ",\"message\":";
  base::append_json_text({line.payload.data(), line.payload.size()}, out);
  out += "}\n";
}

}  // namespace sluice::log
