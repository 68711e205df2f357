// Writes the header fields of a response about limits, in the styles that are in use. Pure
// functions on values; any thread. Nothing is allocated once the lists have grown.
//
//   ietf               RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//                      RateLimit: "burst";r=37;t=12
//                      (draft-ietf-httpapi-ratelimit-headers-11; RFC 9651)
//   x-ratelimit        X-RateLimit-Limit: 100, X-RateLimit-Remaining: 37, X-RateLimit-Reset: 12
//   retry-after        Retry-After: 12, of denials (RFC 9110, 10.2.3)
//
//   q, w           The limit's quota; its window in whole seconds, left out if there is none.
//   qu             What the quota counts, if the rule says it; of concurrency, whose quota is of
//                  requests at a time, "concurrent-requests".
//   sluice-burst   A bucket's burst, if it differs from the quota.
//   Limit, Remaining   Those of the decision; debt is sent as 0.
//   t              Seconds until more units are available (time_to_more); left out if never.
//   Reset          Seconds to the end of the window (fixed_window, aligned_window). For limits
//                  without such an end: if no unit is left until one is, otherwise until the
//                  counter is fresh. Left out if never.
//   Retry-After    LimitFields::retry_after, or `t` of the shown limit if that is later; at least
//                  1. Left out if no wait helps.
//   numbers        Seconds are rounded up. No number is above wire::sf_integer_max.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/text_writer.h"
#include "base/time.h"
#include "limit/limit.h"
#include "wire/http_field.h"

namespace sluice::http {

// The styles in use. Their fields are sent in this order, with names in canonical case, which a
// writer of HTTP/2 converts to lower case.
struct HeaderOptions {
  bool ietf = true, x_ratelimit = false, retry_after = true;
  bool ratelimit_all = false;  // RateLimit lists all limits, not only the shown one

  friend bool operator==(const HeaderOptions&, const HeaderOptions&) = default;
};

struct HeaderStyle {
  std::string_view name;
  bool HeaderOptions::*is_sent;
};
inline constexpr std::array<HeaderStyle, 3> header_styles = {{
    {"ietf", &HeaderOptions::ietf},
    {"x-ratelimit", &HeaderOptions::x_ratelimit},
    {"retry-after", &HeaderOptions::retry_after},
}};

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
  // The text of append_policy_member; empty: it is made again.
  std::string_view policy_member{};
  std::string_view quoted_name{};  // the same for append_member_name
  std::string_view partition{};    // the bytes of `pk`; empty: `pk` is left out
  std::string_view unit{};         // of the rule; empty: it has none
};

struct LimitFields {
  std::span<const ShownLimit> limits{};  // in order; empty: no field except Retry-After
  size_t shown = 0;  // index of the shown limit; limits.size(): it has no counter
  bool denied = false;
  base::Duration retry_after{};  // of a denial, including jitter; may be base::never
};

// Appends the limit's member of RateLimit-Policy (ietf) without `pk`; it changes only with the
// rule.
void append_policy_member(std::string_view name, std::string_view unit, const limit::Limit& limit,
                          base::Buffer& out);

// Appends the name in the form for both fields.
void append_member_name(std::string_view name, base::Buffer& out);

// Appends the fields of the styles in use.
void append_limit_fields(const LimitFields& what, const HeaderOptions& options, FieldList& out);

// A limit with its texts (ShownLimit).
struct PreparedLimit {
  std::string_view policy_member, quoted_name;
  const limit::Limit& limit;
  const limit::Decision& decision;
};

// Appends the same as append_limit_fields for the usual answer: one limit, shown and not denied,
// without a partition. x_ratelimit must be off.
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
//   concurrency      until the last lease ends: exact if all end at once
//   all              not later than the retry_after of a refusal
// base::never: no unit will come, because the counter is full or units must be put back.
base::Duration time_to_more(const limit::Limit& limit, const limit::Decision& decision);

}  // namespace sluice::http
