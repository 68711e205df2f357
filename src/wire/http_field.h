// What header fields of HTTP are made of (RFC 9110, 5): names, values and the characters that each
// may have. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace sluice::wire {

// As sent; the value without the white space around it. Views into what the owner says.
struct HttpField {
  std::string_view name, value;
};

// The lower case of ASCII; other bytes stay.
constexpr char http_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// A character of a method or of a field's name (RFC 9110, 5.6.2)?
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
// Eight times http_lower.
constexpr uint64_t lower(uint64_t bytes) {
  constexpr uint64_t each = 0x0101010101010101;
  const uint64_t low = bytes & each * 0x7f;
  const uint64_t from_a = low + each * (0x80 - 'A'), above_z = low + each * (0x7f - 'Z');
  const uint64_t upper = (from_a ^ above_z) & ~bytes & each * 0x80;
  return bytes | upper >> 2;  // 0x80 becomes the bit that 'a' has and 'A' has not
}
// Of eight characters or more.
inline bool is_same(std::string_view name, const char* lower_name) {
  const size_t last = name.size() - 8;
  for (size_t i = 0; i < last; i += 8)
    if (lower(word_at(name.data() + i)) != word_at(lower_name + i)) return false;
  return lower(word_at(name.data() + last)) == word_at(lower_name + last);
}

}  // namespace http_words

// Is it `name`, whatever the case of its letters? `lower_name`: in lower case.
constexpr bool is_http_name(std::string_view name, std::string_view lower_name) {
  if (name.size() != lower_name.size()) return false;
  if (!std::is_constant_evaluated() && name.size() >= 8)
    return http_words::is_same(name, lower_name.data());
  for (size_t i = 0; i < name.size(); ++i)
    if (http_lower(name[i]) != lower_name[i]) return false;
  return true;
}

// May a field have that name?
constexpr bool is_http_field_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return http_token_chars[static_cast<unsigned char>(c)];
  });
}

}  // namespace sluice::wire
