#include "metrics/page.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/utf8.h"

namespace sluice::metrics {
namespace {

// Well-formed UTF-8, as the formats of metrics want it, of at most bytes_max bytes.
std::string shown(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [size, valid] = base::utf8::first_sequence(text);
    const std::string_view character = valid ? text.substr(0, size) : base::utf8::replacement;
    if (out.size() + character.size() > Names::bytes_max) return out += "...";
    out += character;
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

Names::Names(size_t max) : max_(std::min<size_t>(max, UINT16_MAX)) {
  names_.push_back({"(others)", "(others)"});
}

uint16_t Names::intern(std::string_view name, std::string_view label) {
  std::pair<std::string, std::string> key{shown(name), shown(label)};
  const std::lock_guard lock(mutex_);
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (names_.size() > max_) {
    ++refused_;
    return others;
  }
  const auto number = static_cast<uint16_t>(names_.size());
  names_.push_back({key.first, key.second});
  numbers_.emplace(std::move(key), number);
  return number;
}

const Name& Names::at(uint16_t number) const {
  const std::lock_guard lock(mutex_);
  return names_[number];
}

size_t Names::size() const {
  const std::lock_guard lock(mutex_);
  return names_.size();
}

uint64_t Names::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

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
