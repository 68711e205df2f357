// Parses the JSON body (RFC 8259, UTF-8) of requests such as takes. A pure parser, without clock,
// rules, counters or connection. Any thread; if it is reused it allocates nothing once its lists
// have grown.
//
//   subject   {"entries": {KEY: VALUE...}} or {"key": KEY, "limits": [LIMIT...]}, and `n`
//   body      A subject, or {"takes": [subject...]}; beside it `mode`, `detail`, `timeout`, `n`,
//             `all` and `id`, if the path allows them (Wanted).
//   entries   1 to takes_entries_max. Keys must not be empty. Values are texts; for numbers, true
//             and false the text in the body; null, lists and objects are errors. A repeated key is
//             an error.
//   key       Any text; may be empty.
//   limit     {"name"?, "quota", "window"?, "algorithm"?, "burst"?, "over"?}. `quota` and `burst`:
//   a number,
//             or a text as in policies ("10k"). `window`: a text as in policies ("1m"), or a number
//             of seconds with up to 6 digits after the point. `algorithm` as in policies, by
//             default token_bucket, the only one that may have a burst. A fixed_bucket has no
//             window. quota and burst are 1 or more, a window is 1 us to
//             base::bounds::window_us_max. `over`: "refuse" (the default) or "count". There are 1
//             to limit::slots_max limits, with at most limit::cells_max cells together.
//   name      As names of rules: 1 to 64 letters, digits, `_`, `-`, `.`, `:`, `/`; by default
//             empty. The names of a list must differ.
//   numbers   Integers, 0 to base::bounds::quota_max, unless stated otherwise; 1.0 and 1e2 are
//             integers.
//   members   Unknown and repeated members are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::http {

inline constexpr size_t takes_entries_max = 64;   // of one subject
inline constexpr size_t takes_together_max = 64;  // of `takes`
inline constexpr size_t batch_takes_max = 1000;   // of /v1/batch

// What the path of the request allows in the body.
struct Wanted {
  size_t takes_max = takes_together_max;  // 0: `takes` is not allowed
  bool only_takes = false;                // only `takes` and `detail` (/v1/batch)
  bool has_mode = false;                  // "mode": "all" (the default) or "each"
  bool has_detail = true;
  bool has_n = true;
  bool has_all = false;      // "all": true in place of `n`; then `n` must be 1 or more
  bool has_timeout = false;  // "timeout": seconds, 0 or more, with up to 6 digits after the point;
                             // at most base::bounds::window_us_max
  bool has_id = false;       // "id": a text as request::is_charge_id has it
};

// A subject: the entries, for which the rules decide; or if `is_inline` is true the counter `key`
// with limits of its own.
struct TakeSubject {
  bool is_inline = false;
  bool all = false;
  int64_t n = 1;
  std::string_view key{};         // if is_inline
  uint32_t first = 0, count = 0;  // in TakeBody::limits if is_inline, else in ::entries
};

// One body. Views point into its text or into the object itself, and are valid until the next
// `read`.
struct TakeBody {
  struct NamedLimit {
    limit::Limit limit;
    std::string_view name{};  // empty: it has no name
    bool counts = false;      // "over": "count"
  };
  bool has_takes = false;  // the subjects are in `takes`
  bool each = false;       // mode
  bool detail = false;
  bool has_copies = false;  // some texts had escapes, so they are not views into the body's text
  std::optional<base::Duration> timeout{};
  std::string_view id{};  // empty: there is none
  // 1 or more. `n` and `all` of the body apply to those without their own.
  std::vector<TakeSubject> subjects;
  std::vector<request::Entry> entries;
  std::vector<NamedLimit> limits;
  // The problem as a sentence on one line, and its place as a JSON pointer (RFC 6901); empty: none.
  // For a member whose name has more than 64 bytes the pointer is that of its object.
  std::string problem, pointer;

  std::span<const request::Entry> entries_of(const TakeSubject& subject) const {
    if (subject.is_inline) return {};
    return std::span(entries).subspan(subject.first, subject.count);
  }
  std::span<const NamedLimit> limits_of(const TakeSubject& subject) const {
    if (!subject.is_inline) return {};
    return std::span(limits).subspan(subject.first, subject.count);
  }
};

class TakeBodyReader {
 public:
  TakeBodyReader() = default;
  TakeBodyReader(const TakeBodyReader&) = delete;
  TakeBodyReader& operator=(const TakeBodyReader&) = delete;

  // False: the body has an error, in `body.problem` and `body.pointer`; the rest must not be used.
  bool read(std::string_view json, const Wanted& wanted, TakeBody& body);

 private:
  base::Arena texts_;  // the texts that had escapes
};

}  // namespace sluice::http
