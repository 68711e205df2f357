// Writes replies to SLUICE.* from verdicts. Times are in milliseconds, rounded up; -1 means never.
// Pure functions, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/limit.h"
#include "request/session.h"
#include "wire/resp.h"

namespace sluice::resp {

// Appends: allowed (1 or 0), limit, remaining, retry_after_ms (0 if allowed), reset_after_ms.
// `verdict.tightest` must not be null.
void append_five(const request::Verdict& verdict, bool allowed, wire::RespWriter& out);
// The same five, and the name of the rule that is shown; null if it has no name.
void append_five_and_name(const request::Verdict& verdict, wire::RespWriter& out);

// The same five, and the time that the request waited, in milliseconds.
void append_waited(const request::Verdict& verdict, wire::RespWriter& out);

// Appends of a charge: within (1, or 0 if a limit is in debt), limit, remaining, retry_after_ms
// (until one unit would be allowed), reset_after_ms, debt; and if `with_name` the name of the rule.
void append_charged(const request::Verdict& verdict, bool with_name, wire::RespWriter& out);

// Appends the decision of each limit of each enforced rule, with the names of the counters.
void append_explanation(const request::Verdict& verdict, wire::RespWriter& out);

// live_counters: the number of counters that a peek found not to be fresh. lives_for: the time
// until the last of them is fresh; 0: no such counter; base::never: one of them never will be.
size_t live_counters(const request::Verdict& verdict);
base::Duration lives_for(const request::Verdict& verdict);

// The units left, as clients see them: 0 for a counter in debt, which has used more than its limit
// since that was lowered.
inline int64_t shown_remaining(const limit::Decision& decision) {
  return std::max<int64_t>(decision.remaining, 0);
}

// Whole milliseconds, rounded up; -1: never.
int64_t milliseconds_up(base::Duration length);

}  // namespace sluice::resp
