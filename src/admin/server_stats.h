// All that the server counts, worker by worker: hands out a WorkerStats to each, adds them up for a
// scrape, for a protocol's own page and for statsd, and keeps the names that rules are counted by.
// Owned by the server, outlives its workers; any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "admin/request_rates.h"
#include "engine/worker_stats.h"
#include "metrics/names.h"
#include "metrics/page.h"
#include "policy/rule_set.h"

namespace sluice::admin {

// In metrics and answers, by RequestOutcome and by Closed.
inline constexpr std::array<const char*, engine::request_outcome_count> request_outcome_names{
    "allowed", "denied", "unmatched", "error", "answered"};
inline constexpr std::array<const char*, engine::closed_count> closed_names{
    "request_timeout", "request_memory", "send_timeout", "send_memory", "idle_timeout"};

class ServerStats final : public metrics::Source {
 public:
  ServerStats() : names_(base::bounds::metric_rules_max) {}

  // From now on statistics keep that protocol's events for statsd.
  void keep_events(protocol::Protocol protocol, std::function<void()> wake) {
    events_of_ = protocol;
    wake_ = std::move(wake);
  }
  // For one worker; lives as long as this.
  engine::WorkerStats& add_worker();

  // What each rule of a set is counted by; the same text is the same number in every generation.
  std::shared_ptr<const std::vector<uint16_t>> name_rules(const policy::RuleSet& rules);

  void collect(metrics::Page& page) const override;
  // Decisions of a rule so far, in the order of RuleOutcome.
  std::array<uint64_t, engine::rule_outcome_count> said(protocol::Protocol protocol,
                                                        uint16_t rule) const;
  const std::string& name(uint16_t rule) const { return names_.at(rule).name; }
  const metrics::Names& names() const { return names_; }
  std::vector<const engine::WorkerStats*> worker_stats() const;
  // Why requests are refused: a worker holds nearly as much for them as it may. Empty: none does.
  std::string why_full() const;
  // Connections that the server closed, by Closed.
  std::array<uint64_t, engine::closed_count> closed() const;
  // Open connections.
  uint64_t connections(protocol::Protocol protocol) const;
  // Requests that were answered, whatever they wanted.
  ProtocolTotals requests() const;
  struct Traffic {
    uint64_t opened = 0;              // connections
    uint64_t received = 0, sent = 0;  // bytes
    uint64_t faults = 0;              // connections that broke the protocol
  };
  Traffic traffic(protocol::Protocol protocol) const;

 private:
  metrics::Names names_;
  std::atomic<uint64_t> order_{0};
  protocol::Protocol events_of_{};
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<engine::WorkerStats>> workers_;  // guarded by mutex_
};

}  // namespace sluice::admin
