#include "protocol/envoy/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "policy/text.h"
#include "protocol/envoy/map_reader.h"

namespace sluice::envoy {
namespace {

using policy::in_ticks;
using Kind = GoValue::Kind;

constexpr std::string_view of_file[] = {"domain", "descriptors"};
constexpr std::string_view of_descriptor[] = {
    "key",        "value",           "rate_limit",      "descriptors",     "shadow_mode",
    "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata"};
constexpr std::string_view of_rate_limit[] = {
    "unit",      "requests_per_unit", "unlimited", "name",     "replaces",
    "window",    "algorithm",         "burst",     "over",     "overdraft",
    "time_zone", "week_starts",       "month_day", "year_day", "starts_at"};
constexpr std::string_view of_replaces[] = {"name"};
constexpr std::string_view added[] = {"window",    "algorithm", "burst",       "over",
                                      "overdraft", "time_zone", "week_starts", "month_day",
                                      "year_day",  "starts_at"};

constexpr MapKind places[] = {MapKind::file, MapKind::descriptor, MapKind::rate_limit,
                              MapKind::replaces};

bool holds(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string_view> all_words() {
  std::vector<std::string_view> all;
  for (const MapKind place : places)
    for (const std::string_view word : words_of(place))
      if (!holds(all, word)) all.push_back(word);
  return all;
}

// The remedy for an unknown key: what its author may have meant.
std::string remedy_for(std::string_view key) {
  if (key == "unit_multiplier") return "write `window: 5m` in place of the unit";
  if (key == "calendar")
    return "write `window: month` in place of the unit; a unit of month has 30 days, one of year "
           "365";
  return policy::known_words(key, all_words());
}

class WordCheck {
 public:
  WordCheck(size_t nodes, policy::YamlReader& told) : told_(told), checked_(nodes) {}

  void check_map(YamlNode map, size_t depth) {
    if (told_.is_over()) return;
    if (depth > policy::yaml_depth_max)
      return told_.error(
          "", map,
          "is nested deeper than " + std::to_string(policy::yaml_depth_max) + " lists and maps",
          "name fewer levels by alias");
    for (YamlNode key = map.first_child(), value; key; key = value.next()) {
      value = key.next();
      if (is_merged(key, value, depth)) continue;
      if (!check_key(key)) continue;
      if (key.text() != "metadata" && is_first(value)) check_value(key.text(), value, depth + 1);
    }
  }

 private:
  bool is_first(YamlNode node) {
    if (node.is_null()) return false;
    const bool first = !checked_[node.id()];
    checked_[node.id()] = true;
    return first;
  }

  // Merged maps are checked here, unless they were checked before at another place.
  bool is_merged(YamlNode key, YamlNode value, size_t depth) {
    if (!key.is_scalar() || !key.is_plain() || key.text() != "<<") return false;
    if (value.is_map() && is_first(value)) check_map(value, depth + 1);
    if (!value.is_list()) return true;
    for (YamlNode item = value.first_child(); item; item = item.next())
      if (item.is_map() && is_first(item)) check_map(item, depth + 1);
    return true;
  }

  bool check_key(YamlNode key) {
    const Kind kind = go_value(key).kind;
    if (!key.is_scalar() || kind != Kind::text) {
      const std::string_view what = kind == Kind::boolean ? "true or false"
                                    : kind == Kind::whole || kind == Kind::number
                                        ? "a number"
                                        : "something that is not a word";
      told_.error(key.is_scalar() ? key.text() : "", key,
                  "is not a key: YAML reads it as " + std::string(what), "take it out");
      return false;
    }
    static const std::vector<std::string_view> known = all_words();
    if (holds(known, key.text())) return true;
    told_.error(key.text(), key, "is not a key of Envoy's limits", remedy_for(key.text()));
    return false;
  }

  void check_value(std::string_view key, YamlNode value, size_t depth) {
    if (value.is_map()) return check_map(value, depth);
    if (!value.is_list()) return check_scalar(key, value);
    for (YamlNode item = value.first_child(); item; item = item.next()) {
      if (!item.is_map())
        told_.error(key, item, "must be a list of maps, and has " + shown(item) + " in it",
                    "write each item as a map: `- key: ...`, of replaces `- name: ...`");
      else if (is_first(item))
        check_map(item, depth + 1);
    }
  }

  void check_scalar(std::string_view key, YamlNode value) {
    const Kind kind = go_value(value).kind;
    if (kind == Kind::unreadable)
      told_.error(key, value, in_ticks(value.text()) + " is not what its tag says, or is binary",
                  "take the tag out");
    if (kind != Kind::number) return;
    const bool count = key == "requests_per_unit" || key == "burst";
    told_.error(
        key, value,
        in_ticks(value.text()) +
            " is a number with a fraction or an exponent, or is above 64 bits, as YAML reads it",
        count ? "write a whole number, 0 to 4294967295"
              : "put it in quotes: `\"" + policy::shortened(value.text(), 64) + "\"`");
  }

  policy::YamlReader& told_;
  std::vector<bool> checked_;
};

}  // namespace

std::string_view name_of(MapKind place) {
  switch (place) {
    case MapKind::file:
      return "the file";
    case MapKind::descriptor:
      return "a descriptor";
    case MapKind::rate_limit:
      return "a rate_limit";
    case MapKind::replaces:
      break;
  }
  return "an item of replaces";
}

std::span<const std::string_view> words_of(MapKind place) {
  switch (place) {
    case MapKind::file:
      return of_file;
    case MapKind::descriptor:
      return of_descriptor;
    case MapKind::rate_limit:
      return of_rate_limit;
    case MapKind::replaces:
      break;
  }
  return of_replaces;
}

bool is_added_word(std::string_view key) {
  return holds(added, key);
}

void check_words(YamlNode root, const policy::YamlDocument& document, policy::YamlReader& told) {
  WordCheck(document.size(), told).check_map(root, 1);
}

namespace {

// In nanoseconds. A unit whose name begins another unit's name comes after it.
constexpr std::array<std::pair<std::string_view, double>, 8> units = {{{"ns", 1.0},
                                                                       {"us", 1e3},
                                                                       {"\xC2\xB5s", 1e3},
                                                                       {"\xCE\xBCs", 1e3},
                                                                       {"ms", 1e6},
                                                                       {"s", 1e9},
                                                                       {"m", 60e9},
                                                                       {"h", 3600e9}}};

// Go's durations are nanoseconds in 63 bits.
constexpr double longest_ns = 9.2233720368547e18;

// Removes a number with its unit from the front of `text`. Nothing: `text` begins with something
// else.
std::optional<double> take_part(std::string_view& text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const bool begins_well = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');
  if (!begins_well || error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  for (const auto& [name, ns] : units) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    return number * ns;
  }
  return std::nullopt;
}

}  // namespace

std::optional<base::Duration> read_go_duration(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return base::Duration{};
  if (text.empty()) return std::nullopt;
  double ns = 0;
  while (!text.empty()) {
    const auto part = take_part(text);
    if (!part || (ns += *part) > longest_ns) return std::nullopt;
  }
  return base::Duration{static_cast<int64_t>(std::ceil(ns / 1e3))};
}

std::optional<int64_t> read_go_int(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  const bool prefixed = text.size() > 1 && text[0] == '0';
  if (prefixed) {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    text.remove_prefix(base != 8 || letter == 'o' ? 2 : 1);
  }
  // An underscore stands between two digits, or between the prefix and a digit.
  std::string digits;
  bool after_digit = prefixed;
  for (const char c : text) {
    if (c == '_' && !after_digit) return std::nullopt;
    after_digit = c != '_';
    if (after_digit) digits += c;
  }
  if (!after_digit || digits.starts_with('-')) return std::nullopt;
  if (negative) digits.insert(digits.begin(), '-');
  int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, number, base);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<double> read_go_float(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<bool> read_go_bool(std::string_view text) {
  for (const std::string_view word : {"1", "t", "T", "TRUE", "true", "True"})
    if (text == word) return true;
  for (const std::string_view word : {"0", "f", "F", "FALSE", "false", "False"})
    if (text == word) return false;
  return std::nullopt;
}

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
