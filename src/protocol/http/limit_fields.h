// Header fields of a response that tell of limits, in the styles that are in use. Pure functions
// over values; any thread. Nothing is allocated once the lists have grown.
//
//   ietf               RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//                      RateLimit: "burst";r=37;t=12
//                      (draft-ietf-httpapi-ratelimit-headers-10; RFC 9651)
//   retry-after        Retry-After: 12, of denials (RFC 9110, 10.2.3)
//   draft-06           RateLimit-Limit: 100, RateLimit-Remaining: 37, RateLimit-Reset: 12; where
//                      its policy has a name also that, as 100;w=60, 1000;w=86400
//   draft-07           RateLimit-Policy: as in draft-06
//                      RateLimit: limit=100, remaining=37, reset=12
//   x-ratelimit        X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset
//   x-ratelimit-epoch  the same, Reset as Unix time
//   x-rate-limit       X-Rate-Limit-Limit, X-Rate-Limit-Remaining, X-Rate-Limit-Reset, Unix time
//
//   q, w           The limit's quota; its window in whole seconds, left out where there is none.
//   sluice-burst   A bucket's burst, where it differs from the quota.
//   limit, remaining   Of the decision; debt is sent as 0.
//   t              Seconds until there is more (time_to_more). Left out where there never is.
//   reset          Seconds until the window ends (fixed_window, aligned_window); without a window
//                  with an end until one unit passes where none is left, else until the counter is
//                  as fresh. Left out where that never is.
//   Retry-After    LimitFields::retry_after, or `t` of the shown limit if that is later; 1 at
//                  least. Left out where it never passes.
//   numbers        Seconds are rounded up. No number is above wire::sf_integer_max.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/text_writer.h"
#include "base/time.h"
#include "limit/limit.h"
#include "wire/http_field.h"

namespace sluice::http {

// The order is that of the names.
enum class HeaderStyle : uint8_t {
  ietf,
  retry_after,
  draft_06,
  draft_07,
  x_ratelimit,
  x_ratelimit_epoch,
  x_rate_limit,
};
inline constexpr std::array<std::string_view, 7> header_style_names = {
    "ietf",        "retry-after",       "draft-06",     "draft-07",
    "x-ratelimit", "x-ratelimit-epoch", "x-rate-limit",
};
static_assert(header_style_names.size() == static_cast<size_t>(HeaderStyle::x_rate_limit) + 1);

// The style of that name, as it is spelt; nothing: there is none.
std::optional<HeaderStyle> header_style_named(std::string_view name);

// The names of a style's fields. Empty: that field is not sent.
struct HeaderNames {
  std::string policy;     // ietf, draft_06, draft_07; of draft_06 empty by default
  std::string limit;      // of ietf and draft_07 the one that tells all there is
  std::string remaining;  // draft_06, x_...
  std::string reset;      // draft_06, x_...; of retry_after its one field
};

// In a canonical case, which a writer of HTTP/2 makes lower.
HeaderNames default_header_names(HeaderStyle style);

struct HeaderOptions {
  std::vector<HeaderStyle> styles = {HeaderStyle::ietf, HeaderStyle::retry_after};  // as sent
  bool ratelimit_all = false;  // RateLimit of ietf has all limits, not only the shown one
  std::array<HeaderNames, header_style_names.size()> names{};  // by style

  HeaderOptions();  // with the default names

  HeaderNames& names_of(HeaderStyle style) { return names[static_cast<size_t>(style)]; }
  const HeaderNames& names_of(HeaderStyle style) const { return names[static_cast<size_t>(style)]; }
};

// A name of a field, so that all of them have room in an answer.
inline constexpr size_t field_name_bytes_max = 40;

// What is wrong with them, as a sentence: a name that no field may have, one that is too long, one
// that answers have for another reason, or one that two fields of the styles share, whatever its
// case. Empty: nothing.
std::string problem_of(const HeaderOptions& options);

// A list of fields, kept and used again: as lines of HTTP/1.1, and each by itself.
class FieldList {
 public:
  // Between the two the value is appended to the buffer.
  base::Buffer& begin(std::string_view name) {
    const size_t first = lines_.size();
    base::TextWriter writer(lines_, name.size() + 2);
    writer.put(name);
    writer.put(": ");
    writer.finish();
    fields_.push_back({first, first + name.size(), 0});
    return lines_;
  }
  void end() {
    fields_.back().end = lines_.size();
    lines_.append("\r\n");
  }

  void clear() {
    fields_.clear();
    lines_.clear();
  }
  size_t size() const { return fields_.size(); }
  // Valid, as the lines are, until the next `begin` or `clear`.
  wire::HttpField operator[](size_t i) const {
    const Field& field = fields_[i];
    const size_t value = field.name_end + 2;
    return {lines().substr(field.first, field.name_end - field.first),
            lines().substr(value, field.end - value)};
  }
  // "Name: value\r\n" for each.
  std::string_view lines() const { return lines_.view(); }

 private:
  struct Field {
    size_t first, name_end, end;  // in lines_
  };
  std::vector<Field> fields_;
  base::Buffer lines_;
};

// Members of RateLimit-Policy and RateLimit, at most: the first ones. Past it: left out, as clients
// bound their header.
inline constexpr size_t limit_members_max = 32;

// An enforced limit with a counter that the request met.
struct ShownLimit {
  std::string_view name{};  // of the member, with "-2" and so on where it needs one; empty: default
  limit::Limit limit{};
  limit::Decision decision{};
  // What append_policy_member has written for that name and limit; empty: it is written again.
  std::string_view policy_member{};
  std::string_view quoted_name{};  // likewise what append_member_name has
  std::string_view partition{};    // the bytes of `pk`; empty: it is left out
};

struct LimitFields {
  std::span<const ShownLimit> limits{};  // in order; none: no field but Retry-After
  size_t shown = 0;  // the one that the answer shows; limits.size(): it has no counter
  bool denied = false;
  base::Duration retry_after{};  // of a denial, with jitter if there is any; base::never
  base::Time now{};              // for Unix times
};

// The limit's member of RateLimit-Policy (ietf), without `pk`: it changes with its rule alone.
void append_policy_member(std::string_view name, const limit::Limit& limit, base::Buffer& out);

// The name as both fields have it.
void append_member_name(std::string_view name, base::Buffer& out);

// Appends the fields of all styles, in their order.
void append_limit_fields(const LimitFields& what, const HeaderOptions& options, FieldList& out);

// A limit with the texts that describe it (ShownLimit).
struct PreparedLimit {
  std::string_view policy_member, quoted_name;
  const limit::Limit& limit;
  const limit::Decision& decision;
};

// Are ietf and retry_after the only styles, or one of them?
bool has_plain_styles(const HeaderOptions& options);

// What append_limit_fields appends for that limit alone, shown and not denied, without a partition,
// where the styles are plain: the usual answer.
void append_plain_fields(const PreparedLimit& one, const HeaderOptions& options, FieldList& out);

// Retry-After alone, as for 408 and 503, if the styles have it; none of base::never.
void append_retry_after(base::Duration retry_after, const HeaderOptions& options, FieldList& out);

// Until one unit more passes than now, and one at least, if no others are taken: never too late by
// more than is said here, and never too early.
//   fixed_window, aligned_window   to the end of the window: exact
//   token_bucket     until the next unit is whole: exact, or a microsecond late where the decision
//                    does not tell the last fraction
//   sliding_window   as if all that is used were of the window of the clock that is open, which is
//                    the end of that window and what its first unit then takes to fade; less where
//                    it was of the one before
//   sliding_log      until the newest unit falls out: exact where one unit is used
//   all              not later than the retry_after of a refusal
// base::never: nothing will come, as the counter is full or only comes back by being put back.
base::Duration time_to_more(const limit::Limit& limit, const limit::Decision& decision);

}  // namespace sluice::http
