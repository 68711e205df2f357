// The counters of the original's metrics: hits by the paths of limits, errors, requests and their
// durations. Each worker has cells of its own, to which it adds without a lock; the sender or the
// page adds them up. They exist only where they are configured (settings.h); sluice's own metrics
// are always counted, elsewhere.
//
// Each worker looks up a limit's path once for a set of limits; then a decision costs an index and
// some additions. A path with texts of the request (MetricPaths) is made each time, and looked up
// in a table of the worker. When the paths are known nothing is allocated.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "metrics/cells.h"
#include "protocol/envoy/limits.h"

namespace sluice::envoy {

// Numbers for the paths under which limits are counted (`DOMAIN.KEY_VALUE...`, see limits.h), so
// that a decision finds its counters by an index. The list only grows, so counts outlive reloads.
// One for the server; any thread.
//
//   of files     Paths from the limits' files. Beyond of_files_max: `overflow`.
//   of requests  Paths with texts of requests (value_to_metric, detailed_metric, unknown domains,
//                limits that come with requests): a fixed number of paths with at most
//                bytes_max bytes each. A path past either bound gets no number; the caller counts
//                under a path of files with `other` in place of the request's texts.

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

// Divides the hits of a charge among a limit's statsd counters: over the limit, near it, within it,
// or allowed by shadow_mode. Pure arithmetic.

struct HitCounts {
  uint64_t total_hits = 0, over_limit = 0, near_limit = 0, within_limit = 0,
           over_limit_with_local_cache = 0, shadow_mode = 0, total_negative_hits = 0;
  friend bool operator==(const HitCounts&, const HitCounts&) = default;
};

// The number of hits from which on the limit is near: limit * ratio, computed in 32 bits as in the
// original.
uint64_t near_threshold(uint32_t limit, float ratio);

// `hits` were added to a counter, which now has `count`; 0 hits for a peek and for a refund.
// `shadow`: the rule's. A count that has stopped at its largest value may be less than the hits.
HitCounts count_hits(uint64_t hits, uint64_t count, uint32_t limit, float near_ratio, bool shadow);
// For a request that was refused and not charged.
HitCounts count_refused(uint64_t hits, bool shadow);
// For a request that the local cache refused without a charge.
HitCounts count_hits_of_local_cache(uint64_t hits, bool shadow);

class LimitRules;

// The counters of a path; all except the last count hits.
enum class PathStat : uint8_t {
  total_hits,
  over_limit,
  near_limit,
  within_limit,
  over_limit_with_local_cache,
  shadow_mode,
  total_negative_hits,  // that were given back
  domain_not_found,     // counts descriptors
};
inline constexpr std::array<std::string_view, 8> path_stat_names = {"total_hits",
                                                                    "over_limit",
                                                                    "near_limit",
                                                                    "within_limit",
                                                                    "over_limit_with_local_cache",
                                                                    "shadow_mode",
                                                                    "total_negative_hits",
                                                                    "domain_not_found"};

// The counters of the service; they count messages.
enum class ServiceStat : uint8_t { redis_error, service_error, global_shadow_mode };
inline constexpr size_t service_stats = 3;

// The gRPC methods that are counted, by their names: the original's, then those of Kuadrant's
// service.
enum class Method : uint8_t { should_rate_limit, check, check_rate_limit, report, reserve, commit };
inline constexpr std::array<std::string_view, 6> method_names = {
    "ShouldRateLimit", "Check", "CheckRateLimit", "Report", "Reserve", "Commit"};

// The durations of requests in whole ms: exact up to a second, in tenths of a second above it; ten
// seconds for all above that.
struct ResponseTimes {
  static constexpr size_t exact = 1'000, places = exact + 91;
  static constexpr size_t place_of(uint64_t ms) {
    if (ms < exact) return ms;
    return ms < 10'000 ? exact + (ms - exact) / 100 : places - 1;
  }
  static constexpr uint64_t ms_at(size_t place) {
    return place < exact ? place : exact + (place - exact) * 100;
  }

  std::array<uint64_t, places> counts{};
};

// The counters of one worker.
class WorkerMetrics {
 public:
  // What was charged: a limit of the files; or if `limit` is absent, one that came with the
  // request.
  struct Charged {
    const LimitRules& rules;
    uint32_t limit;
    std::string_view domain;
    Entries entries;
  };

  // `paths` outlives this object.
  WorkerMetrics(MetricPaths& paths, float near_ratio);
  ~WorkerMetrics();
  WorkerMetrics(const WorkerMetrics&) = delete;
  WorkerMetrics& operator=(const WorkerMetrics&) = delete;

  // For the worker's thread.
  float near_ratio() const { return near_ratio_; }
  void count(const Charged& charged, const HitCounts& hits);
  void count_unknown_domain(std::string_view domain, uint64_t descriptors);
  void count(ServiceStat stat) { service_[static_cast<size_t>(stat)].add(); }
  void count(Method method) { methods_[static_cast<size_t>(method)].requests.add(); }
  void took(Method method, base::Duration time);

  // For any thread. `path`: a number of MetricPaths.
  uint64_t read(uint32_t path, PathStat stat) const;
  uint64_t read(ServiceStat stat) const { return service_[static_cast<size_t>(stat)].read(); }
  uint64_t requests(Method method) const {
    return methods_[static_cast<size_t>(method)].requests.read();
  }
  void add_to(Method method, ResponseTimes& times) const;

 private:
  // The cells of a path: a cache line.
  struct alignas(64) Cells {
    std::array<metrics::Cell, path_stat_names.size()> stats;
  };
  static constexpr size_t chunk_paths = 64;
  using Chunk = std::array<Cells, chunk_paths>;
  struct OfMethod {
    metrics::Cell requests;
    std::array<metrics::Cell, ResponseTimes::places> times;
  };
  // The state of a limit's path, in place of its number.
  static constexpr uint32_t unseen = UINT32_MAX, varies = UINT32_MAX - 1,
                            by_key = uint32_t{1} << 31;

  uint32_t path_of(const Charged& charged);
  void learn_limit(const Charged& charged, uint32_t& known);
  void make_path(const Charged& charged);
  uint32_t look_up(const Charged& charged);
  uint32_t find_path();
  void catch_up();
  Cells& cells_of(uint32_t path);

  MetricPaths& paths_;
  const float near_ratio_;
  std::vector<std::atomic<Chunk*>> chunks_;
  std::array<metrics::Cell, service_stats> service_;
  std::array<OfMethod, method_names.size()> methods_;
  // Of the newest set of limits, by the limits' numbers.
  uint64_t known_serial_ = 0;
  std::vector<uint32_t> known_limits_;
  // The paths with texts of requests.
  std::unordered_map<std::string_view, uint32_t, MetricPaths::Hasher> known_paths_;
  size_t caught_up_ = 0;  // when there is no room: how many of the server's paths it has
  std::string path_;
};

// The counters of all workers.
class LimitMetrics {
 public:
  struct Options {
    size_t paths_max = MetricPaths::of_requests_default;  // with texts of requests
    float near_ratio = 0.8F;
    std::vector<std::pair<std::string, std::string>> tags{};  // in statsd's names, in this order
    // The page has response times in ms, under a name that says seconds, as in the original.
    bool milliseconds = false;
  };

  explicit LimitMetrics(Options options)
      : options_(std::move(options)), paths_(options_.paths_max) {}

  // For one worker; valid as long as this object.
  WorkerMetrics& add_worker();

  // For any thread.
  const Options& options() const { return options_; }
  const MetricPaths& paths() const { return paths_; }
  std::vector<const WorkerMetrics*> workers() const;

 private:
  const Options options_;
  MetricPaths paths_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<WorkerMetrics>> workers_;
};

}  // namespace sluice::envoy
