#include "protocol/envoy/response.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "protocol/envoy/headers.h"

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

}  // namespace sluice::envoy
