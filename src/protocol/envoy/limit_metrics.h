// What Envoy's rate limit service counts as the original does: hits by the paths of limits, errors,
// requests and how long they took. Each worker has cells of its own, which it adds to without a
// lock; the sender or page adds them up. Made only where they are configured
// (settings.h): sluice's own metrics are counted elsewhere, always.
//
// A limit's path is looked up once for each worker and set of limits; from then on a decision costs
// an index and some additions. A path with texts of the request (metric_paths.h) is made and looked
// up in a table of the worker's each time. Once the paths are known nothing is allocated.
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

// What is counted of a path; all but the last are hits.
enum class PathStat : uint8_t {
  total_hits,
  over_limit,
  near_limit,
  within_limit,
  over_limit_with_local_cache,
  shadow_mode,
  domain_not_found,  // descriptors
};
inline constexpr std::array<std::string_view, 7> path_stat_names = {
    "total_hits",  "over_limit",      "near_limit", "within_limit", "over_limit_with_local_cache",
    "shadow_mode", "domain_not_found"};

// What is counted of the service, in messages.
enum class ServiceStat : uint8_t { redis_error, service_error, global_shadow_mode };
inline constexpr size_t service_stats = 3;

// Methods of gRPC that are counted, under the original's names.
enum class Method : uint8_t { should_rate_limit, check };
inline constexpr std::array<std::string_view, 2> method_names = {"ShouldRateLimit", "Check"};

// How long requests took, in whole ms: each by itself up to a second, above it by tenths of a
// second, and all above ten seconds as ten.
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
  // What has been charged: a limit of the files, or where `limit` is absent, one that came with the
  // request.
  struct Charged {
    const LimitRules& rules;
    uint32_t limit;
    std::string_view domain;
    Entries entries;
  };

  // `paths` outlives this.
  WorkerMetrics(MetricPaths& paths, float near_ratio);
  ~WorkerMetrics();
  WorkerMetrics(const WorkerMetrics&) = delete;
  WorkerMetrics& operator=(const WorkerMetrics&) = delete;

  // The worker's thread.
  float near_ratio() const { return near_ratio_; }
  void count(const Charged& charged, const HitCounts& hits);
  void count_unknown_domain(std::string_view domain, uint64_t descriptors);
  void count(ServiceStat stat) { service_[static_cast<size_t>(stat)].add(); }
  void count(Method method) { methods_[static_cast<size_t>(method)].requests.add(); }
  void took(Method method, base::Duration time);

  // Any thread. `path`: a number of MetricPaths.
  uint64_t read(uint32_t path, PathStat stat) const;
  uint64_t read(ServiceStat stat) const { return service_[static_cast<size_t>(stat)].read(); }
  uint64_t requests(Method method) const {
    return methods_[static_cast<size_t>(method)].requests.read();
  }
  void add_to(Method method, ResponseTimes& times) const;

 private:
  // Of one path: a cache line.
  struct alignas(64) Cells {
    std::array<metrics::Cell, path_stat_names.size()> stats;
  };
  static constexpr size_t chunk_paths = 64;
  using Chunk = std::array<Cells, chunk_paths>;
  struct OfMethod {
    metrics::Cell requests;
    std::array<metrics::Cell, ResponseTimes::places> times;
  };
  // What is known of a limit's path; else its number.
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
  // Of the newest set of limits that was met, by their numbers.
  uint64_t known_serial_ = 0;
  std::vector<uint32_t> known_limits_;
  // Of paths with texts of requests.
  std::unordered_map<std::string_view, uint32_t, MetricPaths::Hasher> known_paths_;
  size_t caught_up_ = 0;  // once there is no room: paths of the server's that are among them
  std::string path_;
};

// Those of all workers.
class LimitMetrics {
 public:
  struct Options {
    size_t paths_max = MetricPaths::of_requests_default;  // of requests
    float near_ratio = 0.8F;
    std::vector<std::pair<std::string, std::string>> tags{};  // of statsd's names, in their order
    // The page tells response times in ms, under the name that says seconds, as the original did.
    bool milliseconds = false;
  };

  explicit LimitMetrics(Options options)
      : options_(std::move(options)), paths_(options_.paths_max) {}

  // For one worker; lives as long as this.
  WorkerMetrics& add_worker();

  // Any thread.
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
