// What one worker counts. Each worker has a cell of its own for everything, so that counting is a
// plain addition. A batch is timed unless another one was timed in the last millisecond; a batch
// that is not timed counts with the time of the last one that was, so that a busy worker reads no
// clock for this. Written by the worker's thread, read by the thread that collects; owned by
// ServerStats.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "limit/limit.h"
#include "live/live_policy.h"
#include "metrics/cells.h"
#include "metrics/top.h"
#include "policy/rule_set.h"
#include "protocol/metrics.h"
#include "protocol/protocol.h"
#include "request/charge.h"
#include "request/peer.h"
#include "request/session.h"

namespace sluice::engine {

// The outcome of one rule. The lowest bit says whether it denied, the next one whether it is a
// shadow rule.
enum class RuleOutcome : uint8_t { allowed, denied, shadow_allowed, shadow_denied, failed };
inline constexpr size_t rule_outcome_count = 5;
// The outcome of a request. answered: a request that decides nothing (a ping, a list).
enum class RequestOutcome : uint8_t { allowed, denied, unmatched, failed, answered };
inline constexpr size_t request_outcome_count = 5;
// Why the server closed a client's connection.
enum class Closed : uint8_t {
  request_timeout,
  request_memory,
  send_timeout,
  send_memory,
  idle_timeout,
  handshakes,  // of TLS: the oldest one of too many
};
inline constexpr size_t closed_count = 6;

// Bounds of the latency histogram, in ns.
inline constexpr std::array<uint64_t, 18> latency_bounds_ns{
    1'000,      2'000,      5'000,      10'000,      20'000,      50'000,
    100'000,    200'000,    500'000,    1'000'000,   2'000'000,   5'000'000,
    10'000'000, 20'000'000, 50'000'000, 100'000'000, 500'000'000, 1'000'000'000};
inline constexpr std::array<uint64_t, 12> wait_bounds_us{
    1'000,     10'000,    50'000,     100'000,    250'000,     500'000,
    1'000'000, 2'500'000, 10'000'000, 60'000'000, 600'000'000, 3'600'000'000};
inline constexpr std::array<uint64_t, 13> commit_wait_bounds_us{
    100,    200,    500,     1'000,   2'000,   5'000,    10'000,
    20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000};

class WorkerStats {
 public:
  // An event for statsd. took: `value` is in ms. connections: `value` is the change.
  struct Event {
    enum class Kind : uint8_t { said, took, connections, error };
    Kind kind = Kind::said;
    uint8_t what = 0;   // RuleOutcome, or the place of an error's code
    uint16_t rule = 0;  // its name's number
    int32_t value = 0;
  };
  static constexpr size_t events_max = 1 << 15;

  // `order` numbers first occurrences, over all workers. `wake` is called, on any thread, when the
  // events of the protocol `events_of` should be drained; without it no events are recorded.
  WorkerStats(std::atomic<uint64_t>& order, std::function<void()> wake,
              protocol::Protocol events_of = {});
  ~WorkerStats();

  // These are called on the owner's thread: `begin` and `end` around a batch, and between them one
  // call for each request that is settled. `since`: when the batch arrived, if it waited for its
  // store.
  void begin(protocol::Protocol protocol, base::Time now, base::Time since);
  void decided(protocol::Protocol protocol, const live::LivePolicy& policy,
               const policy::Plan& plan, const policy::Plan::RequestPlan& part, request::Verb verb);
  void answered(protocol::Protocol protocol, request::Verb verb, const request::Verdict& verdict);
  void end();
  // A request whose reply came later; `rules` are the names of those that decided it.
  void late(protocol::Protocol protocol, request::Verb verb, const request::Verdict& verdict,
            const std::vector<uint16_t>& rules, base::Duration waited);
  static uint16_t name_of(const live::LivePolicy& policy, const policy::Rule& rule) {
    return policy.names == nullptr ? uint16_t{0} : (*policy.names)[rule.number];
  }

  void connected(protocol::Protocol protocol);
  void disconnected(protocol::Protocol protocol);
  void received(protocol::Protocol protocol, size_t bytes) { of(protocol).received.add(bytes); }
  void sent(protocol::Protocol protocol, size_t bytes) { of(protocol).sent.add(bytes); }
  // Replies that had waited for their commit since `since` were sent at `until`.
  void held_back(base::Time until, base::Time since) {
    commit_waits_.observe(until.us > since.us ? static_cast<uint64_t>(until.us - since.us) : 0);
  }
  void closed(protocol::Protocol protocol, Closed why) {
    of(protocol).closed_for[static_cast<size_t>(why)].add();
  }
  // Requests alone were ended for that reason, and their connection stays.
  void ended(protocol::Protocol protocol, Closed why, size_t requests) {
    of(protocol).ended_for[static_cast<size_t>(why)].add(requests);
  }
  // What its sessions hold together now.
  void holds(protocol::Protocol protocol, request::WorkerState::Held held) {
    of(protocol).held.set(held.bytes);
    of(protocol).held_max.set(held.most);
  }
  // The peer broke the protocol; `code` as in request::Session::fault.
  void fault(protocol::Protocol protocol, std::string_view code);

  // Any thread.
  struct OfProtocol {
    std::array<std::array<metrics::Cell, request_outcome_count>, request::verb_count> requests;
    metrics::Histogram<latency_bounds_ns.size()> latency{latency_bounds_ns};
    metrics::Histogram<wait_bounds_us.size()> waits{wait_bounds_us};
    metrics::Cell opened, closed, received, sent, faults, held, held_max;
    std::array<metrics::Cell, closed_count> closed_for, ended_for;
  };
  const OfProtocol& at(protocol::Protocol protocol) const {
    return all_[static_cast<size_t>(protocol)];
  }
  uint64_t said(protocol::Protocol protocol, uint16_t rule, RuleOutcome said) const;
  // The order number of the rule's first such outcome; 0: never.
  uint64_t first_said(protocol::Protocol protocol, uint16_t rule, RuleOutcome said) const;
  // Of a protocol with metrics of its own that the engine counts (protocol/metrics.h), in the order
  // of their bounds and codes. What is above all bounds is in the bucket behind the last one.
  struct Own {
    using Latency = metrics::Histogram<protocol::Metrics::latency_bounds_max>;
    explicit Own(const protocol::Metrics& its_metrics);

    const protocol::Metrics& metrics;
    const std::array<uint64_t, protocol::Metrics::latency_bounds_max> bounds_ms;
    Latency latency_ms{bounds_ms};
    // How often each occurred, and the order number of its first time; 0: never.
    std::array<metrics::Cell, protocol::Metrics::error_codes_max> errors, first_errors;
  };
  // Null: it has none.
  const Own* own(protocol::Protocol protocol) const {
    return own_[static_cast<size_t>(protocol)].get();
  }
  const metrics::Histogram<commit_wait_bounds_us.size()>& commit_waits() const {
    return commit_waits_;
  }
  uint64_t events_lost() const { return events_ == nullptr ? 0 : events_->lost(); }
  // The one thread that sends to statsd; null: none does.
  metrics::Ring<Event>* events() const { return events_.get(); }

 private:
  static constexpr int64_t time_period_us = 1'000;
  static constexpr int32_t not_timed_yet = -1;
  static constexpr size_t chunk_rules = 64;
  static constexpr size_t chunks = (base::bounds::metric_rules_max + chunk_rules) / chunk_rules;
  struct Chunk {
    std::array<std::array<metrics::Cell, rule_outcome_count>, chunk_rules> said;
    std::array<std::array<metrics::Cell, rule_outcome_count>, chunk_rules> first;
  };
  struct Took {
    uint64_t ns = 0, ms = 0;
    size_t bucket = 0, ms_bucket = 0;
    bool known = false;
  };

  OfProtocol& of(protocol::Protocol protocol) { return all_[static_cast<size_t>(protocol)]; }
  void say(protocol::Protocol protocol, uint16_t rule, RuleOutcome said);
  Chunk& make_chunk(protocol::Protocol protocol, size_t index);
  void count_failed(protocol::Protocol protocol, request::Verb verb);
  void count_error(Own& own, size_t error);
  void tell(protocol::Protocol protocol, const Event& event);
  Took took_of(size_t protocol, uint64_t ns) const;
  void publish();
  void end_timed(Took& took);
  void publish_times(uint64_t ms);
  void say_first(metrics::Cell& first);

  std::atomic<uint64_t>& order_;
  const std::function<void()> wake_;
  std::array<OfProtocol, protocol::protocols_max> all_;
  std::array<std::array<std::atomic<Chunk*>, chunks>, protocol::protocols_max> said_{};
  std::array<std::unique_ptr<Own>, protocol::protocols_max> own_;
  metrics::Histogram<commit_wait_bounds_us.size()> commit_waits_{commit_wait_bounds_us};
  bool has_events_ = false;  // without events their cost is a look at this byte
  protocol::Protocol events_of_{};
  std::unique_ptr<metrics::Ring<Event>> events_;

  // The batch.
  protocol::Protocol protocol_{};
  bool timing_ = false;
  uint64_t waited_ns_ = 0;
  // Totals so far, and their values before this batch. Not resetting them keeps short batches
  // cheap.
  uint64_t replies_ = 0, failures_ = 0, replies_before_ = 0, failures_before_ = 0;
  std::chrono::steady_clock::time_point began_{};
  int64_t time_again_us_ = 0;
  std::array<Took, protocol::protocols_max> took_;
};

// Inline from here on: these run for each decision.
inline void WorkerStats::begin(protocol::Protocol protocol, base::Time now, base::Time since) {
  protocol_ = protocol;
  replies_before_ = replies_;
  failures_before_ = failures_;
  waited_ns_ = now.us > since.us ? static_cast<uint64_t>(now.us - since.us) * 1'000 : 0;
  timing_ = now.us >= time_again_us_ || !took_[static_cast<size_t>(protocol)].known;
  if (!timing_) [[likely]]
    return;
  began_ = std::chrono::steady_clock::now();
  time_again_us_ = now.us + time_period_us;
}

inline void WorkerStats::end() {
  const auto p = static_cast<size_t>(protocol_);
  const Took* took = &took_[p];
  Took another;
  if (timing_ || waited_ns_ > 0) [[unlikely]] {
    end_timed(another);
    took = &another;
  }
  const uint64_t replies = replies_ - replies_before_;
  if (replies > 0) all_[p].latency.observe(took->ns, took->bucket, replies);
  Own* const own = own_[p].get();
  if (own == nullptr) return;
  const uint64_t good = replies - (failures_ - failures_before_);
  if (good > 0) own->latency_ms.observe(took->ms, took->ms_bucket, good);
  if (has_events_ && protocol_ == events_of_) publish_times(took->ms);
}

inline void WorkerStats::say(protocol::Protocol protocol, uint16_t rule, RuleOutcome said) {
  const size_t index = rule / chunk_rules, place = rule % chunk_rules;
  Chunk* chunk = said_[static_cast<size_t>(protocol)][index].load(std::memory_order_relaxed);
  if (chunk == nullptr) [[unlikely]]
    chunk = &make_chunk(protocol, index);
  metrics::Cell& cell = chunk->said[place][static_cast<size_t>(said)];
  if (cell.read() == 0) [[unlikely]]
    say_first(chunk->first[place][static_cast<size_t>(said)]);
  cell.add();
  if (has_events_ && protocol == events_of_ && said != RuleOutcome::failed)
    events_->put({Event::Kind::said, static_cast<uint8_t>(said), rule, 0});
}

// Did the rule of that step allow it? Each of several rules that settle together has its own
// answer.
inline bool has_allowed(const policy::Plan& plan, const policy::Plan::RuleMatch& step) {
  const request::Group& group = plan.group(step);
  // What shows a part of a joined charge lies behind the group.
  if (group.allowed || (group.charge_count == 1 && step.charge == group.charge_first)) [[likely]]
    return group.allowed;
  const auto decisions = plan.decisions(step);
  return std::all_of(decisions.begin(), decisions.end(),
                     [](const limit::Decision& d) { return d.allowed; });
}

inline void WorkerStats::decided(protocol::Protocol protocol, const live::LivePolicy& policy,
                                 const policy::Plan& plan, const policy::Plan::RequestPlan& part,
                                 request::Verb verb) {
  if (!request::asks_for_units(verb)) return;
  for (const auto& step : plan.steps(part)) {
    const auto& group = plan.group(step);
    if (group.parked || group.answered) continue;
    const policy::Rule& rule = *step.rule;
    auto said = static_cast<RuleOutcome>((rule.counted_as_shadow ? 2 : 0) +
                                         (has_allowed(plan, step) ? 0 : 1));
    if (group.error != request::Error::none) [[unlikely]]
      said = RuleOutcome::failed;
    say(protocol, name_of(policy, rule), said);
  }
}

// Of a request that could be decided.
inline RequestOutcome outcome_of_decided(request::Verb verb, const request::Verdict& verdict) {
  if (verb == request::Verb::noop || verb == request::Verb::list) return RequestOutcome::answered;
  if (!verdict.matched) return RequestOutcome::unmatched;
  return verdict.allowed ? RequestOutcome::allowed : RequestOutcome::denied;
}

inline RequestOutcome outcome_of(request::Verb verb, const request::Verdict& verdict) {
  return verdict.error.empty() ? outcome_of_decided(verb, verdict) : RequestOutcome::failed;
}

inline void WorkerStats::answered(protocol::Protocol protocol, request::Verb verb,
                                  const request::Verdict& verdict) {
  ++replies_;
  if (!verdict.error.empty()) [[unlikely]] {
    // That was counted by the listener, as a refusal of a session's own is.
    if (verdict.error != request::not_permitted) count_failed(protocol, verb);
    return;
  }
  const RequestOutcome outcome = outcome_of_decided(verb, verdict);
  of(protocol).requests[static_cast<size_t>(verb)][static_cast<size_t>(outcome)].add();
  if (has_events_ && protocol == events_of_) events_->put({Event::Kind::took, 0, 0, not_timed_yet});
}

// A batch as long as it is in scope.
class CountedBatch {
 public:
  CountedBatch(WorkerStats* stats, protocol::Protocol protocol, base::Time now, base::Time since)
      : stats_(stats) {
    if (stats_ != nullptr) stats_->begin(protocol, now, since);
  }
  ~CountedBatch() {
    if (stats_ != nullptr) stats_->end();
  }
  CountedBatch(const CountedBatch&) = delete;
  CountedBatch& operator=(const CountedBatch&) = delete;

 private:
  WorkerStats* const stats_;
};

}  // namespace sluice::engine
