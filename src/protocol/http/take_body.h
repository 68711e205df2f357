// The body of a request that takes: JSON (RFC 8259, UTF-8) to what it asks. A pure parser that
// knows of no clock, rule, counter or connection. Any thread; kept and used again it allocates
// nothing once its lists have grown.
//
//   subject   {"entries": {KEY: VALUE...}} or {"key": KEY, "limits": [LIMIT...]}, and `n`
//   body      a subject, or {"takes": [subject...]}; beside it `mode`, `detail`, `timeout`, `n`,
//             `all`, as far as the path has them (Wanted)
//   entries   1 to takes_entries_max. Keys are not empty. Values are texts; of numbers, true and
//             false the text that stands there; null, lists and objects are errors. A key that
//             comes twice is an error.
//   key       Any text, empty too.
//   limit     {"name"?, "quota", "window"?, "algorithm"?, "burst"?}. `quota` and `burst`: a number,
//             or a text as policies have it ("10k"). `window`: a text as policies have it ("1m"),
//             or a number of seconds with up to 6 digits behind the point. `algorithm` is as in
//             policies, token_bucket by default; burst is for it alone. A fixed_bucket has no
//             window. quota and burst are 1 or more, a window is 1 us to
//             base::bounds::window_us_max. 1 to limit::slots_max of them, together of
//             limit::cells_max cells.
//   name      As names of rules, 1 to 64 of letters, digits, `_`, `-`, `.`, `:`, `/`; by default
//             empty. Two of one list must differ.
//   numbers   Whole, 0 to base::bounds::quota_max, unless said otherwise; 1.0 and 1e2 are whole.
//   members   Unknown ones are an error, and so are those that come twice.
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

// What the path of the request allows.
struct Wanted {
  size_t takes_max = takes_together_max;  // 0: no `takes`
  bool only_takes = false;                // `takes`, and beside it `detail` alone (/v1/batch)
  bool has_mode = false;                  // "mode": "all" (the default) or "each"
  bool has_detail = true;
  bool has_n = true;
  bool has_all = false;      // "all": true in place of `n`; and then `n` is 1 or more
  bool has_timeout = false;  // "timeout": seconds from 0 on, of up to 6 digits behind the point; at
                             // most base::bounds::window_us_max
};

// What decides: the rules that `entries` meet, or where `is_inline` the limits of the counter
// `key`.
struct TakeSubject {
  bool is_inline = false;
  bool all = false;
  int64_t n = 1;
  std::string_view key{};         // inline
  uint32_t first = 0, count = 0;  // among TakeBody::limits if it is inline, else ::entries
};

// One body. Views point into its text or into the body itself, and live until the next `read`.
struct TakeBody {
  struct NamedLimit {
    limit::Limit limit;
    std::string_view name{};  // empty: it was given none
  };
  bool has_takes = false;  // the subjects stood in `takes`
  bool each = false;       // mode
  bool detail = false;
  bool has_copies = false;  // texts that had escapes are not views into the body's text
  std::optional<base::Duration> timeout{};
  // 1 or more. `n` and `all` of the body count for those that have neither.
  std::vector<TakeSubject> subjects;
  std::vector<request::Entry> entries;
  std::vector<NamedLimit> limits;
  // What is wrong: a sentence on one line, and where as a JSON pointer (RFC 6901); empty: nothing.
  // Of a member whose name has more than 64 bytes the pointer is that of its object.
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

  // False: it is none, which `body.problem` and `body.pointer` say; all else is of no use then.
  bool read(std::string_view json, const Wanted& wanted, TakeBody& body);

 private:
  base::Arena texts_;  // those that had escapes
};

}  // namespace sluice::http
