#include "protocol/envoy/response.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace sluice::envoy {
namespace {

DescriptorStatus status_of(const DescriptorResult& result) {
  DescriptorStatus status;
  status.code = Code::ok;
  if (result.kind == DescriptorResult::Kind::unlimited) status.limit_remaining = UINT32_MAX;
  if (result.kind != DescriptorResult::Kind::limited) return status;
  if (result.standing.over && !result.shadow) status.code = Code::over_limit;
  status.current_limit = result.limit;
  status.limit_remaining = result.standing.remaining;
  status.seconds_until_reset = result.seconds_until_reset;
  return status;
}

// Is the request over its limits? It is if an enforced limit is exceeded, or if all quotas are.
// With QUOTA_MODE every descriptor is a quota, also one without a limit, but not an unlimited one.
bool is_over(std::span<const DescriptorResult> results, std::span<const DescriptorStatus> statuses,
             bool all_quotas) {
  size_t quotas = 0, quotas_over = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    using Kind = DescriptorResult::Kind;
    if (results[i].kind == Kind::unlimited) continue;
    const bool over = statuses[i].code == Code::over_limit;
    if (all_quotas || (results[i].kind == Kind::limited && results[i].quota)) {
      ++quotas;
      quotas_over += over;
    } else if (over) {
      return true;
    }
  }
  return quotas > 0 && quotas_over == quotas;
}

std::string entry_text(const Entry& entry) {
  std::string text;
  text.reserve(entry.key.size() + 1 + entry.value.size());
  text.append(entry.key).append("=").append(entry.value);
  return text;
}

// The limit in protobuf's text format, with single blanks: `requests_per_unit:2 unit:HOUR`.
std::string override_text(const LimitOverride& limit) {
  std::string text;
  const auto begin = [&](std::string_view name) -> std::string& {
    if (!text.empty()) text += ' ';
    return text.append(name);
  };
  if (limit.requests_per_unit != 0)
    begin("requests_per_unit:") += std::to_string(limit.requests_per_unit);
  if (limit.unit != WireUnit::unknown) {
    const std::string_view name = unit_name(limit.unit);
    begin("unit:") +=
        name.empty() ? std::to_string(static_cast<int32_t>(limit.unit)) : std::string(name);
  }
  if (limit.unit_multiplier) {
    begin("unit_multiplier:{");
    if (*limit.unit_multiplier != 0) text += "value:" + std::to_string(*limit.unit_multiplier);
    text += '}';
  }
  return text;
}

MetadataMap describe(const RateLimitRequest& request, const Descriptor& descriptor) {
  MetadataMap map;
  MetadataList entries;
  for (const Entry& entry : request.entries_of(descriptor)) entries.emplace_back(entry_text(entry));
  map.emplace_back("entries", std::move(entries));
  if (descriptor.limit) map.emplace_back("limit", override_text(*descriptor.limit));
  if (descriptor.hits_addend)
    map.emplace_back("hitsAddend", static_cast<double>(*descriptor.hits_addend));
  return map;
}

MetadataMap make_metadata(const RateLimitRequest& request,
                          std::span<const DescriptorResult> results,
                          std::span<const DescriptorStatus> statuses) {
  MetadataMap map;
  map.emplace_back("domain", std::string(request.domain));
  MetadataList descriptors;
  for (const Descriptor& descriptor : request.descriptors)
    descriptors.emplace_back(describe(request, descriptor));
  map.emplace_back("descriptors", std::move(descriptors));
  if (request.hits_addend != 0)
    map.emplace_back("hitsAddend", static_cast<double>(request.hits_addend));
  MetadataMap merged;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].metadata != nullptr && statuses[i].code != Code::over_limit)
      merge_metadata(*results[i].metadata, merged);
  if (!merged.empty()) map.emplace_back("metadata", std::move(merged));
  return map;
}

}  // namespace

Standing standing_at(int64_t count, uint32_t limit) {
  if (count > int64_t{limit}) return {true, 0};
  return {false, static_cast<uint32_t>(limit - std::max<int64_t>(count, 0))};
}

Standing standing_after_refund(int64_t count, uint32_t limit) {
  return {false, standing_at(count, limit).remaining};
}

Standing standing_uncharged(int64_t count, uint64_t hits, uint32_t limit) {
  const Standing now = standing_at(count, limit);
  return now.over || hits > now.remaining ? Standing{true, 0} : now;
}

Standing standing_decided(bool allowed, int64_t remaining) {
  if (!allowed) return {true, 0};
  return {false, static_cast<uint32_t>(std::clamp<int64_t>(remaining, 0, UINT32_MAX))};
}

bool compose_response(const RateLimitRequest& request, std::span<const DescriptorResult> results,
                      const ResponseOptions& options, RateLimitResponse& response) {
  SLUICE_CHECK(results.size() == request.descriptors.size());
  response.clear();
  for (const DescriptorResult& result : results) response.statuses.push_back(status_of(result));
  const bool over = is_over(results, response.statuses, options.quota);
  response.overall_code = over && !options.shadow ? Code::over_limit : Code::ok;
  if (options.headers != HeaderStyle::none) append_headers(results, options, response);
  if (options.dynamic_metadata)
    response.dynamic_metadata = make_metadata(request, results, response.statuses);
  return over && options.shadow;
}

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
