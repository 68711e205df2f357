// Numbers for the paths under which limits are counted (`DOMAIN.KEY_VALUE...`, see limits.h), so
// that a decision finds its counters by an index. The list only grows, so counts outlive reloads.
// One for the server; any thread.
//
//   of files     Paths from the limits' files. Beyond of_files_max: `overflow`.
//   of requests  Paths with texts of requests (value_to_metric, detailed_metric, unknown domains,
//                limits that come with requests): a fixed number of paths with at most
//                bytes_max bytes each. A path past either bound gets no number; the caller counts
//                under a path of files with `other` in place of the request's texts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/hash.h"
#include "protocol/envoy/limits.h"

namespace sluice::envoy {

class MetricPaths {
 public:
  static constexpr std::string_view other = "__other__";
  static constexpr size_t of_files_max = 200'000, bytes_max = 1'000;
  static constexpr size_t of_requests_default = 10'000;
  // Exist from the start: for paths without room, and for unknown domains without room.
  static constexpr uint32_t overflow = 0, other_domain = 1;

  struct Hasher {
    size_t operator()(std::string_view path) const { return (*hash)(0, path); }
    const base::Hash* hash;
  };

  explicit MetricPaths(size_t of_requests_max);

  // `path` must be clean (clean_path).
  uint32_t intern_of_files(std::string_view path);
  // absent: the path is too long, or there is no room.
  uint32_t intern_of_requests(std::string_view path);

  // Is there no room for further paths of requests? Then there never will be.
  bool is_full() const { return full_.load(std::memory_order_relaxed); }
  size_t size() const;
  // The path of a number below size(); valid as long as this object.
  std::string_view at(uint32_t number) const;
  // Calls `visit(number, path)` for the paths from `first` on, `count` at most, under a lock.
  template <class Visit>
  void each(size_t first, size_t count, Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    for (size_t i = first; i < paths_.size() && i < first + count; ++i)
      visit(static_cast<uint32_t>(i), std::string_view(paths_[i]));
  }
  // The largest possible size().
  size_t capacity() const { return of_files_max + of_requests_max_; }
  // A hash with a secret key, so that no client can choose paths that collide in a table.
  Hasher hasher() const { return {&hash_}; }

 private:
  uint32_t add(std::string_view path);

  const size_t of_requests_max_;
  const base::Hash hash_;
  mutable std::mutex mutex_;
  std::deque<std::string> paths_;
  std::unordered_map<std::string_view, uint32_t, Hasher> numbers_;
  size_t of_files_ = 0, of_requests_ = 0;
  std::atomic<bool> full_{false};
};

// Replaces control characters, which could end a line of statsd, and bytes that are not UTF-8 by
// `_`.
void clean_path(std::string& path);

// Do all requests of a limit have the same path? by_key: they do if their keys are those of the
// nodes with patterns.
enum class PathKind : uint8_t { fixed, by_key, varies };
PathKind path_kind(const LimitSet& set, uint32_t limit);
// For a limit whose path_kind is by_key.
bool has_keys_of_patterns(const LimitSet& set, uint32_t limit, Entries entries);
// Appends the limit's path with MetricPaths::other in place of a request's texts.
void append_other_path(const LimitSet& set, uint32_t limit, std::string& to);

}  // namespace sluice::envoy
