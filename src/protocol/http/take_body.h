// Parses the JSON body (RFC 8259, UTF-8) of requests such as takes. A pure parser, without clock,
// rules, counters or connection. Any thread; if it is reused it allocates nothing once its lists
// have grown.
//
//   subject   {"entries": {KEY: VALUE...}} or {"key": KEY, "limits": [LIMIT...]}, and `n`
//   body      A subject, or {"takes": [subject...]}; beside it `mode`, `detail`, `timeout`, `n`,
//             `all` and `id`, if the path allows them (BodyForm).
//   entries   1 to takes_entries_max. Keys must not be empty. Values are texts; for numbers, true
//             and false the text in the body; null, lists and objects are errors. A repeated key is
//             an error.
//   key       Any text; may be empty.
//   limit     {"name"?, "quota", "window"?, "algorithm"?, "burst"?, "lease"?, "max_lease"?,
//   "over"?}.
//             `quota` and `burst`:
//             a number, or a text as in policies ("10k"). `window`: a text as in policies ("1m"),
//             or a number of seconds with up to 6 digits after the point. `algorithm` as in
//             policies, by default token_bucket, the only one that may have a burst. A fixed_bucket
//             has no window; concurrency has a lease in place of it, and may have a longest one,
//             both like windows. Or a window of the calendar, with members of its own, as in
//             policies. quota and burst are 1 or more, a window is 1 us to
//             base::bounds::window_us_max. `over`: "refuse" (the default) or "count". There are 1
//             to limit::slots_max limits, with at most limit::cells_max cells together.
//   name      As names of rules: 1 to 64 letters, digits, `_`, `-`, `.`, `:`, `/`; by default
//             empty. The names of a list must differ.
//   numbers   Integers, 0 to base::bounds::quota_max, unless stated otherwise; 1.0 and 1e2 are
//             integers.
//   hold      The bodies of `read_hold`, by what is asked (request/hold.h):
//               reserve   subjects with `n` and `detail` as above; `ttl`, `id`, `holder`
//               extend    `id`, units, `ttl`        renew     `id`, `ttl`
//               commit    `id`, units, and perhaps subjects, without an `n` of their own
//               release   `id`
//             `id` and units are required, but the id of a reserve. `ttl`: seconds above 0, up to
//             hold_ttl_max, with up to 6 digits after the point. `holder`: a text of up to
//             request::holder_bytes_max bytes. Units: `n`, a number or a list of 1 to
//             takes_together_max numbers; where there are subjects one for each.
//   members   Unknown and repeated members are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/hold.h"
#include "request/request.h"

namespace sluice::http {

// Reads tokens of JSON (RFC 8259), only for the reader of take_body.h, which asks at each place for
// the tokens that may come next. Texts without escapes are views into the input. One thread.

// A number of JSON times 10^places, if that is an integer from 0 to `most`; otherwise empty. It is
// computed from the digits, so nothing is rounded.
std::optional<int64_t> scale_number(std::string_view number, int64_t places, int64_t most);

// The first byte in [at, end) that a text of JSON cannot contain unescaped: a quote, a backslash, a
// control character.
const char* skip_plain(const char* at, const char* end);

// Scans `text`, which must be UTF-8. A function that returns false has set `problem` to a sentence,
// unless it says otherwise; then nothing else may be used. Texts that had escapes are in `texts`,
// which must outlive the scanner, as must `problem`. `problem` is not part of a base::Result
// because each body is read here, token by token, and the text's memory is used again.
class TakeBodyScanner {
 public:
  TakeBodyScanner(std::string_view text, base::Arena& texts, std::string& problem)
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        texts_(texts),
        problem_(problem) {}

  // Skips blanks, and returns the next byte without consuming it; 0 at the end.
  char peek() {
    for (; at_ < end_; ++at_) {
      const char c = *at_;
      if (static_cast<unsigned char>(c) > ' ') return c;
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    }
    return '\0';
  }
  // Skips blanks and consumes `c`, which must not be 0. False: another byte is next; not reported.
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  // Whether any text had escapes.
  bool has_copies() const { return has_copies_; }
  bool is_done() { return peek() == '\0' && at_ == end_; }

  // Reads a text, at its quote.
  bool read_text(std::string_view& to) {
    const char* const first = ++at_;
    at_ = skip_plain(at_, end_);
    if (at_ == end_ || *at_ != '"') return read_escaped(first, to);
    to = {first, static_cast<size_t>(at_++ - first)};
    return true;
  }

  bool is_at_number() {
    const char c = peek();
    return c == '-' || (c >= '0' && c <= '9');
  }
  // Reads a number at this place; `to` is its text.
  bool read_number(std::string_view& to);

  // Reads `true` or `false` into `to`. False: it is neither; not reported.
  bool take_boolean(std::string_view& to);

  // These report a problem and return false. `problem` becomes the parts, one after the other.
  bool fail(std::initializer_list<std::string_view> parts);
  // For a value that is not allowed in its place, or that is not a value.
  bool refuse(std::string_view sentence);
  // "`,`": the token that was expected.
  bool expected(std::string_view token);
  // "an escape that JSON does not have": the broken token that was found.
  bool broken(std::string_view what);

 private:
  std::string offset() const;
  bool skip_digits();
  // Reads the rest of a text that began at `first`, and has escapes or an error after a plain part.
  bool read_escaped(const char* first, std::string_view& to);
  bool unescape(const char* last, char*& out);
  bool unescape_unit(const char* last, char*& out);

  const char* const begin_;
  const char* at_;
  const char* const end_;
  base::Arena& texts_;
  std::string& problem_;
  bool has_copies_ = false;
};

inline constexpr size_t takes_entries_max = 64;   // of one subject
inline constexpr size_t takes_together_max = 64;  // of `takes`
inline constexpr size_t batch_takes_max = 1000;   // of /v1/batch

// The longest `ttl` that a body may name. A rule may have a shorter bound.
inline constexpr base::Duration hold_ttl_max = base::seconds(86'400);

// What the path of the request allows in the body.
struct BodyForm {
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
    int64_t overdraft = limit::Overdrafts::none;
  };
  bool has_takes = false;  // the subjects are in `takes`
  bool each = false;       // mode
  bool detail = false;
  bool has_copies = false;  // some texts had escapes, so they are not views into the body's text
  std::optional<base::Duration> timeout{};
  std::string_view id{};  // empty: there is none
  // 1 or more; of a hold's body may be none. `n` and `all` of the body apply to those without their
  // own.
  std::vector<TakeSubject> subjects;
  std::vector<request::Entry> entries;
  std::vector<NamedLimit> limits;
  // The problem as a sentence on one line, and its place as a JSON pointer (RFC 6901); empty: none.
  // For a member whose name has more than 64 bytes the pointer is that of its object.
  std::string problem, pointer;

  // Set by `read_hold` alone.
  base::Duration ttl{};         // 0: there is none
  std::string_view holder{};    // empty: there is none
  std::vector<int64_t> units;   // of extend and commit
  bool has_units_list = false;  // `n` is a list

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
  bool read(std::string_view json, const BodyForm& wanted, TakeBody& body);
  // The same of a body that asks about a hold.
  bool read_hold(std::string_view json, request::HoldAsk ask, TakeBody& body);

 private:
  void begin(TakeBody& body);

  base::Arena texts_;  // the texts that had escapes
};

// ---- A take whose subject is in the query of a GET, for curl and for proxies that cannot send
// bodies: `key=K&limit=100&window=1m&algorithm=A&burst=B&n=1`, or `entry=KEY=VALUE` for each entry,
// and `n`. Percent-encoded; `+` is a blank. ----

struct TakeOfQuery {
  std::string body;        // the body of an equivalent POST, which is read instead
  bool always_ok = false;  // the query has status=200
};
base::Result<TakeOfQuery> body_of_query(std::string_view query);

}  // namespace sluice::http
