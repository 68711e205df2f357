#include "protocol/envoy/go_yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace sluice::envoy {
namespace {

using Kind = GoValue::Kind;

constexpr std::string_view true_words[] = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                           "True", "TRUE", "on",  "On",  "ON"};
constexpr std::string_view false_words[] = {"n",     "N",     "no",  "No",  "NO", "false",
                                            "False", "FALSE", "off", "Off", "OFF"};
constexpr std::string_view null_words[] = {"", "~", "null", "Null", "NULL"};
constexpr std::string_view infinite_words[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"};
constexpr std::string_view below_all_words[] = {"-.inf", "-.Inf", "-.INF"};
constexpr std::string_view no_number_words[] = {".nan", ".NaN", ".NAN"};

template <size_t N>
bool is_one_of(const std::string_view (&words)[N], std::string_view text) {
  return std::find(std::begin(words), std::end(words), text) != std::end(words);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

size_t count_digits(std::string_view text, size_t at) {
  size_t n = 0;
  while (at + n < text.size() && is_digit(text[at + n])) ++n;
  return n;
}

// Is it a decimal number, with or without a sign, a point and an exponent?
bool is_decimal(std::string_view text) {
  size_t at = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  const size_t before = count_digits(text, at);
  at += before;
  if (at < text.size() && text[at] == '.') {
    const size_t behind = count_digits(text, ++at);
    if (before + behind == 0) return false;
    at += behind;
  } else if (before == 0) {
    return false;
  }
  if (at == text.size()) return true;
  if (text[at] != 'e' && text[at] != 'E') return false;
  ++at;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  const size_t exponent = count_digits(text, at);
  return exponent > 0 && at + exponent == text.size();
}

GoValue number(double value) {
  return {.kind = Kind::number, .number = value};
}

GoValue decimal(const std::string& text) {
  if (!is_decimal(text)) return {.kind = Kind::text};
  const double value = std::strtod(text.c_str(), nullptr);
  // Go treats a number that is out of range as text too.
  return std::isinf(value) ? GoValue{.kind = Kind::text} : number(value);
}

// Reads `0x1f`, `0b11`, `0o17`, `017` or `17`, with or without a sign, else a decimal number.
GoValue whole_or_decimal(const std::string& text) {
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
    digits.remove_prefix(base == 8 && mark != 'o' ? 1 : 2);
  }
  uint64_t n = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, problem] = std::from_chars(digits.data(), end, n, base);
  if (digits.empty() || at != end || problem != std::errc()) return decimal(text);
  const double value = static_cast<double>(n);
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  if (n <= most)
    return {.kind = Kind::whole,
            .whole = negative ? -static_cast<int64_t>(n) : static_cast<int64_t>(n),
            .number = negative ? -value : value};
  if (negative && n == most + 1) return {.kind = Kind::whole, .whole = INT64_MIN, .number = -value};
  // Above int64, Go reads an unsigned integer if the text has no sign.
  return text[0] == '-' || text[0] == '+' ? decimal(text) : number(value);
}

// The value of a plain scalar.
GoValue resolve(std::string_view text) {
  if (is_one_of(null_words, text)) return {};
  if (is_one_of(true_words, text)) return {.kind = Kind::boolean, .boolean = true};
  if (is_one_of(false_words, text)) return {.kind = Kind::boolean};
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (is_one_of(infinite_words, text)) return number(infinite);
  if (is_one_of(below_all_words, text)) return number(-infinite);
  if (is_one_of(no_number_words, text)) return number(std::nan(""));
  const char first = text[0];
  if (first == '.') return decimal(std::string(text));
  if (!is_digit(first) && first != '+' && first != '-') return {.kind = Kind::text};
  std::string plain(text);
  std::erase(plain, '_');
  return whole_or_decimal(plain);
}

// The value of a scalar with one of YAML's own tags.
GoValue resolve_tagged(std::string_view tag, std::string_view text) {
  const GoValue value = resolve(text);
  const auto only = [&](bool fits) { return fits ? value : GoValue{.kind = Kind::unreadable}; };
  if (tag == "int") return only(value.kind == Kind::whole);
  if (tag == "bool") return only(value.kind == Kind::boolean);
  if (tag == "null") return only(value.kind == Kind::null);
  if (tag == "float") {
    const bool fits = value.kind == Kind::whole || value.kind == Kind::number;
    return fits ? number(value.number) : GoValue{.kind = Kind::unreadable};
  }
  // Base64, which no file of limits needs.
  if (tag == "binary") return {.kind = Kind::unreadable};
  return {.kind = Kind::text};
}

// The number as Go's %v writes it.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 64> buffer;
  const auto shown = [&](std::chars_format format) {
    const auto [end, problem] =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
    return std::string(buffer.data(), problem == std::errc() ? end : buffer.data());
  };
  const std::string scientific = shown(std::chars_format::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  return value == 0 || (exponent >= -4 && exponent < 21) ? shown(std::chars_format::fixed)
                                                         : scientific;
}

bool is_merge_key(YamlNode key) {
  if (!key.is_scalar() || key.text() != "<<") return false;
  return key.is_plain() || key.tag() == "tag:yaml.org,2002:merge";
}

constexpr std::string_view no_map = "merges something that is not a map";
constexpr std::string_view too_many =
    "expands to far more than the file contains, by aliases and merge keys";

// Collects the entries of a map and of the maps that it merges, in the order in which Go sets them.
// A list of maps is merged from its end.
class Members {
 public:
  Members(size_t most, std::vector<GoMember>& members) : most_(most), members_(members) {}

  bool append(YamlNode map, YamlNode merged_by, size_t depth) {
    for (YamlNode key = map.first_child(), value; key; key = value.next()) {
      value = key.next();
      if (is_merge_key(key)) {
        if (!merge(value, merged_by ? merged_by : key, depth)) return false;
        continue;
      }
      if (members_.size() == most_) return fail(key, too_many);
      members_.push_back({key, value, merged_by});
    }
    return true;
  }

  std::optional<GoMergeProblem> problem() const { return problem_; }

 private:
  bool merge(YamlNode value, YamlNode merge_key, size_t depth) {
    if (depth == policy::yaml_depth_max) return fail(value, "merges through too many maps");
    // Counts each merged map: an empty one adds no entry, but costs time.
    if (++merged_ > most_) return fail(value, too_many);
    if (value.is_map()) return append(value, merge_key, depth + 1);
    if (!value.is_list()) return fail(value, no_map);
    std::vector<YamlNode> maps;
    for (YamlNode item = value.first_child(); item; item = item.next()) {
      if (!item.is_map()) return fail(item, no_map);
      maps.push_back(item);
    }
    return std::all_of(maps.rbegin(), maps.rend(), [&](YamlNode map) {
      return ++merged_ <= most_ ? append(map, merge_key, depth + 1) : fail(map, too_many);
    });
  }

  bool fail(YamlNode node, std::string_view why) {
    problem_ = GoMergeProblem{node, why, why == too_many};
    return false;
  }

  size_t most_, merged_ = 0;
  std::vector<GoMember>& members_;
  std::optional<GoMergeProblem> problem_;
};

}  // namespace

GoValue go_value(YamlNode node) {
  if (!node.is_scalar()) return {};
  if (node.is_plain()) return resolve(node.text());
  const std::string_view tag = node.tag();
  constexpr std::string_view own = "tag:yaml.org,2002:";
  if (!tag.starts_with(own)) return {.kind = Kind::text};
  return resolve_tagged(tag.substr(own.size()), node.text());
}

std::string go_key_text(YamlNode node) {
  const GoValue value = go_value(node);
  switch (value.kind) {
    case Kind::null:
      return "<nil>";
    case Kind::boolean:
      return value.boolean ? "true" : "false";
    case Kind::whole:
      return std::to_string(value.whole);
    case Kind::number:
      return number_text(value.number);
    case Kind::text:
    case Kind::unreadable:
      break;
  }
  return std::string(node.text());
}

std::optional<GoMergeProblem> append_members(YamlNode map, size_t most,
                                             std::vector<GoMember>& members) {
  Members all(most, members);
  all.append(map, {}, 0);
  return all.problem();
}

}  // namespace sluice::envoy
