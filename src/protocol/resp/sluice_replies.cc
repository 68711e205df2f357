#include "protocol/resp/sluice_replies.h"

#include <algorithm>
#include <string>

#include "limit/limit.h"

namespace sluice::resp {
namespace {

using limit::Decision;
using request::Charge;

std::span<const Decision> decisions_of(const request::Verdict& verdict, const Charge& charge) {
  return {verdict.decisions + charge.decision_first, charge.limits.size()};
}

// Does the peek show a counter that is not fresh? Time alone never fills a fixed bucket, and its
// reset_after is `never` even if it is full, so it is judged by its units.
bool is_live(const limit::Limit& limit, const Decision& look) {
  if (limit.algorithm == limit::Algorithm::fixed_bucket) return look.remaining < look.limit;
  return limit::has_counter(limit.algorithm) && look.reset_after.us > 0;
}

// Calls `visit(decision)` for each limit of a charge whose counter is not fresh.
template <class Visit>
void each_live(const request::Verdict& verdict, const Charge& charge, Visit visit) {
  if (!charge.counted) return;
  const auto decisions = decisions_of(verdict, charge);
  for (size_t i = 0; i < decisions.size(); ++i)
    if (is_live(charge.limits[i], decisions[i])) visit(decisions[i]);
}

void append_numbers(const Decision& decision, bool allowed, wire::RespWriter& out) {
  out.integer(allowed ? 1 : 0);
  out.integer(decision.limit);
  out.integer(shown_remaining(decision));
  out.integer(decision.allowed ? 0 : milliseconds_up(decision.retry_after));
  out.integer(milliseconds_up(decision.reset_after));
}

void append_pair(std::string_view name, int64_t value, wire::RespWriter& out) {
  out.bulk(name);
  out.integer(value);
}

void append_name(const request::Verdict& verdict, wire::RespWriter& out) {
  if (verdict.rule.empty())
    out.null();
  else
    out.bulk(verdict.rule);
}

}  // namespace

int64_t milliseconds_up(base::Duration length) {
  if (length == base::never) return -1;
  return length.us / 1000 + (length.us % 1000 > 0 ? 1 : 0);
}

void append_five(const request::Verdict& verdict, bool allowed, wire::RespWriter& out) {
  out.list(5);
  append_numbers(*verdict.tightest, allowed, out);
}

void append_five_and_name(const request::Verdict& verdict, wire::RespWriter& out) {
  out.list(6);
  append_numbers(*verdict.tightest, verdict.allowed, out);
  append_name(verdict, out);
}

void append_charged(const request::Verdict& verdict, bool with_name, wire::RespWriter& out) {
  const Decision& shown = *verdict.tightest;
  out.list(with_name ? 7 : 6);
  out.integer(verdict.over ? 0 : 1);
  out.integer(shown.limit);
  out.integer(shown_remaining(shown));
  out.integer(milliseconds_up(shown.retry_after));
  out.integer(milliseconds_up(shown.reset_after));
  out.integer(shown.remaining < 0 ? -shown.remaining : 0);
  if (with_name) append_name(verdict, out);
}

void append_waited(const request::Verdict& verdict, wire::RespWriter& out) {
  out.list(6);
  append_numbers(*verdict.tightest, verdict.allowed, out);
  out.integer(milliseconds_up(verdict.waited));
}

void append_explanation(const request::Verdict& verdict, wire::RespWriter& out) {
  out.map(3);
  append_pair("allowed", verdict.allowed ? 1 : 0, out);
  out.bulk("rule");
  out.bulk(verdict.rule);
  out.bulk("limits");
  size_t count = 0;
  for (const Charge& charge : verdict.charges) count += charge.limits.size();
  out.list(count);
  for (const Charge& charge : verdict.charges) {
    const auto decisions = decisions_of(verdict, charge);
    for (size_t i = 0; i < charge.limits.size(); ++i) {
      const limit::Limit& limit = charge.limits[i];
      out.map(8);
      out.bulk("counter");
      out.bulk(charge.space->prefix + std::string(charge.key) + charge.space->suffix);
      out.bulk("algorithm");
      out.bulk(name_of(limit.algorithm));
      append_pair("limit", decisions[i].limit, out);
      append_pair("window_ms", milliseconds_up(limit.window), out);
      append_pair("allowed", decisions[i].allowed ? 1 : 0, out);
      append_pair("remaining", shown_remaining(decisions[i]), out);
      append_pair("retry_after_ms",
                  decisions[i].allowed ? 0 : milliseconds_up(decisions[i].retry_after), out);
      append_pair("reset_after_ms", milliseconds_up(decisions[i].reset_after), out);
    }
  }
}

size_t live_counters(const request::Verdict& verdict) {
  size_t count = 0;
  for (const Charge& charge : verdict.charges) {
    bool live = false;
    each_live(verdict, charge, [&](const Decision&) { live = true; });
    count += live ? 1 : 0;
  }
  return count;
}

base::Duration lives_for(const request::Verdict& verdict) {
  base::Duration longest{};
  for (const Charge& charge : verdict.charges)
    each_live(verdict, charge,
              [&](const Decision& decision) { longest = std::max(longest, decision.reset_after); });
  return longest;
}

}  // namespace sluice::resp
