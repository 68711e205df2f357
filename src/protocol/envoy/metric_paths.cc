#include "protocol/envoy/metric_paths.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/utf8.h"

namespace sluice::envoy {
namespace {

// The nodes from the domain's child down to the limit's.
struct NodesDown {
  NodesDown(const LimitSet& set, uint32_t limit) {
    std::array<uint32_t, levels_max + 1> up;
    size_t height = 0;
    for (uint32_t at = set.limits()[limit].node; at != absent; at = set.nodes()[at].parent)
      up[height++] = at;
    domain = up[--height];
    while (height > 0) all[size++] = up[--height];
  }
  std::span<const uint32_t> nodes() const { return {all.data(), size}; }

  std::array<uint32_t, levels_max> all;
  size_t size = 0;
  uint32_t domain = absent;
};

}  // namespace

MetricPaths::MetricPaths(size_t of_requests_max)
    : of_requests_max_(of_requests_max), numbers_(16, hasher()) {
  add(std::string(other) + "." + std::string(other));
  add(other);
  full_ = of_requests_max == 0;
}

uint32_t MetricPaths::add(std::string_view path) {
  const auto number = static_cast<uint32_t>(paths_.size());
  numbers_.emplace(paths_.emplace_back(path), number);
  return number;
}

uint32_t MetricPaths::intern_of_files(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (const auto known = numbers_.find(path); known != numbers_.end()) return known->second;
  // The two paths that exist from the start count too.
  if (of_files_ + 2 >= of_files_max) return overflow;
  ++of_files_;
  return add(path);
}

uint32_t MetricPaths::intern_of_requests(std::string_view path) {
  if (path.size() > bytes_max) return absent;
  const std::lock_guard lock(mutex_);
  if (const auto known = numbers_.find(path); known != numbers_.end()) return known->second;
  if (of_requests_ == of_requests_max_) return absent;
  ++of_requests_;
  const uint32_t number = add(path);
  full_.store(of_requests_ == of_requests_max_, std::memory_order_relaxed);
  return number;
}

size_t MetricPaths::size() const {
  const std::lock_guard lock(mutex_);
  return paths_.size();
}

std::string_view MetricPaths::at(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return paths_[number];
}

void clean_path(std::string& path) {
  bool is_ascii = true;
  for (char& c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '_';
    is_ascii &= byte < 0x80;
  }
  if (is_ascii || base::utf8::is_valid(path)) return;
  for (size_t at = 0; at < path.size();) {
    const auto [size, valid] = base::utf8::first_sequence(std::string_view(path).substr(at));
    if (!valid) std::fill_n(path.begin() + static_cast<std::ptrdiff_t>(at), size, '_');
    at += size;
  }
}

PathKind path_kind(const LimitSet& set, uint32_t limit) {
  if (set.limits()[limit].detailed_metric) return PathKind::varies;
  bool has_patterns = false;
  const NodesDown down(set, limit);
  for (const uint32_t number : down.nodes()) {
    const Node& node = set.nodes()[number];
    // `KEY_` is the composite key of the key `KEY_`, and of `KEY` with an empty value.
    const bool is_ambiguous = node.composite.ends_with('_');
    const bool is_pattern_of_keys = node.key().find('*') != std::string_view::npos;
    if (node.value_to_metric || is_ambiguous || is_pattern_of_keys) return PathKind::varies;
    has_patterns |= node.is_pattern;
  }
  return has_patterns ? PathKind::by_key : PathKind::fixed;
}

bool has_keys_of_patterns(const LimitSet& set, uint32_t limit, Entries entries) {
  size_t place = entries.size();
  for (uint32_t at = set.limits()[limit].node; place-- > 0; at = set.nodes()[at].parent) {
    const Node& node = set.nodes()[at];
    if (node.is_pattern && node.key() != entries[place].key) return false;
  }
  return true;
}

void append_other_path(const LimitSet& set, uint32_t limit, std::string& to) {
  const NodesDown down(set, limit);
  append_sanitized(set.nodes()[down.domain].composite, to);
  for (const uint32_t number : down.nodes()) {
    const Node& node = set.nodes()[number];
    to += '.';
    const bool has_text = set.limits()[limit].detailed_metric || node.value_to_metric;
    if (has_text && !node.share_threshold) {
      append_sanitized(node.key(), to);
      (to += '_') += MetricPaths::other;
    } else {
      append_sanitized(node.composite, to);
    }
  }
}

}  // namespace sluice::envoy
