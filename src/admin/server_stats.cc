#include "admin/server_stats.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/background.h"
#include "protocol/protocol.h"

namespace sluice::admin {

void RequestRates::add(const ProtocolTotals& totals, Clock::time_point at) {
  const std::lock_guard lock(mutex_);
  if (at - samples_[(first_ + count_ - 1) % samples_max].at < period) return;
  // The oldest one that is still wanted is `window` old, or the last one before.
  while (count_ > 1 && at - samples_[(first_ + 1) % samples_max].at >= window) {
    first_ = (first_ + 1) % samples_max;
    --count_;
  }
  samples_[(first_ + count_) % samples_max] = {at, totals};
  ++count_;
}

RequestRates::Rates RequestRates::rates(const ProtocolTotals& totals, Clock::time_point at) const {
  const std::lock_guard lock(mutex_);
  // The last sample that is at least `window` old, else the first.
  size_t place = first_;
  for (size_t i = 1; i < count_; ++i) {
    const size_t next = (first_ + i) % samples_max;
    if (at - samples_[next].at < window) break;
    place = next;
  }
  const Sample& since = samples_[place];
  Rates rates;
  rates.over_seconds = std::max(std::chrono::duration<double>(at - since.at).count(), 1e-3);
  for (size_t p = 0; p < totals.size(); ++p)
    for (size_t i = 0; i < totals[p].size(); ++i)
      if (totals[p][i] > since.totals[p][i])
        rates.per_second[p][i] =
            static_cast<double>(totals[p][i] - since.totals[p][i]) / rates.over_seconds;
  return rates;
}

namespace {

double number(uint64_t n) {
  return static_cast<double>(n);
}

double seconds(std::chrono::system_clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

}  // namespace

ServerInfo::ServerInfo(const live::Live& live, const live::ReloadHistory* history,
                       const store::Catalog& store, std::string version)
    : live_(live), history_(history), store_(store), version_(std::move(version)) {}

void ServerInfo::collect(metrics::Page& page) const {
  page.gauge("sluice_build_info", "The build, as labels; always 1.", 1,
             {{"version", version_}, {"compiler", __VERSION__}});

  const store::Stats stats = store_.stats();
  page.gauge("sluice_counters", "Counters that the store holds.", number(stats.counters));
  page.gauge("sluice_store_memory_bytes", "Memory held for counters.", number(stats.memory_bytes));
  if (stats.memory_bytes_max > 0)
    page.gauge("sluice_store_memory_max_bytes", "Bound of the memory held for counters.",
               number(stats.memory_bytes_max));
  page.counter("sluice_counters_swept_total", "Counters dropped because they equalled a fresh one.",
               number(stats.swept));
  page.counter("sluice_counters_purged_total",
               "Full buckets of " + protocol::names_bringing_limits() +
                   " that were forgotten after its cleanup interval.",
               number(stats.purged));
  page.counter("sluice_memory_refusals_total",
               "Groups of charges that failed because the counter memory was full.",
               number(stats.refused));
  page.gauge("sluice_store_loading", "1: not all counters are back from the disk yet.",
             stats.loading ? 1 : 0);
  page.gauge("sluice_store_failing", "1: the disk cannot be written at the moment.",
             stats.failing ? 1 : 0);
  page.counter("sluice_commits_total", "Commits to the disk.", number(stats.commits));
  page.counter("sluice_commit_failures_total", "Commits to the disk that failed.",
               number(stats.commit_failures));
  page.counter("sluice_committed_counters_total", "States of counters that were committed.",
               number(stats.committed_counters));
  page.counter("sluice_committed_bytes_total", "Bytes that were committed.",
               number(stats.committed_bytes));
  page.counter("sluice_snapshots_total", "Snapshots of the counters that were written to the disk.",
               number(stats.snapshots));
  page.gauge("sluice_store_log_bytes",
             "Bytes of the log behind the last snapshot, which a start has to replay.",
             number(stats.log_bytes));
  page.gauge("sluice_waiting_requests", "Requests that wait for units.", number(stats.waiting));

  const auto policy = live_.shown();
  page.gauge("sluice_policy_generation", "Generation of the policy that is live.",
             number(policy->generation));
  page.gauge("sluice_policy_rules", "Rules of the policy that is live.",
             number(policy->rules->written()));
  page.gauge("sluice_policy_info",
             "The policy that is live, by its hash: the same on all servers that read the same "
             "texts; always 1.",
             1, {{"hash", live::hash_text(policy->hash)}});
  page.counter("sluice_regex_given_up_total",
               "Values that regular expressions of the live policy gave up on.",
               number(policy->rules->regexes_given_up()));
  page.counter("sluice_match_given_up_total",
               "Requests that took too many steps to match with the live policy: an error each.",
               number(policy->rules->too_costly()));
  if (history_ == nullptr) return;
  const live::Reading live = history_->last_live(), refused = history_->last_refused();
  page.gauge("sluice_policy_live_timestamp_seconds", "Since when the policy is live.",
             seconds(live.outcome == live::Reading::Outcome::none ? started_ : live.at));
  page.gauge("sluice_policy_refused_timestamp_seconds", "When a policy was last refused; 0: never.",
             refused.outcome == live::Reading::Outcome::none ? 0 : seconds(refused.at));
  page.counter("sluice_policy_refusals_total", "Policies that were refused at a reload.",
               number(history_->refusals()));
  page.gauge("sluice_policy_stale",
             "1: the files hold a policy that was refused, so an older one is live.",
             history_->last().outcome == live::Reading::Outcome::refused ? 1 : 0);
}

using metrics::Labels;
using metrics::Page;

namespace {

constexpr std::array<const char*, engine::rule_outcome_count> rule_outcome_names{
    "allowed", "denied", "shadow_allowed", "shadow_denied", "error"};

double real(uint64_t n) {
  return static_cast<double>(n);
}

}  // namespace

engine::WorkerStats& ServerStats::add_worker() {
  const std::lock_guard lock(mutex_);
  return *workers_.emplace_back(std::make_unique<engine::WorkerStats>(order_, wake_, events_of_));
}

std::vector<const engine::WorkerStats*> ServerStats::worker_stats() const {
  const std::lock_guard lock(mutex_);
  std::vector<const engine::WorkerStats*> all;
  for (const auto& stats : workers_) all.push_back(stats.get());
  return all;
}

std::shared_ptr<const std::vector<uint16_t>> ServerStats::name_rules(const policy::RuleSet& rules) {
  auto names = std::make_shared<std::vector<uint16_t>>(rules.size(), metrics::Names::others);
  live::each_rule(rules, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    (*names)[rule.number] = names_.intern(dialect.metric_name(rule), rule.name);
    base::yield_if_background();
  });
  return names;
}

std::array<uint64_t, engine::rule_outcome_count> ServerStats::said(protocol::Protocol protocol,
                                                                   uint16_t rule) const {
  std::array<uint64_t, engine::rule_outcome_count> all{};
  for (const engine::WorkerStats* stats : worker_stats())
    for (size_t i = 0; i < engine::rule_outcome_count; ++i)
      all[i] += stats->said(protocol, rule, static_cast<engine::RuleOutcome>(i));
  return all;
}

std::array<uint64_t, engine::closed_count> ServerStats::closed() const {
  std::array<uint64_t, engine::closed_count> all{};
  // Called by housekeeping while requests are served: goes without the copy that worker_stats()
  // makes.
  const std::lock_guard lock(mutex_);
  for (const auto& stats : workers_)
    for (const protocol::Protocol protocol : protocol::numbers())
      for (size_t i = 0; i < engine::closed_count; ++i)
        all[i] += stats->at(protocol).closed_for[i].read();
  return all;
}

uint64_t ServerStats::connections(protocol::Protocol protocol) const {
  uint64_t closed = 0, opened = 0;
  // In this order, so that a connection that comes and goes meanwhile does not make it negative.
  for (const engine::WorkerStats* stats : worker_stats())
    closed += stats->at(protocol).closed.read();
  for (const engine::WorkerStats* stats : worker_stats())
    opened += stats->at(protocol).opened.read();
  return opened < closed ? 0 : opened - closed;
}

ProtocolTotals ServerStats::requests() const {
  ProtocolTotals totals{};
  // Housekeeping calls it: see closed().
  const std::lock_guard lock(mutex_);
  for (const auto& stats : workers_)
    for (const protocol::Protocol protocol : protocol::numbers())
      for (const auto& verb : stats->at(protocol).requests)
        for (size_t i = 0; i < engine::request_outcome_count; ++i)
          totals[static_cast<size_t>(protocol)][i] += verb[i].read();
  return totals;
}

ServerStats::Traffic ServerStats::traffic(protocol::Protocol protocol) const {
  Traffic traffic;
  for (const engine::WorkerStats* stats : worker_stats()) {
    const engine::WorkerStats::OfProtocol& of = stats->at(protocol);
    traffic.opened += of.opened.read();
    traffic.received += of.received.read();
    traffic.sent += of.sent.read();
    traffic.faults += of.faults.read();
  }
  return traffic;
}

std::string ServerStats::why_full() const {
  const std::lock_guard lock(mutex_);
  for (const auto& stats : workers_)
    for (const protocol::Protocol protocol : protocol::numbers()) {
      const engine::WorkerStats::OfProtocol& of = stats->at(protocol);
      const uint64_t most = of.held_max.read();
      if (most == 0 || of.held.read() < most - most / 16) continue;
      return "requests of the protocol " + std::string(name_of(protocol)) +
             " are refused: a worker holds " + std::to_string(of.held.read()) + " of " +
             std::to_string(most) + " bytes for requests and replies, and most of it is under way";
    }
  return {};
}

void ServerStats::collect(Page& page) const {
  const auto all = worker_stats();
  for (const protocol::Protocol protocol : protocol::numbers()) {
    const std::string name(name_of(protocol));
    std::array<std::array<uint64_t, engine::request_outcome_count>, request::verb_count> requests{};
    metrics::Distribution<engine::latency_bounds_ns.size()> latency;
    metrics::Distribution<engine::wait_bounds_us.size()> waits;
    const Traffic traffic = this->traffic(protocol);
    std::array<uint64_t, engine::closed_count> closed_for{}, ended_for{};
    uint64_t held = 0, held_max = 0;
    for (const engine::WorkerStats* stats : all) {
      const engine::WorkerStats::OfProtocol& of = stats->at(protocol);
      for (size_t v = 0; v < request::verb_count; ++v)
        for (size_t f = 0; f < engine::request_outcome_count; ++f)
          requests[v][f] += of.requests[v][f].read();
      of.latency.add_to(latency);
      of.waits.add_to(waits);
      for (size_t i = 0; i < engine::closed_count; ++i) closed_for[i] += of.closed_for[i].read();
      for (size_t i = 0; i < engine::closed_count; ++i) ended_for[i] += of.ended_for[i].read();
      held += of.held.read();
      held_max += of.held_max.read();
    }
    for (size_t v = 0; v < request::verb_count; ++v) {
      const auto verb = static_cast<request::Verb>(v);
      for (size_t f = 0; f < engine::request_outcome_count; ++f) {
        // Those that everybody asks for are there from the start, so that a rate has a beginning.
        if (requests[v][f] == 0 && !(verb == request::Verb::take && f <= 1)) continue;
        page.counter("sluice_requests_total", "Requests that were answered, by their outcome.",
                     real(requests[v][f]),
                     {{"protocol", name},
                      {"verb", std::string(request::name_of(verb))},
                      {"outcome", request_outcome_names[f]}});
      }
    }
    page.histogram("sluice_decision_seconds",
                   "Time from a batch of requests to its replies, for each request that was "
                   "answered at once.",
                   engine::latency_bounds_ns, latency.counts, latency.sum, 1e9,
                   {{"protocol", name}});
    if (waits.count() > 0)
      page.histogram("sluice_wait_seconds", "Time that requests waited for units.",
                     engine::wait_bounds_us, waits.counts, waits.sum, 1e6, {{"protocol", name}});
    const Labels labels{{"protocol", name}};
    page.gauge("sluice_connections", "Open connections.", real(connections(protocol)), labels);
    page.counter("sluice_connections_opened_total", "Connections that were served.",
                 real(traffic.opened), labels);
    page.counter("sluice_received_bytes_total", "Bytes that clients sent.", real(traffic.received),
                 labels);
    page.counter("sluice_sent_bytes_total", "Bytes that clients were sent.", real(traffic.sent),
                 labels);
    page.counter("sluice_parse_errors_total",
                 "Connections that ended because the client broke the protocol.",
                 real(traffic.faults), labels);
    for (size_t i = 0; i < engine::closed_count; ++i)
      page.counter(
          "sluice_connections_closed_total",
          "Connections that the server closed because their clients were too slow, or held "
          "too much of its memory.",
          real(closed_for[i]), {{"protocol", name}, {"reason", closed_names[i]}});
    page.gauge("sluice_session_memory_bytes",
               "Bytes that connections with several requests at a time hold for them and for "
               "their replies.",
               real(held), labels);
    page.gauge("sluice_session_memory_max_bytes",
               "Bound of these bytes, of all workers that have had such connections.",
               real(held_max), labels);
    for (const engine::Closed why :
         {engine::Closed::request_timeout, engine::Closed::send_timeout}) {
      const auto i = static_cast<size_t>(why);
      page.counter("sluice_requests_ended_total",
                   "Requests that were ended alone because their clients were too slow, while the "
                   "connection had others.",
                   real(ended_for[i]), {{"protocol", name}, {"reason", closed_names[i]}});
    }
    for (size_t rule = 0; rule < names_.size(); ++rule) {
      const auto said_so_far = said(protocol, static_cast<uint16_t>(rule));
      for (size_t i = 0; i < engine::rule_outcome_count; ++i) {
        if (said_so_far[i] == 0) continue;
        page.counter("sluice_decisions_total",
                     "What rules said to requests that take; rules beyond the bound of names "
                     "count as (others).",
                     real(said_so_far[i]),
                     {{"protocol", name},
                      {"rule", names_.at(static_cast<uint16_t>(rule)).name},
                      {"outcome", rule_outcome_names[i]}});
      }
    }
  }
  metrics::Distribution<engine::commit_wait_bounds_us.size()> commit_waits;
  for (const engine::WorkerStats* stats : all) stats->commit_waits().add_to(commit_waits);
  if (commit_waits.count() > 0)
    page.histogram("sluice_commit_wait_seconds",
                   "Time that what a connection had to send waited for its commit.",
                   engine::commit_wait_bounds_us, commit_waits.counts, commit_waits.sum, 1e6);
  uint64_t lost = 0;
  for (const auto& stats : all) lost += stats->events_lost();
  page.counter("sluice_statsd_events_lost_total",
               "What statsd was not told because there was more than its sender could take.",
               real(lost));
  page.gauge("sluice_rule_names", "Names that rules are counted by.", real(names_.size()));
  page.counter("sluice_rule_names_refused_total",
               "Rules of policies so far that count as (others).", real(names_.refused()));
}

}  // namespace sluice::admin
