// A protocol's own metrics beside sluice's, for users of the server that it replaces: latencies in
// ms, errors by code, a page, lines for statsd. The engine counts them (engine/worker_stats.h), or
// the protocol's sessions do; the protocol's folder writes the page and the lines. Constant.
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

// How often a policy was read since the start, including the first time.
struct PolicyLoads {
  uint64_t good = 0, refused = 0;
};

// The sources of a page or of lines. All of them outlive it, except the rules at the start.
struct MetricsDeps {
  const admin::ServerStats& server_stats;
  Protocol protocol;
  const request::SessionOptions* options;     // of the protocol's sessions; null: the defaults
  std::function<PolicyLoads()> policy_loads;  // any thread
  const policy::RuleSet& rules_at_start;
};

struct Metrics {
  static constexpr size_t latency_bounds_max = 8, error_codes_max = 8;

  // Does the engine count, by the next four members? If not, the protocol's sessions do.
  bool is_counted_by_engine = true;
  // The upper bounds of the buckets of latencies in ms, ascending; at most latency_bounds_max.
  std::span<const uint64_t> latency_bounds_ms;
  // The codes by which errors are counted; at most error_codes_max.
  std::span<const std::string_view> error_codes;
  size_t other_error = 0;   // index of the code for a breach of the protocol with an unknown code
  size_t failed_error = 0;  // index of the code for a request that could not be decided

  // The name of a listener that serves the page.
  std::string_view page_name;
  // Makes the page, which is served at `path`.
  std::unique_ptr<admin::HttpHandler> (*make_page)(const MetricsDeps& deps, std::string path);
  // Makes the lines for statsd, each with `prefix` before it.
  metrics::StatsdSender::Feed (*make_statsd_feed)(const MetricsDeps& deps, std::string prefix);
};

}  // namespace sluice::protocol
