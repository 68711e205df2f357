#include "base/units.h"

#include <charconv>
#include <utility>

namespace sluice::base {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};

constexpr Unit units[] = {
    {"TiB", uint64_t{1} << 40},
    {"GiB", uint64_t{1} << 30},
    {"MiB", uint64_t{1} << 20},
    {"KiB", uint64_t{1} << 10},
    {"TB", 1'000'000'000'000},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"kB", 1'000},
    {"B", 1},
};

struct Length {
  std::string_view name;
  int64_t us;
};

constexpr Length lengths[] = {{"d", 86'400'000'000}, {"h", 3'600'000'000}, {"m", 60'000'000},
                              {"s", 1'000'000},      {"ms", 1'000},        {"us", 1}};

std::optional<uint64_t> times(std::optional<uint64_t> n, uint64_t factor) {
  uint64_t product = 0;
  if (!n || __builtin_mul_overflow(*n, factor, &product)) return std::nullopt;
  return product;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Digits with single `_` between them.
std::optional<uint64_t> parse_digits(std::string_view text) {
  if (text.empty() || !is_digit(text.front()) || !is_digit(text.back())) return std::nullopt;
  uint64_t n = 0;
  bool separated = false;
  for (const char c : text) {
    if (c == '_' && !separated) {
      separated = true;
      continue;
    }
    separated = false;
    if (!is_digit(c) || __builtin_mul_overflow(n, uint64_t{10}, &n) ||
        __builtin_add_overflow(n, static_cast<uint64_t>(c - '0'), &n))
      return std::nullopt;
  }
  return n;
}

}  // namespace

std::optional<uint64_t> parse_count(std::string_view text) {
  if (text.ends_with('k')) return times(parse_digits(text.substr(0, text.size() - 1)), 1'000);
  if (text.ends_with('M')) return times(parse_digits(text.substr(0, text.size() - 1)), 1'000'000);
  return parse_digits(text);
}

std::optional<uint64_t> parse_size(std::string_view text) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    text.remove_suffix(unit.name.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    return times(parse_digits(text), unit.bytes);
  }
  return parse_count(text);
}

std::optional<Duration> parse_duration(std::string_view text) {
  const Length* length = nullptr;
  // `ms` and `us` end with an `s` too, so the last that fits is the one.
  for (const Length& l : lengths)
    if (text.ends_with(l.name)) length = &l;
  if (length == nullptr) return std::nullopt;
  text.remove_suffix(length->name.size());
  const auto us = times(parse_digits(text), static_cast<uint64_t>(length->us));
  if (!us || *us > INT64_MAX) return std::nullopt;
  return Duration{static_cast<int64_t>(*us)};
}

std::string format_size(uint64_t bytes) {
  for (const Unit& unit : units)
    if (unit.name.ends_with("iB") && bytes > 0 && bytes % unit.bytes == 0)
      return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  return std::to_string(bytes) + "B";
}

std::string format_duration(Duration length) {
  std::string text;
  for (const Length& part : lengths) {
    if (length.us >= part.us) (text += std::to_string(length.us / part.us)) += part.name;
    length.us %= part.us;
  }
  return text.empty() ? "0s" : text;
}

std::string spell_duration(Duration length) {
  for (const Length& unit : lengths)
    if (length.us > 0 && length.us % unit.us == 0)
      return std::to_string(length.us / unit.us) + std::string(unit.name);
  return "0s";
}

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, port);
  if (text.empty() || problem != std::errc{} || at != end) return std::nullopt;
  return port;
}

std::string grouped(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string counted(uint64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace sluice::base
