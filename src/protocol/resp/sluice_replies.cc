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

void append_numbers(const Decision& decision, bool allowed, wire::RespWriter& out) {
  out.integer(allowed ? 1 : 0);
  out.integer(decision.limit);
  out.integer(decision.remaining);
  out.integer(decision.allowed ? 0 : milliseconds_up(decision.retry_after));
  out.integer(milliseconds_up(decision.reset_after));
}

void append_pair(std::string_view name, int64_t value, wire::RespWriter& out) {
  out.bulk(name);
  out.integer(value);
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
  if (verdict.rule.empty())
    out.null();
  else
    out.bulk(verdict.rule);
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
      append_pair("remaining", decisions[i].remaining, out);
      append_pair("retry_after_ms",
                  decisions[i].allowed ? 0 : milliseconds_up(decisions[i].retry_after), out);
      append_pair("reset_after_ms", milliseconds_up(decisions[i].reset_after), out);
    }
  }
}

size_t live_counters(const request::Verdict& verdict) {
  return static_cast<size_t>(
      std::count_if(verdict.charges.begin(), verdict.charges.end(), [&](const Charge& charge) {
        const auto decisions = decisions_of(verdict, charge);
        return charge.counted && std::any_of(decisions.begin(), decisions.end(),
                                             [](const auto& d) { return d.reset_after.us > 0; });
      }));
}

base::Duration lives_for(const request::Verdict& verdict) {
  base::Duration longest{};
  for (const Charge& charge : verdict.charges) {
    if (!charge.counted) continue;
    for (const Decision& decision : decisions_of(verdict, charge))
      longest = std::max(longest, decision.reset_after);
  }
  return longest;
}

}  // namespace sluice::resp
