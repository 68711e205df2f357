#include "base/printable.h"

namespace sluice::base {

void append_printable(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += "\\x";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    }
  }
}

std::string printable(std::string_view text, size_t bytes_max) {
  std::string out;
  append_printable(out, text.substr(0, bytes_max));
  if (text.size() > bytes_max) out += "...";
  return out;
}

}  // namespace sluice::base
