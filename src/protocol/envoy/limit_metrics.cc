#include "protocol/envoy/limit_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/utf8.h"
#include "policy/match_steps.h"
#include "protocol/envoy/rules.h"

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

uint64_t near_threshold(uint32_t limit, float ratio) {
  const float threshold = std::floor(static_cast<float>(limit) * ratio);
  constexpr float threshold_max = 1e18F;
  return static_cast<uint64_t>(std::clamp(threshold, 0.0F, threshold_max));
}

HitCounts count_hits(uint64_t hits, uint64_t count, uint32_t limit, float near_ratio, bool shadow) {
  HitCounts counts;
  counts.total_hits = hits;
  const uint64_t before = count - std::min(hits, count);
  const uint64_t near = near_threshold(limit, near_ratio);
  if (count <= limit) {
    counts.within_limit = hits;
    if (count > near) counts.near_limit = before >= near ? hits : count - near;
    return counts;
  }
  if (before >= limit) {
    counts.over_limit = hits;
  } else {
    counts.over_limit = count - limit;
    counts.near_limit = limit - std::min<uint64_t>(limit, std::max(near, before));
  }
  if (shadow) counts.shadow_mode = counts.over_limit;
  return counts;
}

HitCounts count_refused(uint64_t hits, bool shadow) {
  HitCounts counts;
  counts.total_hits = counts.over_limit = hits;
  if (shadow) counts.shadow_mode = hits;
  return counts;
}

HitCounts count_hits_of_local_cache(uint64_t hits, bool shadow) {
  HitCounts counts = count_refused(hits, shadow);
  counts.over_limit_with_local_cache = hits;
  return counts;
}

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
    if (n > 0) cells.stats[static_cast<size_t>(stat)].add_bounded(n);
  };
  add(PathStat::total_hits, hits.total_hits);
  add(PathStat::over_limit, hits.over_limit);
  add(PathStat::near_limit, hits.near_limit);
  add(PathStat::within_limit, hits.within_limit);
  add(PathStat::over_limit_with_local_cache, hits.over_limit_with_local_cache);
  add(PathStat::shadow_mode, hits.shadow_mode);
  add(PathStat::total_negative_hits, hits.total_negative_hits);
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
