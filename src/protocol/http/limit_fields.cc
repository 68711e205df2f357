#include "protocol/http/limit_fields.h"

#include <algorithm>
#include <optional>

#include "base/decimal.h"
#include "base/text_writer.h"
#include "limit/wide.h"
#include "wire/structured_fields.h"

namespace sluice::http {
namespace {

using limit::Algorithm;

constexpr int64_t field_second_us = 1'000'000;

constexpr std::string_view policy_field = "RateLimit-Policy", ratelimit_field = "RateLimit";

// Whole seconds, rounded up. `length` must not be negative.
constexpr int64_t field_seconds(base::Duration length) {
  return length.us / field_second_us + (length.us % field_second_us > 0 ? 1 : 0);
}

// Does the algorithm have windows at whose end all units return?
constexpr bool has_window_with_end(Algorithm algorithm) {
  return algorithm == Algorithm::fixed_window || algorithm == Algorithm::aligned_window;
}

constexpr bool tells_window(Algorithm algorithm) {
  return algorithm >= Algorithm::fixed_window && algorithm <= Algorithm::sliding_log;
}

// Counted in parts, with Q the quota and W the window in microseconds: a unit has W parts, and Q
// parts return in a microsecond. reset_after * Q parts are missing, or up to Q - 1 fewer. The next
// unit is available when only `short_of` units are missing.
base::Duration time_of_bucket(const limit::Limit& limit, const limit::Decision& decision) {
  const int64_t short_of = decision.limit - std::max<int64_t>(decision.remaining, 0) - 1;
  const int64_t spared_us = limit::mul_div_floor(short_of, limit.window.us, limit.quota);
  // A store may report fewer units than the bucket has, if other requests wait for them.
  if (spared_us < 0 || spared_us >= decision.reset_after.us) return decision.reset_after;
  return {decision.reset_after.us - spared_us};
}

// reset_after ends with the window after the open one if units were taken in the open one, else
// with the open one.
base::Duration time_of_sliding(const limit::Limit& limit, const limit::Decision& decision) {
  const int64_t window_us = limit.window.us, reset_us = decision.reset_after.us;
  if (reset_us <= window_us) return {reset_us};
  const int64_t used = decision.limit - decision.remaining;
  const int64_t passing = std::min(used, decision.limit) - 1;  // units used when one more fits
  const int64_t fading_us = window_us - limit::mul_div_floor(passing, window_us, used);
  return {std::min(reset_us, reset_us - window_us + fading_us)};
}

base::Duration time_by_counter(const limit::Limit& limit, const limit::Decision& decision) {
  const base::Duration reset_after = decision.reset_after;
  if (reset_after == base::never || !limit::has_counter(limit.algorithm)) return base::never;
  if (limit.algorithm == Algorithm::token_bucket) return time_of_bucket(limit, decision);
  if (limit.algorithm == Algorithm::sliding_window) return time_of_sliding(limit, decision);
  return reset_after;
}

// The time that X-RateLimit-Reset shows; base::never: it is left out.
base::Duration time_to_reset(const limit::Limit& limit, const limit::Decision& decision) {
  if (has_window_with_end(limit.algorithm) || decision.remaining > 0) return decision.reset_after;
  return time_to_more(limit, decision);
}

void append_limit_parameter(std::string_view name, int64_t value, base::Buffer& out) {
  out.append(name);
  wire::append_sf_integer(value, out);
}

// Appends the parameters `w`, `qu` and `sluice-burst`.
void append_window(std::string_view unit, const limit::Limit& limit, base::Buffer& out) {
  if (tells_window(limit.algorithm))
    append_limit_parameter(";w=", field_seconds(limit.window), out);
  if (limit.algorithm == Algorithm::concurrency) unit = limit::places_unit;
  if (!unit.empty()) {
    out.append(";qu=");
    wire::append_sf_string(unit, out);
  }
  if (limit.algorithm == Algorithm::token_bucket && limit.burst != limit.quota)
    append_limit_parameter(";sluice-burst=", limit.burst, out);
}

void append_partition(const ShownLimit& shown, base::Buffer& out) {
  if (shown.partition.empty()) return;
  out.append(";pk=");
  wire::append_sf_bytes(shown.partition, out);
}

// Calls `append` for the first limit_members_max limits, with commas between them.
template <class Append>
void append_members(std::span<const ShownLimit> limits, base::Buffer& out, Append append) {
  limits = limits.first(std::min(limits.size(), limit_members_max));
  for (const ShownLimit& one : limits) {
    if (&one != &limits.front()) out.append(", ");
    append(one);
  }
}

// Writes the fields of one response.
class LimitFieldWriter {
 public:
  LimitFieldWriter(const LimitFields& what, const HeaderOptions& options, FieldList& out)
      : what_(what), options_(options), out_(out) {
    if (what.shown < what.limits.size()) shown_ = &what.limits[what.shown];
  }

  void append() {
    if (options_.ietf) {
      policy();
      ratelimit();
    }
    if (options_.x_ratelimit) three_fields();
    if (options_.retry_after) retry_after();
  }

  void retry_after() {
    if (!what_.denied || what_.retry_after == base::never) return;
    base::Duration wait = what_.retry_after;
    if (shown_ != nullptr) {
      const base::Duration more = time_to_more_of(*shown_);
      if (more != base::never) wait = std::max(wait, more);
    }
    number("Retry-After", std::max<int64_t>(1, field_seconds(wait)));
  }

 private:
  void number(std::string_view name, int64_t value) {
    wire::append_sf_integer(value, out_.begin(name));
    out_.end();
  }

  void policy() {
    if (what_.limits.empty()) return;
    base::Buffer& out = out_.begin(policy_field);
    append_members(what_.limits, out, [&out](const ShownLimit& one) {
      if (one.policy_member.empty())
        append_policy_member(one.name, one.unit, one.limit, out);
      else
        out.append(one.policy_member);
      append_partition(one, out);
    });
    out_.end();
  }

  // Kept for the shown limit, whose time is needed twice.
  base::Duration time_to_more_of(const ShownLimit& one) {
    if (&one != shown_) return time_to_more(one.limit, one.decision);
    if (!to_more_) to_more_ = time_to_more(one.limit, one.decision);
    return *to_more_;
  }

  void member(const ShownLimit& one, base::Buffer& out) {
    if (one.quoted_name.empty())
      append_member_name(one.name, out);
    else
      out.append(one.quoted_name);
    append_limit_parameter(";r=", std::max<int64_t>(one.decision.remaining, 0), out);
    if (const base::Duration more = time_to_more_of(one); more != base::never)
      append_limit_parameter(";t=", field_seconds(more), out);
    append_partition(one, out);
  }
  void ratelimit() {
    const bool all = options_.ratelimit_all && !what_.limits.empty();
    if (!all && shown_ == nullptr) return;
    base::Buffer& out = out_.begin(ratelimit_field);
    if (all)
      append_members(what_.limits, out, [&](const ShownLimit& one) { member(one, out); });
    else
      member(*shown_, out);
    out_.end();
  }

  void three_fields() {
    if (shown_ == nullptr) return;
    const limit::Decision& decision = shown_->decision;
    number("X-RateLimit-Limit", decision.limit);
    number("X-RateLimit-Remaining", std::max<int64_t>(decision.remaining, 0));
    const base::Duration reset = time_to_reset(shown_->limit, decision);
    if (reset != base::never) number("X-RateLimit-Reset", field_seconds(reset));
  }

  const LimitFields& what_;
  const HeaderOptions& options_;
  FieldList& out_;
  const ShownLimit* shown_ = nullptr;  // null: no limit is shown
  std::optional<base::Duration> to_more_{};
};

}  // namespace

void append_member_name(std::string_view name, base::Buffer& out) {
  wire::append_sf_string(name.empty() ? std::string_view("default") : name, out);
}

void append_policy_member(std::string_view name, std::string_view unit, const limit::Limit& limit,
                          base::Buffer& out) {
  append_member_name(name, out);
  append_limit_parameter(";q=", limit.quota, out);
  append_window(unit, limit, out);
}

void append_limit_fields(const LimitFields& what, const HeaderOptions& options, FieldList& out) {
  LimitFieldWriter(what, options, out).append();
}

void append_plain_fields(const PreparedLimit& one, const HeaderOptions& options, FieldList& out) {
  if (!options.ietf) return;
  out.begin(policy_field).append(one.policy_member);
  out.end();
  constexpr size_t parameters_bytes = 6 + 2 * base::decimal_digits_max;
  base::TextWriter writer(out.begin(ratelimit_field), one.quoted_name.size() + parameters_bytes);
  writer.put(one.quoted_name);
  writer.put(";r=");
  writer.put_number(
      static_cast<uint64_t>(std::clamp<int64_t>(one.decision.remaining, 0, wire::sf_integer_max)));
  if (const base::Duration more = time_to_more(one.limit, one.decision); more != base::never) {
    writer.put(";t=");
    writer.put_number(static_cast<uint64_t>(field_seconds(more)));
  }
  writer.finish();
  out.end();
}

void append_retry_after(base::Duration retry_after, const HeaderOptions& options, FieldList& out) {
  if (!options.retry_after) return;
  LimitFields what;
  what.denied = true;
  what.retry_after = retry_after;
  LimitFieldWriter(what, options, out).retry_after();
}

base::Duration time_to_more(const limit::Limit& limit, const limit::Decision& decision) {
  // No unit is missing, or the quota is 0.
  if (decision.limit <= 0 || decision.remaining >= decision.limit) return base::never;
  const base::Duration wait = time_by_counter(limit, decision);
  // retry_after is the time until the refused number of units fits, so one unit is there by then.
  // Not with a debt: the refusal may have been of less than a unit.
  if (decision.allowed || decision.remaining < 0 || decision.retry_after <= base::Duration{})
    return wait;
  return std::min(wait, decision.retry_after);
}

}  // namespace sluice::http
