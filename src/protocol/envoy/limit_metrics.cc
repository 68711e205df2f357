#include "protocol/envoy/limit_metrics.h"

#include <algorithm>

#include "base/check.h"
#include "policy/match_steps.h"
#include "protocol/envoy/rules.h"

namespace sluice::envoy {
namespace {

// How many of the server's paths a worker learns at a time, when the bound of paths is reached.
constexpr size_t paths_at_once = 512;

// A longer buffer is freed before the next path.
constexpr size_t path_bytes_kept = 65'536;

}  // namespace

WorkerMetrics::WorkerMetrics(MetricPaths& paths, float near_ratio)
    : paths_(paths),
      near_ratio_(near_ratio),
      chunks_(paths.capacity() / chunk_paths + 1),
      known_paths_(16, paths.hasher()) {}

WorkerMetrics::~WorkerMetrics() {
  for (auto& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

WorkerMetrics::Cells& WorkerMetrics::cells_of(uint32_t path) {
  std::atomic<Chunk*>& place = chunks_[path / chunk_paths];
  Chunk* chunk = place.load(std::memory_order_relaxed);
  if (chunk == nullptr) [[unlikely]] {
    chunk = new Chunk;
    place.store(chunk, std::memory_order_release);
  }
  return (*chunk)[path % chunk_paths];
}

void WorkerMetrics::count(const Charged& charged, const HitCounts& hits) {
  Cells& cells = cells_of(path_of(charged));
  const auto add = [&](PathStat stat, uint64_t n) {
    if (n > 0) cells.stats[static_cast<size_t>(stat)].add(n);
  };
  add(PathStat::total_hits, hits.total_hits);
  add(PathStat::over_limit, hits.over_limit);
  add(PathStat::near_limit, hits.near_limit);
  add(PathStat::within_limit, hits.within_limit);
  add(PathStat::over_limit_with_local_cache, hits.over_limit_with_local_cache);
  add(PathStat::shadow_mode, hits.shadow_mode);
}

void WorkerMetrics::count_unknown_domain(std::string_view domain, uint64_t descriptors) {
  path_.clear();
  append_sanitized(domain, path_);
  clean_path(path_);
  const uint32_t found = find_path();
  cells_of(found == absent ? MetricPaths::other_domain : found)
      .stats[static_cast<size_t>(PathStat::domain_not_found)]
      .add(descriptors);
}

void WorkerMetrics::took(Method method, base::Duration time) {
  const uint64_t ms = time.us > 0 ? static_cast<uint64_t>(time.us) / 1'000 : 0;
  methods_[static_cast<size_t>(method)].times[ResponseTimes::place_of(ms)].add();
}

// known_limits_ is for the newest set of limits. Late replies of an earlier set look up each path.
uint32_t WorkerMetrics::path_of(const Charged& charged) {
  if (charged.limit == absent) return look_up(charged);
  const uint64_t serial = charged.rules.serial();
  if (serial != known_serial_) [[unlikely]] {
    if (serial < known_serial_) return look_up(charged);
    known_limits_.assign(charged.rules.set().limits().size(), unseen);
    known_serial_ = serial;
  }
  uint32_t& known = known_limits_[charged.limit];
  if (known == unseen) [[unlikely]]
    learn_limit(charged, known);
  if (known == varies) return look_up(charged);
  if ((known & by_key) == 0) [[likely]]
    return known;
  const bool is_its = has_keys_of_patterns(charged.rules.set(), charged.limit, charged.entries);
  return is_its ? known & ~by_key : look_up(charged);
}

void WorkerMetrics::learn_limit(const Charged& charged, uint32_t& known) {
  const LimitSet& set = charged.rules.set();
  const PathKind kind = path_kind(set, charged.limit);
  if (kind == PathKind::varies) {
    known = varies;
    return;
  }
  // The path is learned from another request, with the keys of the limit's patterns.
  if (kind == PathKind::by_key && !has_keys_of_patterns(set, charged.limit, charged.entries))
    return;
  make_path(charged);
  known = paths_.intern_of_files(path_) | (kind == PathKind::by_key ? by_key : 0);
}

void WorkerMetrics::make_path(const Charged& charged) {
  const LimitSet& set = charged.rules.set();
  const uint32_t domain = set.domain(charged.domain);
  if (path_.capacity() > path_bytes_kept) path_ = {};
  path_.clear();
  if (charged.limit == absent) {
    set.append_override_metric_path(domain, charged.entries, path_);
  } else {
    policy::MatchSteps steps(UINT64_MAX);  // the decision found the limit within its bound
    const Walk walk = set.find(domain, charged.entries, steps);
    SLUICE_CHECK(walk.limit == charged.limit);
    set.append_metric_path(domain, charged.entries, walk, path_);
  }
  clean_path(path_);
}

uint32_t WorkerMetrics::look_up(const Charged& charged) {
  make_path(charged);
  const uint32_t found = find_path();
  if (found != absent) return found;
  path_.clear();
  if (charged.limit == absent) {
    append_sanitized(charged.domain, path_);
    (path_ += '.') += MetricPaths::other;
  } else {
    append_other_path(charged.rules.set(), charged.limit, path_);
  }
  clean_path(path_);
  if (const auto known = known_paths_.find(path_); known != known_paths_.end())
    return known->second;
  const uint32_t number = paths_.intern_of_files(path_);
  if (number != MetricPaths::overflow) known_paths_.emplace(paths_.at(number), number);
  return number;
}

// Returns the number of path_; absent: the bound of paths is reached.
uint32_t WorkerMetrics::find_path() {
  if (const auto known = known_paths_.find(path_); known != known_paths_.end())
    return known->second;
  if (path_.size() > MetricPaths::bytes_max) return absent;
  if (paths_.is_full()) {
    // A client that always sends new texts must not make all workers wait for one lock.
    if (caught_up_ == SIZE_MAX) return absent;
    catch_up();
  }
  const uint32_t number = paths_.intern_of_requests(path_);
  if (number != absent) known_paths_.emplace(paths_.at(number), number);
  return number;
}

void WorkerMetrics::catch_up() {
  size_t learned = 0;
  paths_.each(caught_up_, paths_at_once, [&](uint32_t number, std::string_view path) {
    known_paths_.emplace(path, number);
    ++learned;
  });
  caught_up_ = learned < paths_at_once ? SIZE_MAX : caught_up_ + learned;
}

uint64_t WorkerMetrics::read(uint32_t path, PathStat stat) const {
  const Chunk* const chunk = chunks_[path / chunk_paths].load(std::memory_order_acquire);
  if (chunk == nullptr) return 0;
  return (*chunk)[path % chunk_paths].stats[static_cast<size_t>(stat)].read();
}

void WorkerMetrics::add_to(Method method, ResponseTimes& times) const {
  const auto& cells = methods_[static_cast<size_t>(method)].times;
  for (size_t i = 0; i < cells.size(); ++i) times.counts[i] += cells[i].read();
}

WorkerMetrics& LimitMetrics::add_worker() {
  const std::lock_guard lock(mutex_);
  return *workers_.emplace_back(std::make_unique<WorkerMetrics>(paths_, options_.near_ratio));
}

std::vector<const WorkerMetrics*> LimitMetrics::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<const WorkerMetrics*> all;
  for (const auto& worker : workers_) all.push_back(worker.get());
  return all;
}

}  // namespace sluice::envoy
