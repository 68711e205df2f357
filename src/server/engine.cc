#include "server/engine.h"

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "server/protocol.h"
#include "server/server.h"

namespace sluice::server {

namespace {

// What a debug line shows of one text, so that a client cannot fill the log's queue with its own.
constexpr size_t told_bytes_max = 256;

constexpr std::string_view memory_full =
    "the counter memory is full; raise store.memory, or wait for counters to expire";

}  // namespace

using limit::Decision;
using policy::Mode;

Engine::Engine(store::Store& store, base::Clock& clock, const Live& live,
               std::shared_ptr<spdlog::logger> log)
    : store_(store),
      clock_(clock),
      live_(live),
      policy_(live.current()),
      rules_(policy_->rules.get()),
      log_(std::move(log)) {}

bool Engine::take_policy() {
  if (live_.generation() == policy_->generation) return false;
  plan_.clear();  // it points into the old rules
  policy_ = live_.current();
  rules_ = policy_->rules.get();
  return true;
}

bool Engine::serve(Protocol protocol, wire::Session& session, const wire::Requests& requests,
                   base::Buffer& out) {
  take_policy();
  plan_.clear();
  settled_ = 0;
  const base::Time now = clock_.now();
  for (const auto& request : requests.items()) {
    rules_->match(dialect_of(protocol),
                  {.descriptor = requests.descriptor(request),
                   .verb = request.verb,
                   .all = request.all,
                   .fresh = request.fresh,
                   .cost = request.cost,
                   .limits = requests.limits(request),
                   .now = now},
                  plan_);
    if (!plan_.parts().back().error.empty())
      break;  // it may end the session: nothing behind it is charged yet
  }
  const bool telling = log_->should_log(spdlog::level::debug);
  for (size_t i = 0; i < plan_.parts().size(); ++i) {
    const auto& part = plan_.parts()[i];
    settle(part.groups_end, now);
    if (telling) tell(protocol, requests.descriptor(requests.items()[i]), part);
    if (!session.reply(requests.items()[i], verdict_of(part), now, out)) return false;
  }
  return plan_.parts().size() == requests.size();
}

// The store stops behind a group that failed, in case nothing more is wanted: asked again, it goes
// on.
void Engine::settle(uint32_t groups, base::Time now) {
  while (settled_ < groups) {
    auto batch = plan_.batch();
    batch.groups = batch.groups.subspan(settled_);
    settled_ += static_cast<uint32_t>(store_.apply(batch, now));
  }
}

// Of several decisions the tightest is shown: the refusal with the longest wait, else the least
// left.
wire::Verdict Engine::verdict_of(const policy::Plan::Part& part) const {
  wire::Verdict verdict;
  verdict.error = part.error;
  for (const auto& step : plan_.steps(part)) {
    if (step.rule->mode != Mode::enforce) continue;  // a shadow rule's failure harms nobody
    if (plan_.group(step).error != limit::Error::none) {
      verdict.error = memory_full;
      return verdict;
    }
    for (const Decision& d : plan_.decisions(step)) {
      const Decision* t = verdict.tightest;
      const bool tighter = t == nullptr || (d.allowed != t->allowed ? !d.allowed
                                            : d.allowed             ? d.remaining < t->remaining
                                                        : d.retry_after > t->retry_after);
      if (tighter) verdict.tightest = &d;
      verdict.more_after = std::max(verdict.more_after, d.reset_after);
    }
  }
  verdict.allowed = verdict.tightest != nullptr && verdict.tightest->allowed;
  if (verdict.tightest != nullptr && !verdict.allowed)
    verdict.more_after = verdict.tightest->retry_after;
  return verdict;
}

void Engine::tell(Protocol protocol, std::span<const limit::Entry> descriptor,
                  const policy::Plan::Part& part) const {
  std::string asked;
  for (const auto& [key, value] : descriptor) {
    if (asked.size() >= told_bytes_max) break;
    asked.append(asked.empty() ? "" : " ");
    asked += base::printable(key, told_bytes_max);
    asked += '=';
    asked += base::printable(value, told_bytes_max);
  }
  for (const auto& step : plan_.steps(part)) {
    const auto& rule = *step.rule;
    const auto& group = plan_.group(step);
    const auto& decision = plan_.decisions(step).front();
    log_->debug("{}: {} | rule [{}] {}:{}{}{} | {} {}, {} of {} left", name_of(protocol), asked,
                base::printable(rule.pattern, told_bytes_max), rule.file, rule.line,
                rule.comment.empty() ? "" : " # ", base::printable(rule.comment, told_bytes_max),
                rule.mode == Mode::shadow ? "shadow" : "decides",
                group.error != limit::Error::none ? "failed"
                : group.allowed                   ? "allowed"
                                                  : "denied",
                decision.remaining, decision.limit);
  }
  if (!part.error.empty()) log_->debug("{}: {} | failed: {}", name_of(protocol), asked, part.error);
}

}  // namespace sluice::server
