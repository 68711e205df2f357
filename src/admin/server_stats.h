// All that the server counts, worker by worker: hands out a WorkerStats to each, adds them up for a
// scrape, for a protocol's own page and for statsd, and keeps the names that rules are counted by.
// Owned by the server, outlives its workers; any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/http_server.h"
#include "base/bounds.h"
#include "engine/worker_stats.h"
#include "live/change_log.h"
#include "live/live_policy.h"
#include "metrics/page.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "store/catalog.h"

namespace sluice::admin {

// A port with one page of metrics, as protocols have one of their own. Any method; what is not at
// its path is not there. Made before the HTTP server and outlives it; used by its threads.

class MetricsPage final : public HttpHandler {
 public:
  // `text` makes the page, on either of the HTTP server's threads. `is_large`: may that take longer
  // than a few milliseconds now? Empty: never.
  MetricsPage(std::string path, std::string content_type, std::function<std::string()> text,
              std::function<bool()> is_large = {})
      : path_(std::move(path)),
        content_type_(std::move(content_type)),
        text_(std::move(text)),
        is_large_(std::move(is_large)) {
    if (!path_.starts_with('/')) path_ = "/" + path_;
  }

  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const override {
    if (request.body_bytes <= base::bounds::admin_small_body_bytes_max) return {};
    return problem(413, "the body of the request is too long");
  }
  bool is_slow(const wire::HttpRequest&) const override { return is_large_ && is_large_(); }
  wire::HttpResponse answer(const wire::HttpRequest& request) override {
    if (request.path != path_) return {404, {}, {}, {}};
    return {200, content_type_, text_(), {}};
  }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return {status, "text/plain; charset=utf-8", why + "\n", {}};
  }

 private:
  std::string path_, content_type_;
  std::function<std::string()> text_;
  std::function<bool()> is_large_;
};

// How many requests a second the server answered lately, by protocol and outcome: /v1/status.
// Totals are added once a second by one thread; any thread reads. A few samples, whatever happens.

// Requests that were answered since the start, by RequestOutcome.
using RequestTotals = std::array<uint64_t, engine::request_outcome_count>;
// By the protocols' numbers.
using ProtocolTotals = std::array<RequestTotals, protocol::protocols_max>;

class RequestRates {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds period{1};
  // Rates are of the last `window`, or longer if no totals were added for a while, or since the
  // start if that is less.
  static constexpr std::chrono::seconds window{10};

  // `start`: when nothing had been answered.
  explicit RequestRates(Clock::time_point start = Clock::now()) { samples_[0].at = start; }

  // Ignored if it is less than `period` after the last one.
  void add(const ProtocolTotals& totals, Clock::time_point at);

  struct Rates {
    double over_seconds = 0;
    // In the order of ProtocolTotals.
    std::array<std::array<double, engine::request_outcome_count>, protocol::protocols_max>
        per_second{};
  };
  // `totals`: of `at`. A total below that of a sample counts as one that did not change.
  Rates rates(const ProtocolTotals& totals, Clock::time_point at) const;

 private:
  struct Sample {
    Clock::time_point at{};
    ProtocolTotals totals{};
  };
  // One for each period of the window, and one that is older.
  static constexpr size_t samples_max = window / period + 1;

  mutable std::mutex mutex_;
  std::array<Sample, samples_max> samples_{};  // a ring; guarded, as are the next two
  size_t first_ = 0, count_ = 1;
};

// What the server knows of itself beside what its workers count: the store, the policy, the build.
// Owned by the server; any thread.

class ServerInfo final : public metrics::Source {
 public:
  // All of it outlives this; `history` may be null.
  ServerInfo(const live::Live& live, const live::ReloadHistory* history,
             const store::Catalog& store, std::string version);
  void collect(metrics::Page& page) const override;

 private:
  const live::Live& live_;
  const live::ReloadHistory* const history_;
  const store::Catalog& store_;
  const std::string version_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

// In metrics and answers, by RequestOutcome and by Closed.
inline constexpr std::array<const char*, engine::request_outcome_count> request_outcome_names{
    "allowed", "denied", "unmatched", "error", "answered"};
inline constexpr std::array<const char*, engine::closed_count> closed_names{
    "request_timeout", "request_memory", "send_timeout",
    "send_memory",     "idle_timeout",   "handshakes"};

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
