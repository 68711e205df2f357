#include "config/javascript_words.h"

#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

namespace sluice::config {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<double> digits(std::string_view text, unsigned base) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  for (const char c : text) {
    const unsigned digit = is_digit(c)            ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                           : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A') + 10
                                                  : 16;
    if (digit >= base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

// A decimal number with a fraction and an exponent, without a sign.
std::optional<double> decimal(std::string_view text) {
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text.empty() ||
      !(is_digit(text[0]) || (text[0] == '.' && text.size() > 1 && is_digit(text[1]))))
    return std::nullopt;
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  if (at != end) return std::nullopt;
  // Out of range: so large that no setting has it, or so small that it is 0.
  if (problem == std::errc::result_out_of_range)
    value = text.find('-') == text.npos ? std::numeric_limits<double>::infinity() : 0;
  return value;
}

}  // namespace

std::optional<double> javascript_number(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return 0;
  for (const auto& [letters, base] : {std::pair("xX", 16u), {"oO", 8u}, {"bB", 2u}})
    if (text.size() > 1 && text[0] == '0' && (text[1] == letters[0] || text[1] == letters[1]))
      return digits(text.substr(2), base);
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  const auto value = decimal(text);
  return value && negative ? -*value : value;
}

std::optional<double> javascript_parse_int(std::string_view text) {
  text = trimmed(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const auto value = digits(text.substr(0, count), 10);
  return value && negative ? -*value : value;
}

std::optional<uint16_t> port_of_number(double number) {
  if (!(number >= 0 && number <= std::numeric_limits<uint16_t>::max())) return std::nullopt;
  const auto port = static_cast<uint16_t>(number);
  if (port != number) return std::nullopt;
  return port;
}

std::optional<uint16_t> node_port(std::string_view text) {
  if (trimmed(text).empty()) return std::nullopt;
  const auto number = javascript_number(text);
  return number ? port_of_number(*number) : std::nullopt;
}

}  // namespace sluice::config
