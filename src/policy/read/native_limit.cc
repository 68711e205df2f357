#include "policy/read/native_limit.h"

#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/bounds.h"
#include "base/units.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

using limit::Algorithm;

constexpr std::array<std::string_view, 6> algorithms = {"token_bucket",   "fixed_window",
                                                        "aligned_window", "sliding_window",
                                                        "sliding_log",    "fixed_bucket"};

std::optional<Algorithm> algorithm_named(std::string_view name) {
  for (const Algorithm a :
       {Algorithm::token_bucket, Algorithm::fixed_window, Algorithm::aligned_window,
        Algorithm::sliding_window, Algorithm::sliding_log, Algorithm::fixed_bucket})
    if (name_of(a) == name) return a;
  return std::nullopt;
}

// A number from 1 to quota_max; empty: it is not one, which is reported.
std::optional<int64_t> units(std::string_view key, YamlNode node, YamlReader& reader) {
  static const std::string range = "1 to " + std::to_string(base::bounds::quota_max);
  if (!reader.has_text(key, node)) return std::nullopt;
  const auto n = base::parse_count(node.text());
  if (!n) {
    reader.error(key, node, in_ticks(node.text()) + " is not a whole number of units",
                 "write " + range + ", as in 100, 10_000, 5k or 2M");
  } else if (*n == 0) {
    reader.error(key, node, "0 units would refuse everything",
                 "write 1 or more, or `deny: true` in place of the limit");
  } else if (*n > uint64_t{base::bounds::quota_max}) {
    reader.error(key, node, in_ticks(node.text()) + " is more than units are counted to",
                 "write " + range + ", or `unlimited: true` in place of the limit");
  } else {
    return static_cast<int64_t>(*n);
  }
  return std::nullopt;
}

std::optional<base::Duration> window_of(YamlNode node, YamlReader& reader) {
  constexpr std::string_view key = "window";
  if (!reader.has_text(key, node)) return std::nullopt;
  const std::string text(node.text());
  const auto length = base::parse_duration(text);
  const bool is_count = !length && base::parse_count(text).has_value();
  if (is_count && (text.back() < '0' || text.back() > '9')) {
    const std::string number = text.substr(0, text.size() - 1);
    reader.error(
        key, node,
        in_ticks(text.substr(number.size())) + " in " + in_ticks(text) + " is not a unit of time",
        text.back() == 'M' ? "write " + in_ticks(number + "m") +
                                 " if minutes are meant, 30d for a month; units are us, "
                                 "ms, s, m, h, d"
                           : "units are us, ms, s, m, h, d");
  } else if (is_count) {
    reader.error(
        key, node, in_ticks(text) + " has no unit",
        "write " + in_ticks(text + "s") + " if seconds are meant; units are us, ms, s, m, h, d");
  } else if (!length) {
    reader.error(key, node, in_ticks(text) + " is not a length of time",
                 "write a whole number and us, ms, s, m, h or d, as in `250ms` or `1h`");
  } else if (length->us == 0) {
    reader.error(key, node, "must be longer than 0", "write `1us` or more");
  } else if (length->us > base::bounds::window_us_max) {
    reader.error(key, node, in_ticks(text) + " is beyond 36600d (100 years), the longest window",
                 "shorten it");
  } else {
    return length;
  }
  return std::nullopt;
}

}  // namespace

limit::Limit read_limit(YamlNode node, YamlReader& reader, bool* counts) {
  static constexpr std::array<std::string_view, 5> keys = {"quota", "window", "burst", "algorithm",
                                                           "over"};
  const auto known = std::span(keys).first(counts != nullptr ? keys.size() : keys.size() - 1);
  limit::Limit limit{.algorithm = Algorithm::token_bucket};
  YamlNode quota, window, burst, algorithm, over;
  for (const auto& [key, value] : reader.entries("limit", node, known)) {
    const std::string_view name = key.text();
    (name == "quota"    ? quota
     : name == "window" ? window
     : name == "burst"  ? burst
     : name == "over"   ? over
                        : algorithm) = value;
  }
  if (!node.is_map()) return limit;  // was reported above
  if (over && reader.has_text("over", over)) {
    static constexpr std::array<std::string_view, 2> words = {"refuse", "count"};
    const std::string_view word = over.text();
    if (word == "count")
      *counts = true;
    else if (word != "refuse")
      reader.error("over", over, in_ticks(word) + " is not a way to go on past the limit",
                   known_words(word, words));
  }

  if (algorithm && reader.has_text("algorithm", algorithm)) {
    const std::string_view name = algorithm.text();
    if (const auto named = algorithm_named(name))
      limit.algorithm = *named;
    else if (name.starts_with("gcra"))  // in the spelling of the commands as well
      reader.error("algorithm", algorithm, in_ticks(name) + " is not an algorithm of policies",
                   "write `token_bucket`, which makes the same promise in exact arithmetic");
    else
      reader.error("algorithm", algorithm, in_ticks(name) + " is not an algorithm",
                   known_words(name, algorithms));
  }
  if (!quota)
    reader.error("limit", node, "has no quota", "add `quota: N`, the units that a window allows");
  else if (const auto n = units("quota", quota, reader))
    limit.quota = *n;
  if (limit.algorithm == Algorithm::fixed_bucket) {
    if (window)
      reader.error(
          "window", window,
          "has no effect on a fixed_bucket: its units come back only by being put back",
          "take it out, or write `algorithm: token_bucket` to have them come back in time");
  } else if (!window)
    reader.error("limit", node, "has no window",
                 "add `window: 1s`, the length of time that the quota is for");
  else if (const auto length = window_of(window, reader))
    limit.window = *length;
  if (burst) {
    const auto n = units("burst", burst, reader);
    if (limit.algorithm != Algorithm::token_bucket)
      reader.error("burst", burst,
                   "is a token bucket's, and this is a " + std::string(name_of(limit.algorithm)),
                   "take it out, or write `algorithm: token_bucket`");
    else if (n)
      limit.burst = *n;
  } else if (limit.algorithm == Algorithm::token_bucket ||
             limit.algorithm == Algorithm::fixed_bucket) {
    limit.burst = limit.quota;
  }
  return limit;
}

}  // namespace sluice::policy
