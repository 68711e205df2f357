#include "admin/server_stats.h"

#include <array>

#include "base/background.h"
#include "protocol/protocol.h"

namespace sluice::admin {

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
