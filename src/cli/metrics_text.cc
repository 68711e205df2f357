#include "cli/metrics_text.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace sluice::cli {
namespace {

std::optional<double> number_of(std::string_view text) {
  if (text == "+Inf") return HUGE_VAL;
  if (text == "-Inf") return -HUGE_VAL;
  if (text == "NaN") return std::nan("");
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || at != end) return std::nullopt;
  return value;
}

// Removes `name="value"` from the front, and the comma after it.
bool take_label(std::string_view& rest, MetricSample& sample) {
  const size_t equals = rest.find("=\"");
  if (equals == rest.npos) return false;
  std::string value;
  size_t at = equals + 2;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    if (rest[at] == '\\' && at + 1 < rest.size()) {
      ++at;
      value += rest[at] == 'n' ? '\n' : rest[at];
    } else {
      value += rest[at];
    }
  }
  if (at == rest.size()) return false;
  sample.labels.emplace(std::string(rest.substr(0, equals)), std::move(value));
  rest.remove_prefix(at + 1);
  if (rest.starts_with(',')) rest.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<MetricSample> read_sample(std::string_view line) {
  const size_t end = line.find_first_of("{ ");
  if (end == line.npos || end == 0 || line.front() == '#') return std::nullopt;
  MetricSample sample{.name = std::string(line.substr(0, end))};
  std::string_view rest = line.substr(end);
  if (rest.front() == '{') {
    rest.remove_prefix(1);
    while (!rest.starts_with('}'))
      if (!take_label(rest, sample)) return std::nullopt;
    rest.remove_prefix(1);
  }
  if (!rest.starts_with(' ')) return std::nullopt;
  rest.remove_prefix(1);
  const auto value = number_of(rest.substr(0, rest.find(' ')));  // a timestamp may follow
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

}  // namespace sluice::cli
