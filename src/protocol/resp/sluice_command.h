// The SLUICE.* commands, from their words to what they ask: a pure parser that knows of no clock,
// rule, counter or connection. Any thread.
//
//   SLUICE.TAKE    subject [N n] [NOW ms] [WITHNAME]     SLUICE.RESET    subject
//   SLUICE.PEEK    subject [N n] [WITHNAME]              SLUICE.EXPLAIN  subject
//   SLUICE.PUT     subject [N n | ALL]                   SLUICE.INFO
//   SLUICE.WAIT    timeout subject [N n]                 SLUICE.HELP
//   SLUICE.MTAKE   numsubjects subject... [EACH] [N n]
//
//   subject   KEY=VALUE... up to the first word of this grammar (not of MTAKE)
//             ENTRIES numentries KEY=VALUE...
//             KEY key LIMIT quota window [ALGORITHM word] [BURST n] [LIMIT ...]
//   words     Command names, option words and algorithms are known in any case. Options come in any
//             order behind the subject, ALGORITHM and BURST behind the window of their limit; each
//             at most once.
//   entry     Cut at the first `=`; the key is not empty, the value may be. 1 to sluice_entries_max
//             of them; a key that comes twice is left to the rules.
//   key       Any bytes, none too.
//   numbers   Decimal, without `+` and zeros in front, as Redis has them. `quota` and BURST are
//             written as in policies: 100, 10_000, 5k, 2M; 1 to base::bounds::quota_max.
//   window    As in policies (250ms, 60s, 1h), or seconds with up to 6 digits behind the point (and
//             zeros behind these); 1 us to base::bounds::window_us_max. Of fixed_bucket it is 0.
//   limits    1 to limit::slots_max, of limit::cells_max cells together. BURST is for token_bucket
//             alone, which is the default.
//   timeout   A float, as BLPOP has it, to the nearest microsecond; above 0 it is 1 us at least.
//   NOW       Milliseconds since the Unix epoch, from 0 on.
#pragma once

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

namespace sluice::resp {

inline constexpr size_t sluice_subjects_max = 64;  // of one MTAKE
inline constexpr size_t sluice_entries_max = 64;   // of one subject

enum class SluiceVerb : uint8_t { take, peek, put, reset, wait, mtake, explain, info, help };

// What decides: the rules that `entries` meet, or where `is_inline` the limits of the counter
// `key`.
struct SluiceSubject {
  bool is_inline = false;
  std::string_view key{};         // inline
  uint32_t first = 0, count = 0;  // among SluiceCommand::limits if it is inline, else ::entries
  friend bool operator==(const SluiceSubject&, const SluiceSubject&) = default;
};

// One command. Kept and used again, it allocates nothing once its lists have grown. Views are into
// the words.
struct SluiceCommand {
  SluiceVerb verb = SluiceVerb::info;
  bool all = false;                     // PUT ALL: whatever `n`
  bool each = false;                    // EACH
  bool with_name = false;               // WITHNAME
  int64_t n = 1;                        // 0 to base::bounds::quota_max; of PUT from 1 on
  std::optional<base::Time> now{};      // NOW
  base::Duration timeout{};             // of WAIT, below 2^62 us; 0: for ever
  std::vector<SluiceSubject> subjects;  // of INFO and HELP none, of MTAKE 1 or more, else 1
  std::vector<request::Entry> entries;  // of all subjects
  std::vector<limit::Limit> limits;     // of all subjects; valid ones
  std::string error;                    // empty: none

  std::span<const request::Entry> entries_of(const SluiceSubject& subject) const {
    if (subject.is_inline) return {};
    return std::span(entries).subspan(subject.first, subject.count);
  }
  std::span<const limit::Limit> limits_of(const SluiceSubject& subject) const {
    if (!subject.is_inline) return {};
    return std::span(limits).subspan(subject.first, subject.count);
  }
};

// Reads a command of which `words[0]` is the name. False: it is none, and `command.error` says why
// in the words of an error reply ("ERR syntax error"), which stay until the next parse; all else of
// `command` is of no use then. What the error quotes of the input is cut at 128 bytes.
bool parse_sluice_command(std::span<const std::string_view> words, SluiceCommand& command);

// The algorithm of that name, in whatever case; nothing: no command can ask for such a one.
std::optional<limit::Algorithm> algorithm_named(std::string_view word);

// The reply to SLUICE.HELP.
std::span<const std::string_view> help_lines();

}  // namespace sluice::resp
