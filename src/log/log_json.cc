#include "log/log_json.h"

#include <chrono>
#include <ctime>

#include "base/utf8.h"
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

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    size_t size = 1;
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text.front();
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else if (byte < 0x80) {
      out += text.front();
    } else {
      const base::utf8::Sequence sequence = base::utf8::first_sequence(text);
      size = sequence.size;
      out += sequence.valid ? text.substr(0, size) : base::utf8::replacement;
    }
    text.remove_prefix(size);
  }
  out += '"';
}

void append_json_line(std::string& out, const spdlog::details::log_msg& line) {
  out += "{\"time\":\"";
  append_time(out, line.time);
  out += "\",\"level\":\"";
  out += name_of(line.level);
  out += "\",\"module\":";
  // The log itself has no name.
  append_json_string(out, line.logger_name.size() == 0
                              ? std::string_view("log")
                              : std::string_view(line.logger_name.data(), line.logger_name.size()));
  out += ",\"message\":";
  append_json_string(out, {line.payload.data(), line.payload.size()});
  out += "}\n";
}

}  // namespace sluice::log
