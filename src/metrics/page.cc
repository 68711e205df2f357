#include "metrics/page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

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

namespace {

// 16 digits, as much as tells all but the closest values apart, and as other exporters write.
void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Inf" : "+Inf";
  } else {
    char text[32];
    out.append(text,
               std::to_chars(text, text + sizeof text, value, std::chars_format::general, 16).ptr);
  }
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\' || (c == '"' && quotes))
      (out += '\\') += c;
    else
      out += c;
  }
}

void append_sample(std::string& out, std::string_view family, std::string_view suffix,
                   const Labels& labels, double value, const std::string& bound = {}) {
  out.append(family).append(suffix);
  char before = '{';
  const auto add = [&](std::string_view name, std::string_view text) {
    ((out += before).append(name)) += "=\"";
    append_escaped(out, text, true);
    out += '"';
    before = ',';
  };
  for (const auto& [name, text] : labels) add(name, text);
  if (!bound.empty()) add("le", bound);
  if (before == ',') out += '}';
  out += ' ';
  append_number(out, value);
  out += '\n';
}

}  // namespace

std::string& Page::lines_of(std::string_view family, std::string_view help, std::string_view type) {
  if (const auto known = by_name_.find(family); known != by_name_.end()) return *known->second;
  std::string& out = texts_.emplace_back("# HELP ");
  by_name_.emplace(family, &out);
  out.append(family) += ' ';
  append_escaped(out, help, false);
  out.append("\n# TYPE ").append(family).append(" ").append(type) += '\n';
  return out;
}

void Page::counter(std::string_view family, std::string_view help, double value,
                   const Labels& labels) {
  append_sample(lines_of(family, help, "counter"), family, "", labels, value);
}

void Page::gauge(std::string_view family, std::string_view help, double value,
                 const Labels& labels) {
  append_sample(lines_of(family, help, "gauge"), family, "", labels, value);
}

void Page::histogram(std::string_view family, std::string_view help,
                     std::span<const uint64_t> bounds, std::span<const uint64_t> counts,
                     uint64_t sum, double per_unit, const Labels& labels) {
  std::string& out = lines_of(family, help, "histogram");
  uint64_t all = 0;
  for (const uint64_t count : counts) all += count;
  append_sample(out, family, "_count", labels, static_cast<double>(all));
  append_sample(out, family, "_sum", labels, static_cast<double>(sum) / per_unit);
  uint64_t so_far = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    so_far += counts[i];
    std::string bound;
    // A quotient is rounded once: 100 us are 0.0001 s, and not 9.999999999999999e-05.
    append_number(bound, i < bounds.size() ? static_cast<double>(bounds[i]) / per_unit
                                           : std::numeric_limits<double>::infinity());
    append_sample(out, family, "_bucket", labels, static_cast<double>(so_far), bound);
  }
}

std::string Page::text() const {
  std::string all;
  for (const std::string& text : texts_) all += text;
  return all;
}

void Sources::add(const Source& source) {
  const std::lock_guard lock(mutex_);
  all_.push_back(&source);
}

void Sources::remove(const Source& source) {
  const std::lock_guard lock(mutex_);
  std::erase(all_, &source);
}

void Sources::collect(Page& page) const {
  const std::lock_guard lock(mutex_);
  for (const Source* source : all_) source->collect(page);
}

std::string Sources::text() const {
  Page page;
  collect(page);
  return page.text();
}

}  // namespace sluice::metrics
