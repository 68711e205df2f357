#include "protocol/http/json_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace sluice::http {
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

void append_escaped(unsigned char c, base::Buffer& out) {
  static constexpr char hex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      return out.append("\\\"");
    case '\\':
      return out.append("\\\\");
    case '\n':
      return out.append("\\n");
    case '\r':
      return out.append("\\r");
    case '\t':
      return out.append("\\t");
    default:
      out.append("\\u00");
      out.append(hex[c >> 4]);
      out.append(hex[c & 15]);
  }
}

}  // namespace

void append_json_text(std::string_view text, base::Buffer& out) {
  out.append('"');
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
    const base::utf8::Sequence sequence = base::utf8::first_sequence(text);
    out.append(sequence.valid ? text.substr(0, sequence.size) : base::utf8::replacement);
    text.remove_prefix(sequence.size);
  }
  out.append('"');
}

void put_json_seconds(base::Duration length, base::TextWriter& writer) {
  if (length == base::never) return writer.put("null");
  const int64_t us = std::max<int64_t>(length.us, 0);
  const auto ms = static_cast<uint64_t>(us / 1000 + (us % 1000 > 0 ? 1 : 0));
  writer.put_number(ms / 1000);
  auto fraction = static_cast<unsigned>(ms % 1000);
  if (fraction == 0) return;
  writer.put('.');
  for (; fraction > 0; fraction = fraction % 100 * 10)
    writer.put(static_cast<char>('0' + fraction / 100));
}

void append_json_seconds(base::Duration length, base::Buffer& out) {
  base::TextWriter writer(out, json_seconds_bytes_max);
  put_json_seconds(length, writer);
  writer.finish();
}

}  // namespace sluice::http
