// What header fields of HTTP are made of (RFC 9110, 5): names, values and the characters that each
// may have. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

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

// Is it `name`, whatever the case of its letters? `lower_name`: in lower case.
constexpr bool is_http_name(std::string_view name, std::string_view lower_name) {
  if (name.size() != lower_name.size()) return false;
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
