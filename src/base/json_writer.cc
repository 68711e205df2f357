#include "base/json_writer.h"

#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace sluice::base {
namespace {

// The bytes that a JSON string has unescaped.
constexpr std::array<bool, 256> plain_in_json = [] {
  std::array<bool, 256> table{};
  for (size_t i = 0x20; i < 0x7F; ++i) table[i] = i != '"' && i != '\\';
  return table;
}();

size_t plain_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && plain_in_json[static_cast<unsigned char>(text[n])]) ++n;
  return n;
}

template <class Out>
void append_escaped(unsigned char c, Out& out) {
  static constexpr char hex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out.append("\\\"");
      return;
    case '\\':
      out.append("\\\\");
      return;
    case '\n':
      out.append("\\n");
      return;
    case '\r':
      out.append("\\r");
      return;
    case '\t':
      out.append("\\t");
      return;
    default:
      out.append("\\u00");
      out.append(std::string_view(hex + (c >> 4), 1));
      out.append(std::string_view(hex + (c & 15), 1));
  }
}

template <class Out>
void append_text(std::string_view text, Out& out) {
  out.append("\"");
  for (;;) {
    const size_t plain = plain_length(text);
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto c = static_cast<unsigned char>(text.front());
    if (c < 0x80) {
      append_escaped(c, out);
      text.remove_prefix(1);
      continue;
    }
    const utf8::Sequence sequence = utf8::first_sequence(text);
    out.append(sequence.valid ? text.substr(0, sequence.size) : utf8::replacement);
    text.remove_prefix(sequence.size);
  }
  out.append("\"");
}

}  // namespace

void append_json_text(std::string_view text, Buffer& out) {
  append_text(text, out);
}
void append_json_text(std::string_view text, std::string& out) {
  append_text(text, out);
}

}  // namespace sluice::base
