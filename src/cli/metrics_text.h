// The samples of a server's /metrics, a page in Prometheus' text format. Owns its texts; one
// thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::cli {

class MetricsText {
 public:
  struct Sample {
    std::map<std::string, std::string, std::less<>> labels;
    double value = 0;

    std::string_view label(std::string_view name) const {
      const auto at = labels.find(name);
      return at == labels.end() ? std::string_view() : std::string_view(at->second);
    }
  };

  // Lines that are not samples are skipped.
  explicit MetricsText(std::string_view page);

  // The samples of a metric, in their order; may be empty.
  const std::vector<Sample>& of(std::string_view name) const;
  bool has(std::string_view name) const { return !of(name).empty(); }
  // The value of the first sample; 0: there is none.
  double value(std::string_view name) const;
  // The sum of the samples with this value of a label.
  double sum(std::string_view name, std::string_view label, std::string_view value) const;

 private:
  std::map<std::string, std::vector<Sample>, std::less<>> all_;
};

}  // namespace sluice::cli
