// Replies to SLUICE.* from verdicts; times in milliseconds, rounded up, and -1 for never. Pure
// functions, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/limit.h"
#include "request/session.h"
#include "wire/resp.h"

namespace sluice::resp {

// allowed 1 or 0, limit, remaining, retry_after_ms (0 when allowed), reset_after_ms.
// `verdict.tightest` is not null.
void append_five(const request::Verdict& verdict, bool allowed, wire::RespWriter& out);
// The same five and the name of the rule that is shown; null where it has none.
void append_five_and_name(const request::Verdict& verdict, wire::RespWriter& out);

// The same five and how long it waited, in milliseconds.
void append_waited(const request::Verdict& verdict, wire::RespWriter& out);

// What each limit of each enforced rule says, with the names of the counters.
void append_explanation(const request::Verdict& verdict, wire::RespWriter& out);

// How many counters the verdict of a peek found that are not as fresh, and how long until the last
// of them is; 0: there is none, base::never: one of them never is.
size_t live_counters(const request::Verdict& verdict);
base::Duration lives_for(const request::Verdict& verdict);

// What is left, as clients see it: 0 for a counter in debt, of which more was taken than a limit
// allows that was made smaller meanwhile.
inline int64_t shown_remaining(const limit::Decision& decision) {
  return std::max<int64_t>(decision.remaining, 0);
}

// Whole milliseconds, rounded up; -1: never.
int64_t milliseconds_up(base::Duration length);

}  // namespace sluice::resp
