#include "wire/grpc.h"

#include <algorithm>
#include <array>

namespace sluice::wire {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

}  // namespace

GrpcPrefix GrpcPrefix::read(std::string_view at) {
  GrpcPrefix prefix{.flags = static_cast<uint8_t>(at[0])};
  for (size_t i = 1; i < grpc_prefix_bytes; ++i)
    prefix.bytes = prefix.bytes << 8 | static_cast<unsigned char>(at[i]);
  return prefix;
}

void GrpcPrefix::write(char* to) const {
  to[0] = static_cast<char>(flags);
  for (size_t i = 1; i < grpc_prefix_bytes; ++i)
    to[i] = static_cast<char>(static_cast<unsigned char>(bytes >> (8 * (4 - i))));
}

std::optional<base::Duration> read_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  switch (text.back()) {  // 8 digits of any unit fit
    case 'H':
      return base::seconds(value * 3600);
    case 'M':
      return base::seconds(value * 60);
    case 'S':
      return base::seconds(value);
    case 'm':
      return base::milliseconds(value);
    case 'u':
      return base::Duration{value};
    case 'n':
      return base::Duration{(value + 999) / 1000};
    default:
      return std::nullopt;
  }
}

GrpcContent read_grpc_content_type(std::string_view text) {
  constexpr std::string_view grpc = "application/grpc";
  if (text == grpc) return GrpcContent::plain;  // the usual case
  if (!equals_ignoring_case(text.substr(0, grpc.size()), grpc)) return GrpcContent::none;
  std::string_view rest = text.substr(grpc.size());
  if (rest.empty() || rest[0] == ';') return GrpcContent::plain;
  if (rest[0] != '+') return GrpcContent::none;
  rest = rest.substr(1, rest.find(';') - 1);
  return equals_ignoring_case(rest, "proto") ? GrpcContent::proto : GrpcContent::plain;
}

void append_grpc_text(std::string_view text, std::string& out) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char c : text.substr(0, grpc_text_bytes_max)) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
}

std::string_view grpc_status_text(GrpcStatus status) {
  static constexpr std::array<std::string_view, 17> texts{
      "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};
  return texts[static_cast<size_t>(status)];
}

}  // namespace sluice::wire
