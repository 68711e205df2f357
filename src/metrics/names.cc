#include "metrics/names.h"

#include <algorithm>

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

}  // namespace sluice::metrics
