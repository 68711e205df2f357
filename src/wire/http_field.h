// The header fields of HTTP (RFC 9110, 5): names, values, and the characters that names may have.
// Pure functions; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace sluice::wire {

// As sent; the value is without the white space around it. The owner says what the views point
// into.
struct HttpField {
  std::string_view name, value;
};

// Converts ASCII letters to lower case; other bytes stay.
constexpr char http_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// Whether methods and names of fields may have the character (RFC 9110, 5.6.2).
constexpr bool is_http_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

constexpr std::array<bool, 256> make_http_token_chars() {
  std::array<bool, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = is_http_token_char(static_cast<char>(i));
  return table;
}
// The characters of a token, by byte.
inline constexpr std::array<bool, 256> http_token_chars = make_http_token_chars();

namespace http_words {

inline uint64_t word_at(const char* at) {
  uint64_t bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  return bytes;
}
// http_lower for eight bytes at once.
constexpr uint64_t lower(uint64_t bytes) {
  constexpr uint64_t each = 0x0101010101010101;
  const uint64_t low = bytes & each * 0x7f;
  const uint64_t from_a = low + each * (0x80 - 'A'), above_z = low + each * (0x7f - 'Z');
  const uint64_t upper = (from_a ^ above_z) & ~bytes & each * 0x80;
  return bytes | upper >> 2;  // 0x80 becomes the bit that 'a' has and 'A' has not
}
// Compares names of eight or more characters.
inline bool is_same(std::string_view name, const char* lower_name) {
  const size_t last = name.size() - 8;
  for (size_t i = 0; i < last; i += 8)
    if (lower(word_at(name.data() + i)) != word_at(lower_name + i)) return false;
  return lower(word_at(name.data() + last)) == word_at(lower_name + last);
}

}  // namespace http_words

// Whether the names are equal in any case of their letters. `lower_name` must be in lower case.
constexpr bool is_http_name(std::string_view name, std::string_view lower_name) {
  if (name.size() != lower_name.size()) return false;
  if (!std::is_constant_evaluated() && name.size() >= 8)
    return http_words::is_same(name, lower_name.data());
  for (size_t i = 0; i < name.size(); ++i)
    if (http_lower(name[i]) != lower_name[i]) return false;
  return true;
}

// Whether a field may have the name.
constexpr bool is_http_field_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return http_token_chars[static_cast<unsigned char>(c)];
  });
}

}  // namespace sluice::wire
