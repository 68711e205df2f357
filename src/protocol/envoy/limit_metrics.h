// The counters of the original's metrics: hits by the paths of limits, errors, requests and their
// durations. Each worker has cells of its own, to which it adds without a lock; the sender or the
// page adds them up. They exist only where they are configured (settings.h); sluice's own metrics
// are always counted, elsewhere.
//
// Each worker looks up a limit's path once for a set of limits; then a decision costs an index and
// some additions. A path with texts of the request (metric_paths.h) is made each time, and looked
// up in a table of the worker. When the paths are known nothing is allocated.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "metrics/cells.h"
#include "protocol/envoy/hit_counts.h"
#include "protocol/envoy/limits.h"
#include "protocol/envoy/metric_paths.h"

namespace sluice::envoy {

class LimitRules;

// The counters of a path; all except the last count hits.
enum class PathStat : uint8_t {
  total_hits,
  over_limit,
  near_limit,
  within_limit,
  over_limit_with_local_cache,
  shadow_mode,
  domain_not_found,  // counts descriptors
};
inline constexpr std::array<std::string_view, 7> path_stat_names = {
    "total_hits",  "over_limit",      "near_limit", "within_limit", "over_limit_with_local_cache",
    "shadow_mode", "domain_not_found"};

// The counters of the service; they count messages.
enum class ServiceStat : uint8_t { redis_error, service_error, global_shadow_mode };
inline constexpr size_t service_stats = 3;

// The gRPC methods that are counted, under the original's names.
enum class Method : uint8_t { should_rate_limit, check };
inline constexpr std::array<std::string_view, 2> method_names = {"ShouldRateLimit", "Check"};

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
