// One sample of a page in Prometheus' text format, as a server's /metrics has them. Pure; any
// thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels = {};
  double value = 0;
};

// The sample that a line without its line feed holds; nothing: a comment, or not a sample.
std::optional<MetricSample> read_sample(std::string_view line);

}  // namespace sluice::cli
