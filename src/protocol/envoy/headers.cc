#include "protocol/envoy/headers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::envoy {
namespace {

// The status that the three fields show: the last enforced one that is over its limit; else the
// first of those with the fewest hits remaining. Null: no status has a limit.
const DescriptorStatus* shown_status(std::span<const DescriptorResult> results,
                                     std::span<const DescriptorStatus> statuses, bool all_quotas) {
  const DescriptorStatus *least = nullptr, *last_over = nullptr;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const DescriptorStatus& status = statuses[i];
    if (!status.current_limit) continue;
    if (status.code == Code::over_limit && !all_quotas && !results[i].quota) last_over = &status;
    if (least == nullptr || status.limit_remaining < least->limit_remaining) least = &status;
  }
  return last_over != nullptr ? last_over : least;
}

void append_legacy(std::span<const DescriptorResult> results, const ResponseOptions& options,
                   RateLimitResponse& response) {
  const DescriptorStatus* const shown = shown_status(results, response.statuses, options.quota);
  if (shown == nullptr) return;
  auto& headers = response.response_headers_to_add;
  headers.push_back(
      {options.limit_header, std::to_string(shown->current_limit->requests_per_unit)});
  headers.push_back({options.remaining_header, std::to_string(shown->limit_remaining)});
  headers.push_back({options.reset_header, std::to_string(shown->seconds_until_reset.value_or(0))});
}

// The time until more hits are left than now.
int64_t seconds_until_more(const DescriptorResult& result) {
  return result.seconds_until_next.value_or(result.seconds_until_reset);
}

// Do IETF's fields have a member for the limit? They have for enforced limits and for quotas.
bool has_member(const DescriptorResult& result) {
  return result.kind == DescriptorResult::Kind::limited && !result.shadow;
}

std::string_view member_name(const DescriptorResult& result) {
  return result.limit.name.empty() ? "default" : result.limit.name;
}

// A string of structured fields has printable ASCII only; other bytes become `_`.
void append_name(std::string_view name, std::string& to) {
  for (const char c : name) {
    if (c == '"' || c == '\\') to += '\\';
    to += c >= 0x20 && c < 0x7F ? c : '_';
  }
}

// The position of the limit among those with its name, from 1 on.
size_t count_of_name(std::span<const DescriptorResult> results, size_t index) {
  size_t n = 1;
  for (size_t i = 0; i < index; ++i)
    n += has_member(results[i]) && member_name(results[i]) == member_name(results[index]);
  return n;
}

void begin_member(std::span<const DescriptorResult> results, size_t index, std::string& to) {
  if (!to.empty()) to += ", ";
  to += '"';
  append_name(member_name(results[index]), to);
  if (const size_t n = count_of_name(results, index); n > 1) to += '-' + std::to_string(n);
  to += '"';
}

void append_ietf(std::span<const DescriptorResult> results, RateLimitResponse& response) {
  std::string policy, limits;
  size_t members = 0;
  for (size_t i = 0; i < results.size() && members < ietf_members_max; ++i) {
    const DescriptorResult& result = results[i];
    if (!has_member(result)) continue;
    ++members;
    begin_member(results, i, policy);
    policy += ";q=" + std::to_string(result.limit.requests_per_unit);
    if (result.window_seconds > 0) policy += ";w=" + std::to_string(result.window_seconds);
    if (result.burst != 0) policy += ";sluice-burst=" + std::to_string(result.burst);
    begin_member(results, i, limits);
    limits += ";r=" + std::to_string(result.standing.remaining);
    if (!result.never_passes) limits += ";t=" + std::to_string(seconds_until_more(result));
  }
  if (members == 0) return;
  auto& headers = response.response_headers_to_add;
  headers.push_back({"RateLimit-Policy", std::move(policy)});
  headers.push_back({"RateLimit", std::move(limits)});
}

// For a request over its limit: the time until all exceeded limits allow hits again. Left out if
// one of them never does.
void append_retry_after(std::span<const DescriptorResult> results, RateLimitResponse& response) {
  if (response.overall_code != Code::over_limit) return;
  int64_t seconds = 1;
  for (size_t i = 0; i < results.size(); ++i) {
    if (response.statuses[i].code != Code::over_limit) continue;
    if (results[i].never_passes) return;
    seconds = std::max(seconds, seconds_until_more(results[i]));
  }
  response.response_headers_to_add.push_back({"Retry-After", std::to_string(seconds)});
}

}  // namespace

void append_headers(std::span<const DescriptorResult> results, const ResponseOptions& options,
                    RateLimitResponse& response) {
  const HeaderStyle style = options.headers;
  if (style == HeaderStyle::legacy || style == HeaderStyle::both)
    append_legacy(results, options, response);
  if (style == HeaderStyle::ietf || style == HeaderStyle::both) {
    append_ietf(results, response);
    append_retry_after(results, response);
  }
}

}  // namespace sluice::envoy
