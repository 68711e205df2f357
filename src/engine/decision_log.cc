#include "engine/decision_log.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/printable.h"
#include "engine/worker_stats.h"
#include "protocol/protocol.h"

namespace sluice::engine {

using limit::Decision;
using policy::Mode;
using request::Verb;
using std::chrono::steady_clock;

namespace {

// What a line shows of one text, so that a client cannot fill the log's queue with its own.
constexpr size_t shown_bytes_max = 256;

std::string asked_of(protocol::Protocol protocol, Verb verb,
                     std::span<const request::Entry> descriptor) {
  std::string asked = std::string(name_of(protocol)) + ": " + std::string(name_of(verb));
  const size_t head = asked.size();
  for (const auto& [key, value] : descriptor) {
    if (asked.size() - head >= shown_bytes_max) break;
    asked += ' ';
    asked += base::printable(key, shown_bytes_max);
    asked += '=';
    asked += base::printable(value, shown_bytes_max);
  }
  return asked;
}

}  // namespace

void log_decision(spdlog::logger& log, const Batch& batch, const request::Request& request,
                  const policy::Plan::Part& part) {
  const policy::Plan& plan = batch.plan;
  const Verb verb = request.verb;
  std::string asked = asked_of(batch.protocol, verb, batch.requests.descriptor(request));
  const std::string_view id = batch.session->id_of(request);
  if (!id.empty()) asked += " id " + base::printable(id, shown_bytes_max);
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - batch.began);
  for (const auto& step : plan.steps(part)) {
    const auto& rule = *step.rule;
    const auto& group = plan.group(step);
    std::string left;  // a request may name no limit
    for (const auto& decision : plan.decisions(step))
      left += fmt::format(", {} of {} left", decision.remaining, decision.limit);
    log.debug("{} | rule [{}] {}:{}{}{} | {} {}{} | took {} us", asked,
              base::printable(rule.pattern, shown_bytes_max), rule.file, rule.line,
              rule.comment.empty() ? "" : " # ", base::printable(rule.comment, shown_bytes_max),
              rule.mode == Mode::shadow ? "shadow" : "decides",
              group.error != request::Error::none ? "failed"
              : group.parked                      ? "waits"
              : group.allowed                     ? "allowed"
                                                  : "denied",
              left, took.count());
  }
  if (!part.error.empty())
    log.debug("{} | failed: {}", asked, part.error);
  else if (part.step_count == 0)
    log.debug("{} | {} | took {} us", asked,
              verb == Verb::noop || verb == Verb::list ? "no rule is asked" : "no rule applies",
              took.count());
}

void log_denied(spdlog::logger& log, DenialSampler& denials, uint64_t every, const Batch& batch,
                Verb verb, const policy::Plan::Part& part, const request::Verdict& verdict) {
  if (verb != Verb::take && verb != Verb::wait) return;
  if (outcome_of(verb, verdict) != RequestOutcome::denied || !denials.wants(every, batch.now))
    return;
  const policy::Plan& plan = batch.plan;
  const policy::Plan::Step* by = nullptr;
  base::Duration longest{};
  for (const auto& step : plan.steps(part)) {
    if (step.rule->mode != Mode::enforce || has_allowed(plan, step)) continue;
    for (const auto& decision : plan.decisions(step)) {
      if (decision.allowed || (by != nullptr && decision.retry_after <= longest)) continue;
      by = &step;
      longest = decision.retry_after;
    }
  }
  if (by == nullptr) return;
  const policy::Rule& rule = *by->rule;
  log.info("denied | {} | rule [{}] | actor {} | retry_after {}", name_of(batch.protocol),
           base::printable(rule.name.empty() ? rule.pattern : rule.name, shown_bytes_max),
           base::printable(plan.charge(*by).key, shown_bytes_max),
           longest == base::never ? "never"
                                  : fmt::format("{:.3f} s", static_cast<double>(longest.us) / 1e6));
}

void log_late(spdlog::logger& log, const PendingReply& pending, const request::Verdict& verdict,
              base::Time now) {
  if (!log.should_log(spdlog::level::debug)) return;
  const std::string asked = asked_of(pending.protocol, pending.request.verb, pending.entries());
  const Decision nothing{};
  const Decision& d = verdict.tightest != nullptr ? *verdict.tightest : nothing;
  log.debug("{} | late, {}, {} of {} left | took {} us", asked,
            !verdict.error.empty() ? "failed"
            : !verdict.matched     ? "no rule applies"
            : verdict.allowed      ? "allowed"
                                   : "denied",
            d.remaining, d.limit, std::max<int64_t>(now.us - pending.since.us, 0));
}

}  // namespace sluice::engine
