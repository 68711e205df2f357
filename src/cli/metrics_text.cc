#include "cli/metrics_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

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
bool take_label(std::string_view& rest, MetricsText::Sample& sample) {
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

// Parses a line. Returns the sample's name; "": the line is not a sample.
std::string_view parse(std::string_view line, MetricsText::Sample& sample) {
  const size_t end = line.find_first_of("{ ");
  if (end == line.npos || line.front() == '#') return {};
  std::string_view rest = line.substr(end);
  if (rest.front() == '{') {
    rest.remove_prefix(1);
    while (!rest.starts_with('}'))
      if (!take_label(rest, sample)) return {};
    rest.remove_prefix(1);
  }
  if (!rest.starts_with(' ')) return {};
  rest.remove_prefix(1);
  const auto value = number_of(rest.substr(0, rest.find(' ')));  // a timestamp may follow
  if (!value) return {};
  sample.value = *value;
  return line.substr(0, end);
}

}  // namespace

MetricsText::MetricsText(std::string_view page) {
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size());
    const std::string_view line = page.substr(0, end);
    page.remove_prefix(std::min(end + 1, page.size()));
    Sample sample;
    const std::string_view name = line.empty() ? line : parse(line, sample);
    if (name.empty()) continue;
    auto at = all_.find(name);
    if (at == all_.end()) at = all_.emplace(std::string(name), std::vector<Sample>()).first;
    at->second.push_back(std::move(sample));
  }
}

const std::vector<MetricsText::Sample>& MetricsText::of(std::string_view name) const {
  static const std::vector<Sample> none;
  const auto at = all_.find(name);
  return at == all_.end() ? none : at->second;
}

double MetricsText::value(std::string_view name) const {
  const auto& samples = of(name);
  return samples.empty() ? 0 : samples.front().value;
}

double MetricsText::sum(std::string_view name, std::string_view label,
                        std::string_view value) const {
  double total = 0;
  for (const Sample& sample : of(name))
    if (sample.label(label) == value) total += sample.value;
  return total;
}

}  // namespace sluice::cli
