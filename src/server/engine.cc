#include "server/engine.h"

#include <algorithm>
#include <string>

#include "base/printable.h"

namespace sluice::server {

constexpr std::string_view memory_full =
    "the counter memory is full; raise store.memory, or wait for counters to expire";

using limit::Decision;
using policy::Mode;

Engine::Engine(store::Store& store, base::Clock& clock,
               std::shared_ptr<const policy::RuleSet> rules, std::shared_ptr<spdlog::logger> log)
    : store_(store), clock_(clock), rules_(std::move(rules)), log_(std::move(log)) {}

bool Engine::serve(policy::Dialect dialect, wire::Session& session, const wire::Requests& requests,
                   base::Buffer& out) {
  plan_.clear();
  settled_ = 0;
  for (const auto& request : requests.items()) {
    rules_->match(dialect, requests.descriptor(request), request.cost, plan_);
    if (!plan_.parts().back().error.empty())
      break;  // it may end the session: nothing behind it is charged yet
  }
  const base::Time now = clock_.now();
  const bool telling = log_->should_log(spdlog::level::debug);
  for (size_t i = 0; i < plan_.parts().size(); ++i) {
    const auto& part = plan_.parts()[i];
    settle(part.groups_end, now);
    if (telling) tell(requests.descriptor(requests.items()[i]), part);
    if (!session.reply(verdict_of(part), out)) return false;
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
      verdict.reset_after = std::max(verdict.reset_after, d.reset_after);
    }
  }
  verdict.allowed = verdict.tightest != nullptr && verdict.tightest->allowed;
  return verdict;
}

void Engine::tell(std::span<const limit::Entry> descriptor, const policy::Plan::Part& part) const {
  std::string asked;
  for (const auto& [key, value] : descriptor) {
    asked.append(asked.empty() ? "" : " ");
    base::append_printable(asked, key);
    asked += '=';
    base::append_printable(asked, value);
  }
  for (const auto& step : plan_.steps(part)) {
    const auto& rule = *step.rule;
    const auto& group = plan_.group(step);
    const auto& decision = plan_.decisions(step).front();
    log_->debug("divvy: {} | rule [{}] {}:{}{}{} | {} {}, {} of {} left", asked, rule.pattern,
                rule.file, rule.line, rule.comment.empty() ? "" : " # ",
                base::printable(rule.comment), rule.mode == Mode::shadow ? "canary" : "decides",
                group.error != limit::Error::none ? "failed"
                : group.allowed                   ? "allowed"
                                                  : "denied",
                decision.remaining, decision.limit);
  }
  if (!part.error.empty()) log_->debug("divvy: {} | failed: {}", asked, part.error);
}

}  // namespace sluice::server
