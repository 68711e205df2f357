#include "engine/tally.h"

#include <algorithm>

namespace sluice::engine {

using policy::Mode;
using request::Verb;
using std::chrono::steady_clock;

Tally::Tally(std::atomic<uint64_t>& order, std::function<void()> wake)
    : order_(order), wake_(std::move(wake)) {
  if (wake_) events_ = std::make_unique<metrics::Ring<Event>>(events_max);
}

Tally::~Tally() {
  for (auto& of_protocol : said_)
    for (auto& chunk : of_protocol) delete chunk.load();
}

Tally::Took Tally::took_of(uint64_t ns) const {
  const uint64_t ms = (ns + 500'000) / 1'000'000;
  return {.ns = ns,
          .ms = ms,
          .bucket = all_.front().latency.bucket_of(ns),
          .ms_bucket = divvy_ms_.bucket_of(ms),
          .known = true};
}

// Of a batch that was timed just now, or that waited for its store.
void Tally::end_timed(Took& took) {
  const size_t p = static_cast<size_t>(protocol_);
  if (timing_)
    took_[p] = took_of(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - began_)
            .count()));
  took = waited_ns_ > 0 ? took_of(took_[p].ns + waited_ns_) : took_[p];
}

void Tally::tell_times(uint64_t ms) {
  events_->each_unpublished([ms](Event& event) {
    if (event.kind == Event::Kind::took && event.value == not_timed_yet)
      event.value = static_cast<int32_t>(std::min<uint64_t>(ms, INT32_MAX));
  });
  publish();
}

void Tally::say_first(metrics::Cell& first) {
  first.set(++order_);
}

void Tally::publish() {
  if (events_->publish()) wake_();
}

Tally::Chunk& Tally::make_chunk(protocol::Protocol protocol, size_t index) {
  auto* const chunk = new Chunk;
  said_[static_cast<size_t>(protocol)][index].store(chunk, std::memory_order_release);
  return *chunk;
}

void Tally::late(protocol::Protocol protocol, Verb verb, const request::Verdict& verdict,
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

void Tally::connected(protocol::Protocol protocol) {
  of(protocol).opened.add();
  if (protocol != protocol::Protocol::divvy || events_ == nullptr) return;
  events_->put({Event::Kind::connections, 0, 0, 1});
  publish();
}

void Tally::disconnected(protocol::Protocol protocol) {
  of(protocol).closed.add();
  if (protocol != protocol::Protocol::divvy || events_ == nullptr) return;
  events_->put({Event::Kind::connections, 0, 0, -1});
  publish();
}

void Tally::fault(protocol::Protocol protocol, std::string_view code) {
  of(protocol).faults.add();
  if (protocol != protocol::Protocol::divvy) return;
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

uint64_t Tally::said(protocol::Protocol protocol, uint16_t rule, Said said) const {
  const Chunk* chunk =
      said_[static_cast<size_t>(protocol)][rule / chunk_rules].load(std::memory_order_acquire);
  return chunk == nullptr ? 0 : chunk->said[rule % chunk_rules][static_cast<size_t>(said)].read();
}

uint64_t Tally::first_said(uint16_t rule, Said said) const {
  const Chunk* chunk =
      said_[static_cast<size_t>(protocol::Protocol::divvy)][rule / chunk_rules].load(
          std::memory_order_acquire);
  return chunk == nullptr ? 0 : chunk->first[rule % chunk_rules][static_cast<size_t>(said)].read();
}

}  // namespace sluice::engine
