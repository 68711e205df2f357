// Numbers for the paths that limits are counted by, so that a decision finds its counters by an
// index: `DOMAIN.KEY_VALUE...` as limits.h makes them. The list only grows; counts outlive reloads.
// Server-wide; any thread.
//
//   of files     Paths that the limits' files give. Past of_files_max: `overflow`.
//   of requests  Paths with texts of requests (value_to_metric, detailed_metric, limits that come
//                with requests, unknown domains): as many as the server is configured for, of
//                bytes_max each. Past either there is none, and the caller counts under a path of
//                files with `other` in place of the request's texts.
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
  static constexpr size_t of_requests_default = 10'000, of_requests_most = 1'000'000;
  // There from the start: what finds no room, and an unknown domain that finds none.
  static constexpr uint32_t overflow = 0, other_domain = 1;

  struct Hasher {
    size_t operator()(std::string_view path) const { return (*hash)(0, path); }
    const base::Hash* hash;
  };

  explicit MetricPaths(size_t of_requests_max);

  // `path` as clean_path leaves one.
  uint32_t intern_of_files(std::string_view path);
  // absent: it is too long, or there is no room.
  uint32_t intern_of_requests(std::string_view path);

  // Is there no room for a path of requests any more? It stays so.
  bool is_full() const { return full_.load(std::memory_order_relaxed); }
  size_t size() const;
  // Lives as long as this; `number` is below size().
  std::string_view at(uint32_t number) const;
  // Calls `visit(number, path)` for the paths from `first` on, `count` at most, under a lock.
  template <class Visit>
  void each(size_t first, size_t count, Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    for (size_t i = first; i < paths_.size() && i < first + count; ++i)
      visit(static_cast<uint32_t>(i), std::string_view(paths_[i]));
  }
  // The most that size() may come to.
  size_t capacity() const { return of_files_max + of_requests_max_; }
  // Secret, so that no client can choose paths that meet in one place of a table.
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

// Control characters, which would end a line of statsd, and what is not UTF-8 become `_`.
void clean_path(std::string& path);

// Does every request that meets the limit have the same path? `by_key`: it has if its keys are
// those of the nodes that are patterns.
enum class PathKind : uint8_t { fixed, by_key, varies };
PathKind path_kind(const LimitSet& set, uint32_t limit);
// Where path_kind is by_key.
bool has_keys_of_patterns(const LimitSet& set, uint32_t limit, Entries entries);
// Appends the limit's path with MetricPaths::other in place of a request's texts.
void append_other_path(const LimitSet& set, uint32_t limit, std::string& to);

}  // namespace sluice::envoy
