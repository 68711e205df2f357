#include "engine/worker_stats.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::engine {

using policy::Mode;
using request::Verb;
using std::chrono::steady_clock;

namespace {

// Above the bounds that there are comes one that every value keeps to.
std::array<uint64_t, protocol::Metrics::latency_bounds_max> padded(
    std::span<const uint64_t> bounds) {
  std::array<uint64_t, protocol::Metrics::latency_bounds_max> all;
  SLUICE_CHECK(bounds.size() <= all.size());
  all.fill(UINT64_MAX);
  std::copy(bounds.begin(), bounds.end(), all.begin());
  return all;
}

}  // namespace

WorkerStats::Own::Own(const protocol::Metrics& its_metrics)
    : metrics(its_metrics), bounds_ms(padded(its_metrics.latency_bounds_ms)) {
  SLUICE_CHECK(metrics.error_codes.size() <= errors.size());
}

WorkerStats::WorkerStats(std::atomic<uint64_t>& order, std::function<void()> wake,
                         protocol::Protocol events_of)
    : order_(order), wake_(std::move(wake)) {
  for (const protocol::Protocol protocol : protocol::numbers())
    if (const auto* const its = protocol::describe(protocol).metrics;
        its != nullptr && its->is_counted_by_engine)
      own_[static_cast<size_t>(protocol)] = std::make_unique<Own>(*its);
  if (!wake_) return;
  events_ = std::make_unique<metrics::Ring<Event>>(events_max);
  events_of_ = events_of;
  has_events_ = true;
}

WorkerStats::~WorkerStats() {
  for (auto& of_protocol : said_)
    for (auto& chunk : of_protocol) delete chunk.load();
}

WorkerStats::Took WorkerStats::took_of(size_t protocol, uint64_t ns) const {
  const uint64_t ms = (ns + 500'000) / 1'000'000;
  const Own* const own = own_[protocol].get();
  return {.ns = ns,
          .ms = ms,
          .bucket = all_.front().latency.bucket_of(ns),
          .ms_bucket = own == nullptr ? 0 : own->latency_ms.bucket_of(ms),
          .known = true};
}

// Of a batch that was timed just now, or that waited for its store.
void WorkerStats::end_timed(Took& took) {
  const size_t p = static_cast<size_t>(protocol_);
  if (timing_)
    took_[p] = took_of(
        p, static_cast<uint64_t>(
               std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - began_)
                   .count()));
  took = waited_ns_ > 0 ? took_of(p, took_[p].ns + waited_ns_) : took_[p];
}

void WorkerStats::publish_times(uint64_t ms) {
  events_->each_unpublished([ms](Event& event) {
    if (event.kind == Event::Kind::took && event.value == not_timed_yet)
      event.value = static_cast<int32_t>(std::min<uint64_t>(ms, INT32_MAX));
  });
  publish();
}

void WorkerStats::say_first(metrics::Cell& first) {
  first.set(++order_);
}

void WorkerStats::publish() {
  if (events_->publish()) wake_();
}

WorkerStats::Chunk& WorkerStats::make_chunk(protocol::Protocol protocol, size_t index) {
  auto* const chunk = new Chunk;
  said_[static_cast<size_t>(protocol)][index].store(chunk, std::memory_order_release);
  return *chunk;
}

void WorkerStats::late(protocol::Protocol protocol, Verb verb, const request::Verdict& verdict,
                       const std::vector<uint16_t>& rules, base::Duration waited) {
  const RequestOutcome outcome = outcome_of(verb, verdict);
  of(protocol).requests[static_cast<size_t>(verb)][static_cast<size_t>(outcome)].add();
  if (verb != Verb::wait) return;
  of(protocol).waits.observe(static_cast<uint64_t>(std::max<int64_t>(waited.us, 0)));
  for (const uint16_t rule : rules)
    say(protocol, rule,
        outcome == RequestOutcome::failed    ? RuleOutcome::failed
        : outcome == RequestOutcome::allowed ? RuleOutcome::allowed
                                             : RuleOutcome::denied);
}

void WorkerStats::connected(protocol::Protocol protocol) {
  of(protocol).opened.add();
  tell(protocol, {Event::Kind::connections, 0, 0, 1});
}

void WorkerStats::disconnected(protocol::Protocol protocol) {
  of(protocol).closed.add();
  tell(protocol, {Event::Kind::connections, 0, 0, -1});
}

void WorkerStats::fault(protocol::Protocol protocol, std::string_view code) {
  of(protocol).faults.add();
  Own* const own = own_[static_cast<size_t>(protocol)].get();
  if (own == nullptr) return;
  const auto codes = own->metrics.error_codes;
  const auto known =
      static_cast<size_t>(std::find(codes.begin(), codes.end(), code) - codes.begin());
  const size_t error = known < codes.size() ? known : own->metrics.other_error;
  count_error(*own, error);
  tell(protocol, {Event::Kind::error, static_cast<uint8_t>(error), 0, 0});
}

// What is sent to statsd leaves these out, as Divvy does.
void WorkerStats::count_failed(protocol::Protocol protocol, Verb verb) {
  ++failures_;
  of(protocol)
      .requests[static_cast<size_t>(verb)][static_cast<size_t>(RequestOutcome::failed)]
      .add();
  Own* const own = own_[static_cast<size_t>(protocol)].get();
  if (own != nullptr) count_error(*own, own->metrics.failed_error);
}

void WorkerStats::count_error(Own& own, size_t error) {
  if (own.errors[error].read() == 0) say_first(own.first_errors[error]);
  own.errors[error].add();
}

void WorkerStats::tell(protocol::Protocol protocol, const Event& event) {
  if (!has_events_ || protocol != events_of_) return;
  events_->put(event);
  publish();
}

uint64_t WorkerStats::said(protocol::Protocol protocol, uint16_t rule, RuleOutcome said) const {
  const Chunk* chunk =
      said_[static_cast<size_t>(protocol)][rule / chunk_rules].load(std::memory_order_acquire);
  return chunk == nullptr ? 0 : chunk->said[rule % chunk_rules][static_cast<size_t>(said)].read();
}

uint64_t WorkerStats::first_said(protocol::Protocol protocol, uint16_t rule,
                                 RuleOutcome said) const {
  const Chunk* chunk =
      said_[static_cast<size_t>(protocol)][rule / chunk_rules].load(std::memory_order_acquire);
  return chunk == nullptr ? 0 : chunk->first[rule % chunk_rules][static_cast<size_t>(said)].read();
}

}  // namespace sluice::engine
