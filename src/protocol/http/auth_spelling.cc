#include "protocol/http/auth_spelling.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/http_field.h"

namespace sluice::http {
namespace {

// How the normal form of a path writes a byte.
enum class PathByte : uint8_t {
  escaped,     // always as %XX
  unreserved,  // always as itself
  reserved,    // as it was sent: itself and %XX have different meanings
};
constexpr std::array<PathByte, 256> path_bytes = [] {
  std::array<PathByte, 256> table{};
  for (const char c : std::string_view("!$&'()*+,;=:@/"))
    table[static_cast<unsigned char>(c)] = PathByte::reserved;
  for (const char c : std::string_view("0123456789-._~"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
    table[static_cast<unsigned char>(c)] = PathByte::unreserved;
  return table;
}();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = wire::http_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

char* write_escaped(unsigned char byte, char* to) {
  static constexpr char hex[] = "0123456789ABCDEF";
  *to++ = '%';
  *to++ = hex[byte >> 4];
  *to++ = hex[byte & 15];
  return to;
}

// Writes the normal form of the segment at `at` to `to`. Moves `at` behind the segment and returns
// the end of what was written.
char* write_segment(std::string_view path, size_t& at, char* to) {
  for (; at < path.size() && path[at] != '/'; ++at) {
    auto byte = static_cast<unsigned char>(path[at]);
    const bool is_escape = byte == '%' && path.size() - at > 2 && hex_digit(path[at + 1]) >= 0 &&
                           hex_digit(path[at + 2]) >= 0;
    if (is_escape) {
      byte = static_cast<unsigned char>(hex_digit(path[at + 1]) << 4 | hex_digit(path[at + 2]));
      at += 2;
    }
    const PathByte is = path_bytes[byte];
    if (is == PathByte::unreserved || (is == PathByte::reserved && !is_escape))
      *to++ = static_cast<char>(byte);
    else
      to = write_escaped(byte, to);
  }
  return to;
}

// The value of a character of Base64, of its form for URLs too; negative: it is none.
int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

// Writes the Base64 `text` in its one spelling to `to`, and returns the end.
char* write_base64(std::string_view text, char* to) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t count = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) continue;
    *to++ = letters[static_cast<size_t>(value)];
    ++count;
  }
  // Of the last group only whole bytes count.
  if (count % 4 == 1) --to;
  const int unused = count % 4 == 2 ? 4 : count % 4 == 3 ? 2 : 0;
  if (unused > 0) {
    const int value = base64_value(to[-1]);
    to[-1] = letters[static_cast<size_t>(value >> unused << unused)];
  }
  return to;
}

}  // namespace

std::string_view without_blanks_around(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::string_view normalize_path(std::string_view path, base::Arena& texts) {
  const auto grows = [](char c) {
    return path_bytes[static_cast<unsigned char>(c)] == PathByte::escaped;
  };
  const auto longer = static_cast<size_t>(std::count_if(path.begin(), path.end(), grows));
  char* const begin = texts.allocate(path.size() + 2 * longer + 1);
  char* to = begin;
  for (size_t at = 0; at < path.size();) {
    while (at < path.size() && path[at] == '/') ++at;
    char* const slash = to;
    *to++ = '/';
    to = write_segment(path, at, to);
    const std::string_view segment(slash + 1, static_cast<size_t>(to - slash - 1));
    const bool is_up = segment == "..";
    if (!is_up && segment != ".") continue;
    to = slash;
    if (is_up && to != begin)
      while (*--to != '/') {
      }
    if (at == path.size()) *to++ = '/';
  }
  return {begin, static_cast<size_t>(to - begin)};
}

std::string_view credentials_of(std::string_view value, base::Arena& texts) {
  value = without_blanks_around(value);
  const size_t scheme_bytes = std::min(value.find_first_of(" \t"), value.size());
  const std::string_view rest = without_blanks_around(value.substr(scheme_bytes));
  if (rest.empty()) return value;  // no scheme, but a key whose letters count as they are
  char* const begin = texts.allocate(value.size() + 1);
  char* to = std::transform(value.begin(), value.begin() + static_cast<ptrdiff_t>(scheme_bytes),
                            begin, wire::http_lower);
  const bool is_basic = std::string_view(begin, scheme_bytes) == "basic";
  *to++ = ' ';
  to = is_basic ? write_base64(rest, to) : std::copy(rest.begin(), rest.end(), to);
  return {begin, static_cast<size_t>(to - begin)};
}

std::string_view cookie_value(std::string_view value, base::Arena& texts) {
  value = without_blanks_around(value);
  const bool is_quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  if (is_quoted) value = value.substr(1, value.size() - 2);
  const auto is_plain = [&](char c) { return c != '%' && c != '\\' && c > ' ' && c < 0x7f; };
  if (std::all_of(value.begin(), value.end(), is_plain)) return value;
  char* const begin = texts.allocate(3 * value.size());
  char* to = begin;
  for (size_t at = 0; at < value.size(); ++at) {
    auto byte = static_cast<unsigned char>(value[at]);
    if (byte == '\\' && is_quoted && at + 1 < value.size()) {
      const auto octal = [&](size_t i, char most) {
        return at + i < value.size() && value[at + i] >= '0' && value[at + i] <= most;
      };
      if (octal(1, '3') && octal(2, '7') && octal(3, '7')) {
        byte = static_cast<unsigned char>((value[at + 1] - '0') << 6 | (value[at + 2] - '0') << 3 |
                                          (value[at + 3] - '0'));
        at += 3;
      } else {
        byte = static_cast<unsigned char>(value[++at]);
      }
    }
    if (byte == '%' && value.size() - at > 2 && hex_digit(value[at + 1]) >= 0 &&
        hex_digit(value[at + 2]) >= 0) {
      byte = static_cast<unsigned char>(hex_digit(value[at + 1]) << 4 | hex_digit(value[at + 2]));
      at += 2;
    }
    if (byte >= ' ' && byte < 0x7f)
      *to++ = static_cast<char>(byte);
    else
      to = write_escaped(byte, to);
  }
  return {begin, static_cast<size_t>(to - begin)};
}

}  // namespace sluice::http
