// Parses the SLUICE.* commands. A pure parser, without clock, rules, counters or connection. Any
// thread.
//
//   SLUICE.TAKE    subject [N n] [NOW ms] [WITHNAME]     SLUICE.RESET    subject
//   SLUICE.PEEK    subject [N n] [WITHNAME]              SLUICE.EXPLAIN  subject
//   SLUICE.PUT     subject [N n | ALL]                   SLUICE.INFO
//   SLUICE.WAIT    timeout subject [N n]                 SLUICE.HELP
//   SLUICE.CHARGE  subject [N n] [ID id] [WITHNAME]
//   SLUICE.MTAKE   numsubjects subject... [EACH] [N n]
//   SLUICE.RESERVE   ttl subject N n [ID id] [WAIT seconds] [HOLDER text] [WITHUNITS]
//   SLUICE.MRESERVE  ttl numsubjects (subject N n)... [ID id] [WAIT seconds] [HOLDER text]
//                    [WITHUNITS]
//   SLUICE.ACQUIRE   ttl subject [N n] [ID id] [WAIT seconds] [HOLDER text] [CLOSE] [WITHUNITS]
//   SLUICE.EXTEND    id [N n...] [TTL seconds] [WITHUNITS]
//   SLUICE.COMMIT    id N n... [SUBJECT subject]...
//   SLUICE.RELEASE   id                                  SLUICE.RENEW     id [ttl]
//
//   subject   KEY=VALUE... up to the first word of this grammar (not of MTAKE)
//             ENTRIES numentries KEY=VALUE...
//             KEY key LIMIT quota window [ALGORITHM word] [BURST n] [MAXLEASE window]
//                     [OVER COUNT|REFUSE] [OVERDRAFT n] [LIMIT ...]
//             KEY key LIMIT quota HOUR|DAY|WEEK|MONTH|YEAR [ZONE name] [WEEKSTARTS day]
//                     [MONTHDAY n] [YEARDAY MM-DD] [STARTSAT HH:MM] [OVER COUNT|REFUSE] [LIMIT ...]
//   words     Command names, options, algorithms, windows and days may have any case. Options may
//   have any order
//             after the subject, ALGORITHM, BURST, MAXLEASE, OVER, OVERDRAFT and the words of a
//             calendar after the window of their limit; each at most once.
//   entry     Split at the first `=`; the key must not be empty, the value may. 1 to
//             sluice_entries_max entries; the rules decide about repeated keys.
//   key       Any bytes; may be empty.
//   numbers   Decimal, without `+` and leading zeros, as in Redis. `quota` and BURST are written as
//             in policies: 100, 10_000, 5k, 2M; 1 to base::bounds::quota_max.
//   window    As in policies (250ms, 60s, 1h), or seconds with up to 6 digits after the point (and
//             zeros after these); 1 us to base::bounds::window_us_max. For fixed_bucket it is 0,
//             for concurrency the lease, which is also the longest without MAXLEASE, as long as the
//             lease or longer.
//             Or a word of the calendar.
//   limits    1 to limit::slots_max, with at most limit::cells_max cells together. BURST is only
//             for token_bucket, which is the default.
//   timeout   A float, as in BLPOP, to the nearest microsecond; above 0 it is at least 1 us. So are
//             ttl, TTL and WAIT. ttl and TTL are at most sluice_ttl_max.
//   NOW       Milliseconds since the Unix epoch, 0 or more.
//   ID, id    As request::is_charge_id has it.
//   HOLDER    Any bytes, at most request::holder_bytes_max.
//   N n...    1 to sluice_subjects_max numbers, up to the next option. SUBJECT, if it comes, comes
//             once for each of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/session.h"
#include "wire/resp.h"

namespace sluice::resp {

inline constexpr size_t sluice_subjects_max = 64;  // of one command
inline constexpr size_t sluice_entries_max = 64;   // of one subject
inline constexpr base::Duration sluice_ttl_max = base::seconds(86'400);

enum class SluiceVerb : uint8_t {
  take,
  peek,
  put,
  reset,
  wait,
  mtake,
  charge,
  explain,
  info,
  help,
  reserve,
  mreserve,
  acquire,
  extend,
  commit,
  release,
  renew
};

// A subject: the entries, for which the rules decide; or if `is_inline` is true the counter `key`
// with limits of its own.
struct SluiceSubject {
  bool is_inline = false;
  std::string_view key{};         // if is_inline
  uint32_t first = 0, count = 0;  // in SluiceCommand::limits if is_inline, else in ::entries
  limit::LimitMask counts = 0;    // the limits with OVER COUNT
  bool has_overdraft = false;     // a limit has OVERDRAFT
  friend bool operator==(const SluiceSubject&, const SluiceSubject&) = default;
};

// One command. The object is reused: once its lists have grown it allocates nothing. Views point
// into the words.
struct SluiceCommand {
  SluiceVerb verb = SluiceVerb::info;
  bool all = false;                     // PUT ALL; then `n` is ignored
  bool each = false;                    // EACH
  bool with_name = false;               // WITHNAME
  bool with_units = false;              // WITHUNITS
  bool closes = false;                  // CLOSE
  int64_t n = 1;                        // 0 (PUT: 1) to base::bounds::quota_max
  std::optional<base::Time> now{};      // NOW
  std::string_view id{};                // ID, or the hold's; empty: there is none
  base::Duration timeout{};             // below 2^62 us; 0: SLUICE.WAIT: no bound; else no wait
  base::Duration ttl{};                 // of a hold; 0: the server's, or the one that it has
  std::string_view holder{};            // HOLDER
  std::vector<int64_t> units;           // RESERVE ... ACQUIRE: of each subject; EXTEND, COMMIT: N
  std::vector<SluiceSubject> subjects;  // INFO, HELP, and commands of an id: none; COMMIT: none,
                                        // or one for each of `units`; MTAKE, MRESERVE: 1 or more;
                                        // else 1
  std::vector<request::Entry> entries;  // of all subjects
  std::vector<limit::Limit> limits;     // of all subjects; all are valid
  std::vector<int64_t> overdrafts;      // of these limits (limit::Overdrafts)
  std::string error;                    // empty: none

  std::span<const request::Entry> entries_of(const SluiceSubject& subject) const {
    if (subject.is_inline) return {};
    return std::span(entries).subspan(subject.first, subject.count);
  }
  std::span<const limit::Limit> limits_of(const SluiceSubject& subject) const {
    if (!subject.is_inline) return {};
    return std::span(limits).subspan(subject.first, subject.count);
  }
  limit::Overdrafts overdrafts_of(const SluiceSubject& subject) const {
    limit::Overdrafts its;
    const auto of = limits_of(subject);
    for (size_t i = 0; i < of.size(); ++i) its.add(of[i], overdrafts[subject.first + i]);
    return its;
  }
};

// Parses a command with the name `words[0]`. False: it has an error; `command.error` is the error
// reply ("ERR syntax error"), valid until the next parse, and the rest of `command` must not be
// used. Input that the error quotes is cut to 128 bytes.
bool parse_sluice_command(std::span<const std::string_view> words, SluiceCommand& command);

// The algorithm with that name, in any case; empty: commands cannot use such an algorithm.
std::optional<limit::Algorithm> algorithm_named(std::string_view word);

// The reply to SLUICE.HELP.
std::span<const std::string_view> help_lines();

// Writes replies to SLUICE.* from verdicts. Times are in milliseconds, rounded up; -1 means never.
// Pure functions, any thread.

// Appends: allowed (1 or 0), limit, remaining, retry_after_ms (0 if allowed), reset_after_ms.
// `verdict.tightest` must not be null.
void append_five(const request::Verdict& verdict, bool allowed, wire::RespWriter& out);
// The same five, and the name of the rule that is shown; null if it has no name.
void append_five_and_name(const request::Verdict& verdict, wire::RespWriter& out);

// The same five, and the time that the request waited, in milliseconds.
void append_waited(const request::Verdict& verdict, wire::RespWriter& out);

// Appends of a charge: within (1, or 0 if a limit is in debt), limit, remaining, retry_after_ms
// (until one unit would be allowed), reset_after_ms, debt; if `with_name` the name of the rule; and
// last how many units were counted.
void append_charged(const request::Verdict& verdict, bool with_name, wire::RespWriter& out);

// Appends the decision of each limit of each enforced rule, with the names of the counters.
void append_explanation(const request::Verdict& verdict, base::Time now, wire::RespWriter& out);

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
