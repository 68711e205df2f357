#include "protocol/limitd/value.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

namespace sluice::limitd {

namespace {

using Kind = LimitdValue::Kind;

constexpr double whole_max = 9007199254740992;  // 2^53

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Reads 10, 1_000, -3, 0x1f, 0b11, 017 (octal), 10.0, 1e3. A larger number becomes 2^53.
LimitdValue number(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != '_') digits += c;
  const LimitdValue none{.kind = Kind::text, .text = text};
  if (text.empty() || text.starts_with('_') || text.ends_with('_')) return none;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.empty() || (!is_digit(digits[0]) && digits[0] != '.')) return none;

  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    if (digits[1] == 'x' || digits[1] == 'b') {
      base = digits[1] == 'x' ? 16 : 2;
      digits.erase(0, 2);
    } else if (digits.find_first_not_of("01234567") == std::string::npos) {
      base = 8;
    }
  }
  const char* const begin = digits.data();
  const char* const end = begin + digits.size();
  double value = 0;
  if (base != 10 || digits.find_first_not_of("0123456789") == std::string::npos) {
    uint64_t whole = 0;
    const auto [at, error] = std::from_chars(begin, end, whole, base);
    if (at != end || error == std::errc::invalid_argument) return none;
    value = error == std::errc() ? static_cast<double>(whole) : whole_max;
  } else {
    const auto [at, error] = std::from_chars(begin, end, value);
    if (at != end || error == std::errc::invalid_argument) return none;
    if (error != std::errc()) value = whole_max;
  }
  LimitdValue result{.kind = Kind::number, .text = text};
  if (value != std::floor(value)) return result;
  result.kind = Kind::integer;
  result.integer = static_cast<int64_t>(std::min(value, whole_max));
  if (negative) result.integer = -result.integer;
  return result;
}

LimitdValue time_of(std::string_view text) {
  const auto time = limitd_time(text);
  if (!time) return {.kind = Kind::text, .text = text};
  return {.kind = Kind::time, .time = *time, .text = text};
}

LimitdValue plain(std::string_view text) {
  if (is_one_of(text, {"true", "True", "TRUE"}))
    return {.kind = Kind::boolean, .boolean = true, .text = text};
  if (is_one_of(text, {"false", "False", "FALSE"})) return {.kind = Kind::boolean, .text = text};
  const LimitdValue as_number = number(text);
  return as_number.kind == Kind::text ? time_of(text) : as_number;
}

// Removes digits from the front of `text`: at least `least` and at most `most` of them.
std::optional<int> digits(std::string_view& text, size_t least, size_t most) {
  size_t size = 0;
  int value = 0;
  while (size < most && size < text.size() && is_digit(text[size]))
    value = value * 10 + (text[size++] - '0');
  if (size < least) return std::nullopt;
  text.remove_prefix(size);
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

void skip_blanks(std::string_view& text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
}

}  // namespace

LimitdValue limitd_value(policy::YamlNode node) {
  if (node.is_null()) return {};
  const std::string_view text = node.text();
  LimitdValue result{.kind = Kind::unknown, .text = text};
  if (!node.is_scalar()) return result;
  constexpr std::string_view yaml = "tag:yaml.org,2002:";
  std::string_view tag = node.tag();
  if (node.is_plain()) return plain(text);
  if (!tag.starts_with(yaml)) {
    result.kind = Kind::text;
    return result;
  }
  tag.remove_prefix(yaml.size());
  if (tag == "js/regexp") {
    result.kind = Kind::regex;
  } else if (tag == "str") {
    result.kind = Kind::text;
  } else if (tag == "timestamp") {
    return time_of(text);
  } else if (is_one_of(tag, {"int", "float", "bool"})) {
    const LimitdValue read = plain(text);
    return read.kind == Kind::time ? result : read;
  }
  return result;
}

std::optional<base::Time> limitd_time(std::string_view text) {
  using namespace std::chrono;
  const auto year_number = digits(text, 4, 4);
  if (!year_number || !take(text, '-')) return std::nullopt;
  const auto month_number = digits(text, 1, 2);
  if (!month_number || !take(text, '-')) return std::nullopt;
  const auto day_number = digits(text, 1, 2);
  if (!day_number) return std::nullopt;
  const year_month_day date{year(*year_number), month(static_cast<unsigned>(*month_number)),
                            day(static_cast<unsigned>(*day_number))};
  if (!date.ok()) return std::nullopt;
  int64_t at_us = int64_t{sys_days(date).time_since_epoch().count()} * 86'400'000'000;
  if (text.empty()) return base::Time{at_us};

  const size_t before = text.size();
  if (!take(text, 'T') && !take(text, 't')) skip_blanks(text);
  if (text.size() == before) return std::nullopt;
  const auto hour_number = digits(text, 1, 2);
  if (!hour_number || *hour_number > 23 || !take(text, ':')) return std::nullopt;
  const auto minute_number = digits(text, 2, 2);
  if (!minute_number || *minute_number > 59 || !take(text, ':')) return std::nullopt;
  const auto second_number = digits(text, 2, 2);
  if (!second_number || *second_number > 59) return std::nullopt;
  at_us += ((*hour_number * int64_t{60} + *minute_number) * 60 + *second_number) * 1'000'000;
  if (take(text, '.')) {
    int64_t unit = 100'000;
    for (; !text.empty() && is_digit(text[0]); unit /= 10) {
      at_us += (text[0] - '0') * unit;
      text.remove_prefix(1);
    }
  }
  skip_blanks(text);
  if (text.empty() || text == "Z") return base::Time{at_us};
  const bool west = text.starts_with('-');
  if (!take(text, '-') && !take(text, '+')) return std::nullopt;
  const auto zone_hour = digits(text, 1, 2);
  std::optional<int> zone_minute = 0;
  if (take(text, ':') || !text.empty()) zone_minute = digits(text, 2, 2);
  if (!zone_hour || !zone_minute || *zone_minute > 59 || !text.empty()) return std::nullopt;
  const int64_t zone_us = (*zone_hour * int64_t{60} + *zone_minute) * 60'000'000;
  return base::Time{west ? at_us + zone_us : at_us - zone_us};
}

base::Result<policy::Pattern> limitd_expression(std::string_view text, bool tagged) {
  if (text.empty()) return base::Problem{"is empty, and would match every key"};
  std::string_view source = text, flags;
  if (text.starts_with('/')) {
    const size_t slash = text.rfind('/');
    const std::string_view tail = text.substr(slash + 1);
    const bool is_delimited =
        slash > 0 && (tagged || tail.find_first_not_of("gim") == std::string_view::npos);
    if (is_delimited) {
      source = text.substr(1, slash - 1);
      flags = tail;
    } else if (tagged) {
      return base::Problem{"begins with `/` and has no `/` at its end"};
    }
  }
  auto regex = policy::Regex::javascript(source, flags);
  if (!regex) return std::move(regex).problem().within("is not a regular expression");
  return policy::Pattern::regex("/" + std::string(source) + "/" + std::string(flags),
                                *std::move(regex));
}

std::optional<uint32_t> javascript_index(std::string_view name) {
  if (name.empty() || name.size() > 10 || (name[0] == '0' && name.size() > 1)) return std::nullopt;
  uint64_t value = 0;
  const auto [at, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || at != name.data() + name.size() || value >= UINT32_MAX)
    return std::nullopt;
  return static_cast<uint32_t>(value);
}

}  // namespace sluice::limitd
