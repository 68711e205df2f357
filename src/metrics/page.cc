#include "metrics/page.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <unordered_map>

namespace sluice::metrics {

struct Page::Families {
  std::vector<prometheus::MetricFamily> all;
  std::unordered_map<std::string, size_t> places;

  prometheus::ClientMetric& add(std::string_view name, std::string_view help,
                                prometheus::MetricType type, Labels&& labels) {
    const auto [place, fresh] = places.try_emplace(std::string(name), all.size());
    if (fresh) {
      prometheus::MetricFamily& family = all.emplace_back();
      family.name = name;
      family.help = help;
      family.type = type;
    }
    auto& sample = all[place->second].metric.emplace_back();
    for (auto& [key, value] : labels) sample.label.push_back({std::move(key), std::move(value)});
    return sample;
  }
};

Page::Page() : families_(std::make_unique<Families>()) {}

Page::~Page() = default;

void Page::counter(std::string_view family, std::string_view help, double value, Labels labels) {
  auto& sample = families_->add(family, help, prometheus::MetricType::Counter, std::move(labels));
  sample.counter.value = value;
}

void Page::gauge(std::string_view family, std::string_view help, double value, Labels labels) {
  auto& sample = families_->add(family, help, prometheus::MetricType::Gauge, std::move(labels));
  sample.gauge.value = value;
}

void Page::histogram(std::string_view family, std::string_view help,
                     std::span<const uint64_t> bounds, std::span<const uint64_t> counts,
                     uint64_t sum, double per_unit, Labels labels) {
  auto& histogram =
      families_->add(family, help, prometheus::MetricType::Histogram, std::move(labels)).histogram;
  uint64_t all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    // A quotient is rounded once: 100 us are 0.0001 s, and not 9.999999999999999e-05.
    const double bound = i < bounds.size() ? static_cast<double>(bounds[i]) / per_unit
                                           : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({all, bound});
  }
  histogram.sample_count = all;
  histogram.sample_sum = static_cast<double>(sum) / per_unit;
}

std::string Page::text() const {
  return prometheus::TextSerializer().Serialize(families_->all);
}

void Sources::add(const Source& source) {
  const std::lock_guard lock(mutex_);
  all_.push_back(&source);
}

void Sources::remove(const Source& source) {
  const std::lock_guard lock(mutex_);
  std::erase(all_, &source);
}

std::string Sources::text() const {
  Page page;
  const std::lock_guard lock(mutex_);
  for (const Source* source : all_) source->collect(page);
  return page.text();
}

}  // namespace sluice::metrics
