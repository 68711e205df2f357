#include "redis/slots.h"

#include <algorithm>
#include <array>

#include "base/hash.h"

namespace sluice::redis {

namespace {

constexpr std::array<uint16_t, 256> make_crc_table() {
  std::array<uint16_t, 256> table{};
  for (unsigned i = 0; i < table.size(); ++i) {
    unsigned crc = i << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000u) != 0 ? crc << 1 ^ 0x1021u : crc << 1;
    table[i] = static_cast<uint16_t>(crc);
  }
  return table;
}
constexpr std::array<uint16_t, 256> crc_table = make_crc_table();

uint16_t crc16(std::string_view text) {
  unsigned crc = 0;
  for (const char c : text)
    crc = (crc << 8 & 0xFFFFu) ^ crc_table[(crc >> 8 ^ static_cast<unsigned char>(c)) & 0xFFu];
  return static_cast<uint16_t>(crc);
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

}  // namespace

uint16_t slot_of(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1)
      key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) & (slot_count - 1);
}

void append_tag(std::string& out, std::string_view actor) {
  constexpr std::string_view digits = "0123456789abcdef";
  const uint64_t hash = base::digest(actor);
  out += '{';
  for (int shift = 28; shift >= 0; shift -= 4) out += digits[hash >> shift & 15];
  out += '}';
}

std::string_view without_tag(std::string_view text) {
  if (text.size() < tag_size || text.front() != '{' || text[tag_size - 1] != '}') return text;
  const std::string_view digits = text.substr(1, tag_size - 2);
  return std::ranges::all_of(digits, is_hex) ? text.substr(tag_size) : text;
}

}  // namespace sluice::redis
