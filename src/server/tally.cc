#include "server/tally.h"

#include <algorithm>

namespace sluice::server {

using limit::Verb;
using policy::Mode;
using std::chrono::steady_clock;

namespace {

constexpr int64_t time_period_us = 200;
constexpr int32_t not_timed_yet = -1;

Fate fate_of(Verb verb, const wire::Verdict& verdict) {
  if (!verdict.error.empty()) return Fate::failed;
  if (verb == Verb::none || verb == Verb::list) return Fate::answered;
  if (!verdict.matched) return Fate::unmatched;
  return verdict.allowed ? Fate::allowed : Fate::denied;
}

}  // namespace

Tally::Tally(std::atomic<uint64_t>& order, std::function<void()> wake)
    : order_(order), wake_(std::move(wake)) {
  if (wake_) events_ = std::make_unique<metrics::Ring<Event>>(events_max);
}

Tally::~Tally() {
  for (auto& of_protocol : said_)
    for (auto& chunk : of_protocol) delete chunk.load();
}

void Tally::begin(Protocol protocol, base::Time now, base::Time since) {
  protocol_ = protocol;
  replies_ = good_replies_ = 0;
  waited_ns_ = static_cast<uint64_t>(std::max<int64_t>(now.us - since.us, 0)) * 1'000;
  timing_ = now.us >= time_again_us_ || !took_[static_cast<size_t>(protocol)].known;
  if (!timing_) return;
  began_ = steady_clock::now();
  time_again_us_ = now.us + time_period_us;
}

void Tally::end() {
  const auto p = static_cast<size_t>(protocol_);
  Took took = took_[p];
  if (timing_)
    took = took_[p] = took_of(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - began_)
            .count()));
  if (waited_ns_ > 0) [[unlikely]]
    took = took_of(took.ns + waited_ns_);
  if (replies_ > 0) all_[p].latency.observe(took.ns, took.bucket, replies_);
  if (protocol_ != Protocol::divvy) return;
  if (good_replies_ > 0) divvy_ms_.observe(took.ms, took.ms_bucket, good_replies_);
  if (events_ == nullptr) return;
  events_->each_unpublished([&took](Event& event) {
    if (event.kind == Event::Kind::took && event.value == not_timed_yet)
      event.value = static_cast<int32_t>(std::min<uint64_t>(took.ms, INT32_MAX));
  });
  publish();
}

Tally::Took Tally::took_of(uint64_t ns) const {
  const uint64_t ms = (ns + 500'000) / 1'000'000;
  return {.ns = ns,
          .ms = ms,
          .bucket = all_.front().latency.bucket_of(ns),
          .ms_bucket = divvy_ms_.bucket_of(ms),
          .known = true};
}

void Tally::publish() {
  if (events_->publish()) wake_();
}

Tally::Chunk& Tally::make_chunk(Protocol protocol, size_t index) {
  auto* const chunk = new Chunk;
  said_[static_cast<size_t>(protocol)][index].store(chunk, std::memory_order_release);
  return *chunk;
}

void Tally::say(Protocol protocol, uint16_t rule, Said said) {
  const size_t index = rule / chunk_rules, place = rule % chunk_rules;
  Chunk* chunk = said_[static_cast<size_t>(protocol)][index].load(std::memory_order_relaxed);
  if (chunk == nullptr) [[unlikely]]
    chunk = &make_chunk(protocol, index);
  metrics::Cell& cell = chunk->said[place][static_cast<size_t>(said)];
  if (cell.read() == 0) [[unlikely]]
    chunk->first[place][static_cast<size_t>(said)].set(++order_);
  cell.add();
  if (protocol == Protocol::divvy && events_ != nullptr && said != Said::failed)
    events_->put({Event::Kind::said, static_cast<uint8_t>(said), rule, 0});
}

void Tally::decided(Protocol protocol, const LivePolicy& policy, const policy::Plan& plan,
                    const policy::Plan::Part& part, Verb verb) {
  if (verb != Verb::take && verb != Verb::wait) return;
  for (const auto& step : plan.steps(part)) {
    const auto& group = plan.group(step);
    if (group.parked || group.answered) continue;
    const policy::Rule& rule = *step.rule;
    bool allowed = group.allowed;
    if (!allowed && group.charge_count > 1) {  // which of them refused?
      const auto decisions = plan.decisions(step);
      allowed = std::all_of(decisions.begin(), decisions.end(),
                            [](const limit::Decision& d) { return d.allowed; });
    }
    const Said said = group.error != limit::Error::none ? Said::failed
                      : rule.counted_as_shadow
                          ? (allowed ? Said::shadow_allowed : Said::shadow_denied)
                          : (allowed ? Said::allowed : Said::denied);
    say(protocol, name_of(policy, rule), said);
  }
}

void Tally::answered(Protocol protocol, Verb verb, const wire::Verdict& verdict) {
  const Fate fate = fate_of(verb, verdict);
  of(protocol).requests[static_cast<size_t>(verb)][static_cast<size_t>(fate)].add();
  ++replies_;
  if (protocol != Protocol::divvy) return;
  if (fate == Fate::failed) [[unlikely]]
    return internal_fault();
  ++good_replies_;
  if (events_ != nullptr) events_->put({Event::Kind::took, 0, 0, not_timed_yet});
}

void Tally::late(Protocol protocol, Verb verb, const wire::Verdict& verdict,
                 const std::vector<uint16_t>& rules, base::Duration waited) {
  const Fate fate = fate_of(verb, verdict);
  of(protocol).requests[static_cast<size_t>(verb)][static_cast<size_t>(fate)].add();
  if (verb == Verb::list) return;
  of(protocol).waits.observe(static_cast<uint64_t>(std::max<int64_t>(waited.us, 0)));
  for (const uint16_t rule : rules)
    say(protocol, rule,
        fate == Fate::failed    ? Said::failed
        : fate == Fate::allowed ? Said::allowed
                                : Said::denied);
}

void Tally::connected(Protocol protocol) {
  of(protocol).opened.add();
  if (protocol != Protocol::divvy || events_ == nullptr) return;
  events_->put({Event::Kind::connections, 0, 0, 1});
  publish();
}

void Tally::disconnected(Protocol protocol) {
  of(protocol).closed.add();
  if (protocol != Protocol::divvy || events_ == nullptr) return;
  events_->put({Event::Kind::connections, 0, 0, -1});
  publish();
}

void Tally::fault(Protocol protocol, std::string_view code) {
  of(protocol).faults.add();
  if (protocol != Protocol::divvy) return;
  const Fault fault = code == "unknown-command" ? Fault::unknown_command : Fault::unknown;
  const auto i = static_cast<size_t>(fault);
  if (faults_[i].read() == 0) first_faults_[i].set(++order_);
  faults_[i].add();
  if (events_ == nullptr) return;
  events_->put({Event::Kind::fault, static_cast<uint8_t>(fault), 0, 0});
  publish();
}

// Divvy's own count of errors leaves these out, and so does what it tells statsd.
void Tally::internal_fault() {
  constexpr auto i = static_cast<size_t>(Fault::internal);
  if (faults_[i].read() == 0) first_faults_[i].set(++order_);
  faults_[i].add();
}

uint64_t Tally::said(Protocol protocol, uint16_t rule, Said said) const {
  const Chunk* chunk =
      said_[static_cast<size_t>(protocol)][rule / chunk_rules].load(std::memory_order_acquire);
  return chunk == nullptr ? 0 : chunk->said[rule % chunk_rules][static_cast<size_t>(said)].read();
}

uint64_t Tally::first_said(uint16_t rule, Said said) const {
  const Chunk* chunk = said_[static_cast<size_t>(Protocol::divvy)][rule / chunk_rules].load(
      std::memory_order_acquire);
  return chunk == nullptr ? 0 : chunk->first[rule % chunk_rules][static_cast<size_t>(said)].read();
}

}  // namespace sluice::server
