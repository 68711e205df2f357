#include "tests/conformance/memory_server.h"

#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "policy/read/native.h"
#include "policy/read/native_text.h"
#include "protocol/divvy/policy_files.h"
#include "protocol/divvy/rules.h"
#include "protocol/protocol.h"

namespace sluice::tests {
namespace {

constexpr int64_t epoch_us = 1'700'000'000'000'000;
constexpr size_t store_bytes = size_t{16} << 20;
thread_local int64_t elapsed_us = 0;

base::Clock::Source told_time() {
  return {[] { return elapsed_us; }, [] { return epoch_us + elapsed_us; }};
}

}  // namespace

store::Applied WatchedStore::apply(const request::Batch& batch, base::Time now,
                                   store::CompletionQueue* port, const store::Pin& pin,
                                   request::Ticket ticket) {
  const store::Applied done = inner_.apply(batch, now, port, pin, ticket);
  for (const request::Group& group : batch.groups.first(done.settled)) {
    if (group.error != request::Error::none) continue;
    for (const request::Charge& charge :
         batch.charges.subspan(group.charge_first, group.charge_count)) {
      if (!limit::has_counter(charge.limits.front().algorithm)) continue;
      const limit::Decision& decision = batch.decisions[charge.decision_first];
      const std::string name =
          charge.space->prefix + std::string(charge.key) + charge.space->suffix;
      left_[name] = {decision.remaining, {now.us + decision.reset_after.us}};
    }
  }
  return done;
}

Counters WatchedStore::counters(base::Time now) const {
  Counters all;
  for (const auto& [name, left] : left_) {
    const int64_t ms = (left.end.us - now.us) / 1000;
    if (ms > 0) all[name] = {left.units, (ms + 500) / 1000};
  }
  return all;
}

MemoryServer::MemoryServer(const std::string& file, const std::string& policy, Rules kind)
    : store_(store_bytes, base::Hash(1), spaces_), watched_(store_), clock_(told_time()) {
  const auto format = divvy::divvy_format(file);
  if (!format) throw std::runtime_error(file + " has no known format");
  auto rules = std::make_shared<policy::RuleSet>();
  base::Diagnostics diagnostics;
  divvy::read_divvy(policy, *format, divvy::DivvyMatching::code, file, spaces_, *rules,
                    diagnostics);
  if (kind == Rules::native && !base::has_errors(diagnostics)) {
    const auto native =
        divvy::policy_format.to_native(rules->rules(&divvy::dialect), clock_.now(), diagnostics);
    rules = std::make_shared<policy::RuleSet>();
    policy::read_native("rules:\n" + policy::native_text(native), file, spaces_, *rules,
                        diagnostics);
  }
  for (const auto& d : diagnostics)
    if (d.severity == base::Diagnostic::Severity::error)
      throw std::runtime_error(base::to_string(d));
  auto log =
      std::make_shared<spdlog::logger>("memory", std::make_shared<spdlog::sinks::null_sink_mt>());
  live_ = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
  engine_ = std::make_unique<engine::Engine>(
      engine::Engine::Deps{.store = watched_, .clock = clock_, .live = *live_}, std::move(log));
}

void MemoryServer::sleep(int64_t ms) {
  for (; ms > 0; ms -= std::min<int64_t>(ms, 100)) {
    elapsed_us += std::min<int64_t>(ms, 100) * 1000;
    store_.housekeep(clock_.now());
  }
}

MemoryConnection::MemoryConnection(MemoryServer& server)
    : server_(server), session_(protocol::make_session(protocol::find("divvy").value())) {}

void MemoryConnection::send(std::string_view bytes) {
  if (closed_) return;
  in_ += bytes;
  process();
}

void MemoryConnection::half_close() {
  if (closed_) return;
  end_ = true;
  process();
  closed_ = true;
}

std::string MemoryConnection::take() {
  return std::exchange(out_, {});
}

void MemoryConnection::process() {
  base::Buffer out;
  while (!closed_) {
    engine::Batch& batch = server_.engine_->next_batch();
    // A copy, so that a sanitizer finds a view that is used for too long.
    const std::string in = in_;
    const auto received = session_->receive(in, end_, batch.requests, out);
    if (batch.requests.size() > 0)
      closed_ = server_.engine_->serve(batch, protocol::find("divvy").value(), *session_, out) !=
                engine::Served::all;
    if (received.closing && !closed_) {
      session_->end(request::Ending::announced, {}, out);
      closed_ = true;
    }
    in_.erase(0, received.consumed);
    if (received.consumed == 0) break;
  }
  out_ += out.view();
}

}  // namespace sluice::tests
