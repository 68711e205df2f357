#include "wire/structured_fields.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace sluice::wire {
namespace {

constexpr bool is_sf_text(char c) {
  return c >= 0x20 && c < 0x7F;
}

// Whether eight characters may all be in a String without escapes. (A carry may make the result
// wrong for bytes above the lowest one that must be escaped, but not the result for all eight.)
bool stand_as_they_are(const char* eight) {
  constexpr uint64_t ones = 0x0101010101010101, highest = ones << 7;
  uint64_t bytes;
  std::memcpy(&bytes, eight, sizeof bytes);
  // Sets the highest bit of each byte that is 0.
  const auto zeros = [](uint64_t word) { return (word - ones) & ~word; };
  const uint64_t others = bytes | (bytes - ones * 0x20) | zeros(bytes ^ (ones * 0x7F)) |
                          zeros(bytes ^ (ones * '"')) | zeros(bytes ^ (ones * '\\'));
  return (others & highest) == 0;
}

bool stands_as_it_is(std::string_view text) {
  if (text.size() < 8) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return is_sf_text(c) && c != '"' && c != '\\'; });
  }
  for (size_t i = 0; i + 8 < text.size(); i += 8)
    if (!stand_as_they_are(text.data() + i)) return false;
  return stand_as_they_are(text.data() + text.size() - 8);
}

}  // namespace

void append_sf_string(std::string_view text, base::Buffer& out) {
  char* const start = out.prepare(2 * text.size() + 2);
  char* to = start;
  *to++ = '"';
  if (stands_as_it_is(text)) {
    std::copy(text.begin(), text.end(), to);
    to += text.size();
  } else {
    for (const char c : text) {
      if (c == '"' || c == '\\') *to++ = '\\';
      *to++ = is_sf_text(c) ? c : '_';
    }
  }
  *to++ = '"';
  out.commit(static_cast<size_t>(to - start));
}

void append_sf_bytes(std::string_view bytes, base::Buffer& out) {
  // A multiple of three, so that only the last piece is padded, and far below what an int holds.
  constexpr size_t piece_bytes = size_t{3} << 20;
  out.append(':');
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, piece_bytes);
    // Room for the NUL that OpenSSL adds as well.
    auto* const to = reinterpret_cast<unsigned char*>(out.prepare((piece.size() + 2) / 3 * 4 + 1));
    const int written = EVP_EncodeBlock(to, reinterpret_cast<const unsigned char*>(piece.data()),
                                        static_cast<int>(piece.size()));
    out.commit(static_cast<size_t>(written));
    bytes.remove_prefix(piece.size());
  }
  out.append(':');
}

}  // namespace sluice::wire
