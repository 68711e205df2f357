#include "engine/decision_log.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/printable.h"
#include "engine/worker_stats.h"
#include "policy/actor_name.h"
#include "protocol/protocol.h"

namespace sluice::engine {

using limit::Decision;
using policy::Mode;
using request::Verb;
using std::chrono::steady_clock;

namespace {

// At most so much of one text is shown in a line, so that a client cannot fill the log's queue.
constexpr size_t shown_bytes_max = 256;

// Of a client's text, as base::printable; a `|` is escaped as well, as it separates the parts of a
// line.
std::string part_text(std::string_view text) {
  std::string shown = base::printable(text, shown_bytes_max);
  for (size_t at = 0; (at = shown.find('|', at)) != std::string::npos;)
    shown.replace(at, 1, "\\x7c");
  return shown;
}

std::string asked_of(protocol::Protocol protocol, Verb verb,
                     std::span<const request::Entry> descriptor) {
  std::string asked = std::string(name_of(protocol)) + ": " + std::string(name_of(verb));
  const size_t head = asked.size();
  for (const auto& [key, value] : descriptor) {
    if (asked.size() - head >= shown_bytes_max) break;
    asked += ' ';
    asked += part_text(key);
    asked += '=';
    asked += part_text(value);
  }
  return asked;
}

// The outcome of this rule alone. Of rules that settle together one may refuse and the others
// allow; none of them is charged then.
std::string_view outcome_words(const policy::Plan& plan, const policy::Plan::RuleMatch& step) {
  const auto& group = plan.group(step);
  if (group.error != request::Error::none) return "failed";
  if (group.allowed) return "allowed";
  const bool refuses = !has_allowed(plan, step);
  if (group.parked) return refuses ? "waits" : "waits for another rule";
  return refuses ? "denied" : "would allow, denied by another rule";
}

constexpr size_t example_bytes_max = 200, example_value_bytes_max = 64;

// Does a word of the key say that its value may be a secret? `api` and similar words stand before
// `key`.
bool may_be_secret(std::string_view key) {
  static constexpr std::string_view secrets[] = {
      "auth",   "authorization", "bearer", "cookie",     "credential", "credentials", "jwt",
      "passwd", "password",      "query",  "secret",     "session",    "sessionid",   "sid",
      "token",  "tokens",        "apikey", "passphrase", "signature"};
  static constexpr std::string_view keys_of[] = {"access", "api", "private"};
  const auto is_one_of = [](auto& words, std::string_view word) {
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
  };
  if (key == "key") return true;
  bool has_key = false, has_its_kind = false;
  std::string word;
  for (size_t i = 0; i <= key.size(); ++i) {
    const char c = i < key.size() ? key[i] : '.';
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9')) {
      word += lower;
      continue;
    }
    if (is_one_of(secrets, word)) return true;
    has_key |= word == "key";
    has_its_kind |= is_one_of(keys_of, word);
    word.clear();
  }
  return has_key && has_its_kind;
}

}  // namespace

std::string example_of(std::span<const request::Entry> descriptor) {
  std::string text;
  for (const auto& [key, value] : descriptor) {
    if (text.size() >= example_bytes_max) return text + " ...";
    if (!text.empty()) text += ' ';
    text += base::printable(key, example_value_bytes_max) + "=";
    text += may_be_secret(key.substr(0, shown_bytes_max))
                ? "..."
                : base::printable(value, example_value_bytes_max);
  }
  return text;
}

void log_decision(spdlog::logger& log, const Batch& batch, const request::Request& request,
                  const policy::Plan::RequestPlan& part) {
  const policy::Plan& plan = batch.plan;
  const Verb verb = request.verb;
  std::string asked = asked_of(batch.protocol, verb, batch.requests.descriptor(request));
  if (protocol::describe(batch.protocol).tags_are_ids && !request.tag.empty())
    asked += " id " + part_text(request.tag);
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - batch.began);
  for (const auto& step : plan.steps(part)) {
    const auto& rule = *step.rule;
    std::string left;  // a request may name no limit
    for (const auto& decision : plan.decisions(step))
      left += fmt::format(", {} of {} left", decision.remaining, decision.limit);
    log.debug("{} | rule {}[{}] {}:{}{}{} | {} {}{} | took {} us", asked,
              rule.name.empty() ? "" : base::printable(rule.name, shown_bytes_max) + " ",
              base::printable(rule.pattern, shown_bytes_max), rule.file, rule.line,
              rule.comment.empty() ? "" : " # ", base::printable(rule.comment, shown_bytes_max),
              rule.mode == Mode::shadow ? "shadow" : "decides", outcome_words(plan, step), left,
              took.count());
  }
  if (!part.error.empty())
    log.debug("{} | failed: {}", asked, part.error);
  else if (part.step_count == 0)
    log.debug("{} | {} | took {} us", asked,
              verb == Verb::noop || verb == Verb::list ? "no rule is asked" : "no rule applies",
              took.count());
}

namespace {

// Of the steps of that mode that refused, the one with the longest wait; null: none refused.
const policy::Plan::RuleMatch* refusing_step(const policy::Plan& plan,
                                             const policy::Plan::RequestPlan& part, Mode mode,
                                             base::Duration& longest) {
  const policy::Plan::RuleMatch* by = nullptr;
  for (const auto& step : plan.steps(part)) {
    const auto& group = plan.group(step);
    if (step.rule->mode != mode || group.error != request::Error::none || group.answered ||
        has_allowed(plan, step))
      continue;
    for (const auto& decision : plan.decisions(step)) {
      if (decision.allowed || (by != nullptr && decision.retry_after <= longest)) continue;
      by = &step;
      longest = decision.retry_after;
    }
  }
  return by;
}

void log_refusal(spdlog::logger& log, const char* what, const Batch& batch,
                 const policy::Plan::RuleMatch& by, base::Duration longest) {
  const policy::Rule& rule = *by.rule;
  log.info("{} | {} | rule [{}] | actor {} | retry_after {}", what, name_of(batch.protocol),
           base::printable(rule.name.empty() ? rule.pattern : rule.name, shown_bytes_max),
           part_text(by.actor.data() == nullptr ? std::string(batch.plan.charge(by).key)
                                                : policy::actor_name(by.actor, rule.actor)),
           longest == base::never ? "never"
                                  : fmt::format("{:.3f} s", static_cast<double>(longest.us) / 1e6));
}

}  // namespace

void log_denied(spdlog::logger& log, DenialSampler& denials, uint64_t every, const Batch& batch,
                Verb verb, const policy::Plan::RequestPlan& part, const request::Verdict& verdict) {
  if (!request::asks_for_units(verb)) return;
  base::Duration longest{};
  if (const auto* const by = refusing_step(batch.plan, part, Mode::shadow, longest);
      by != nullptr && denials.wants(every, batch.now))
    log_refusal(log, "would be denied, in shadow", batch, *by, longest);
  if (outcome_of(verb, verdict) != RequestOutcome::denied || !denials.wants(every, batch.now))
    return;
  if (const auto* const by = refusing_step(batch.plan, part, Mode::enforce, longest))
    log_refusal(log, "denied", batch, *by, longest);
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
