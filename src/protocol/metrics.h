// What a protocol is counted by beside sluice's own families, where users of the server that it
// stands in for know such figures: latencies in ms, errors by a code, a page, lines for statsd. The
// engine counts (engine/worker_stats.h), or the protocol's sessions do; the protocol's folder
// writes the page and the lines. Constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "metrics/statsd.h"
#include "protocol/protocol.h"

namespace sluice::admin {
class ServerStats;
class HttpHandler;
}  // namespace sluice::admin

namespace sluice::protocol {

// How often a policy was read since the start, the first time included.
struct PolicyLoads {
  uint64_t good = 0, refused = 0;
};

// What a page or lines are made from; all of it outlives them, but for the rules at the start.
struct MetricsDeps {
  const admin::ServerStats& server_stats;
  Protocol protocol;
  const request::SessionOptions* options;     // of its sessions; null: the defaults
  std::function<PolicyLoads()> policy_loads;  // any thread
  const policy::RuleSet& rules_at_start;
};

struct Metrics {
  static constexpr size_t latency_bounds_max = 8, error_codes_max = 8;

  // Does the engine count for it, by the next four? Else it does that itself, in its sessions.
  bool is_counted_by_engine = true;
  // Upper bounds of the buckets of its latencies in ms, rising; at most latency_bounds_max.
  std::span<const uint64_t> latency_bounds_ms;
  // By which errors are counted; at most error_codes_max.
  std::span<const std::string_view> error_codes;
  size_t other_error = 0;   // of a breach of the protocol whose code is not among them
  size_t failed_error = 0;  // of a request that could not be decided

  // What a listener that serves its page is called.
  std::string_view page_name;
  // The page, at `path`.
  std::unique_ptr<admin::HttpHandler> (*make_page)(const MetricsDeps& deps, std::string path);
  // Lines for statsd, each behind `prefix`.
  metrics::StatsdSender::Feed (*make_statsd_feed)(const MetricsDeps& deps, std::string prefix);
};

}  // namespace sluice::protocol
