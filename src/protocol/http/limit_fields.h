// Writes the header fields of a response about limits, in the styles that are in use. Pure
// functions on values; any thread. Nothing is allocated once the lists have grown.
//
//   ietf               RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//                      RateLimit: "burst";r=37;t=12
//                      (draft-ietf-httpapi-ratelimit-headers-10; RFC 9651)
//   retry-after        Retry-After: 12, of denials (RFC 9110, 10.2.3)
//   draft-06           RateLimit-Limit: 100, RateLimit-Remaining: 37, RateLimit-Reset: 12; if its
//                      field for the policy has a name, also RateLimit-Policy: 100;w=60,
//                      1000;w=86400
//   draft-07           RateLimit-Policy: as in draft-06
//                      RateLimit: limit=100, remaining=37, reset=12
//   x-ratelimit        X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset
//   x-ratelimit-epoch  the same, Reset as Unix time
//   x-rate-limit       X-Rate-Limit-Limit, X-Rate-Limit-Remaining, X-Rate-Limit-Reset, Unix time
//
//   q, w           The limit's quota; its window in whole seconds, left out if there is none.
//   sluice-burst   A bucket's burst, if it differs from the quota.
//   limit, remaining   Those of the decision; debt is sent as 0.
//   t              Seconds until more units are available (time_to_more); left out if never.
//   reset          Seconds to the end of the window (fixed_window, aligned_window). For limits
//                  without such an end: if no unit is left until one is, otherwise until the
//                  counter is fresh. Left out if never.
//   Retry-After    LimitFields::retry_after, or `t` of the shown limit if that is later; at least
//                  1. Left out if no wait helps.
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

// In the order of the names.
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

// The style with exactly this name; empty: there is none.
std::optional<HeaderStyle> header_style_named(std::string_view name);

// The names of a style's fields. An empty name: the field is not sent.
struct HeaderNames {
  std::string policy;     // ietf, draft_06 (by default empty), draft_07
  std::string limit;      // for ietf and draft_07 the field with all values
  std::string remaining;  // draft_06, x_...
  std::string reset;      // draft_06, x_...; for retry_after its only field
};

// In canonical case; a writer of HTTP/2 converts them to lower case.
HeaderNames default_header_names(HeaderStyle style);

struct HeaderOptions {
  // In the order in which the fields are sent.
  std::vector<HeaderStyle> styles = {HeaderStyle::ietf, HeaderStyle::retry_after};
  bool ratelimit_all = false;  // RateLimit of ietf lists all limits, not only the shown one
  std::array<HeaderNames, header_style_names.size()> names{};  // by style

  HeaderOptions();  // with the default names

  HeaderNames& names_of(HeaderStyle style) { return names[static_cast<size_t>(style)]; }
  const HeaderNames& names_of(HeaderStyle style) const { return names[static_cast<size_t>(style)]; }
};

// The longest name of a field, so that all of them fit into an answer.
inline constexpr size_t field_name_bytes_max = 40;

// The problem with the options as a sentence: a name that no field may have, that is too long, that
// answers use for another purpose, or that two fields of the styles share in any case. Empty: none.
std::string problem_of(const HeaderOptions& options);

// A reusable list of fields, which can be read as lines of HTTP/1.1 and one by one.
class FieldList {
 public:
  // The value must be appended to the buffer between `begin` and `end`.
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
  // Valid until the next `begin` or `clear`, as are the lines.
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
    size_t first, name_end, end;  // offsets in lines_
  };
  std::vector<Field> fields_;
  base::Buffer lines_;
};

// The most members of RateLimit-Policy and RateLimit: the first limits. More are left out, because
// clients bound headers.
inline constexpr size_t limit_members_max = 32;

// An enforced limit with a counter that applied to the request.
struct ShownLimit {
  std::string_view name{};  // of the member, with "-2" and so on if it is repeated; empty: default
  limit::Limit limit{};
  limit::Decision decision{};
  // The text of append_policy_member for this name and limit; empty: it is made again.
  std::string_view policy_member{};
  std::string_view quoted_name{};  // the same for append_member_name
  std::string_view partition{};    // the bytes of `pk`; empty: `pk` is left out
};

struct LimitFields {
  std::span<const ShownLimit> limits{};  // in order; empty: no field except Retry-After
  size_t shown = 0;  // index of the shown limit; limits.size(): it has no counter
  bool denied = false;
  base::Duration retry_after{};  // of a denial, including jitter; may be base::never
  base::Time now{};              // for Unix times
};

// Appends the limit's member of RateLimit-Policy (ietf) without `pk`; it changes only with the
// rule.
void append_policy_member(std::string_view name, const limit::Limit& limit, base::Buffer& out);

// Appends the name in the form for both fields.
void append_member_name(std::string_view name, base::Buffer& out);

// Appends the fields of all styles, in their order.
void append_limit_fields(const LimitFields& what, const HeaderOptions& options, FieldList& out);

// A limit with its texts (ShownLimit).
struct PreparedLimit {
  std::string_view policy_member, quoted_name;
  const limit::Limit& limit;
  const limit::Decision& decision;
};

// Whether all styles are ietf or retry_after.
bool has_plain_styles(const HeaderOptions& options);

// Appends the same as append_limit_fields for the usual answer: one limit, shown and not denied,
// without a partition. The styles must be plain.
void append_plain_fields(const PreparedLimit& one, const HeaderOptions& options, FieldList& out);

// Appends only Retry-After, as for 408 and 503, if the styles have it; nothing for base::never.
void append_retry_after(base::Duration retry_after, const HeaderOptions& options, FieldList& out);

// The time until one more unit can be taken than now, and at least one, if no other units are
// taken. It is never too early, and late at most as stated here.
//   fixed_window, aligned_window   to the end of the window: exact
//   token_bucket     until the next whole unit: exact, or 1 us late if the decision does not have
//                    the last fraction
//   sliding_window   as if all used units were taken in the current window of the clock: the time
//                    to its end, and until its first unit fades; less if they are of the window
//                    before
//   sliding_log      until the newest unit ends: exact if one unit is used
//   all              not later than the retry_after of a refusal
// base::never: no unit will come, because the counter is full or units must be put back.
base::Duration time_to_more(const limit::Limit& limit, const limit::Decision& decision);

}  // namespace sluice::http
