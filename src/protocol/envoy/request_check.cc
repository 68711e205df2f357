#include "protocol/envoy/request_check.h"

#include <cstddef>
#include <limits>

#include "protocol/envoy/window.h"

namespace sluice::envoy {
namespace {

constexpr uint32_t grpc_unknown = 2, grpc_invalid_argument = 3;

}  // namespace

std::optional<RequestError> check_request(const RateLimitRequest& request) {
  if (request.domain.empty())
    return RequestError{grpc_unknown, "rate limit domain must not be empty"};
  if (request.descriptors.empty())
    return RequestError{grpc_unknown, "rate limit descriptor list must not be empty"};
  return std::nullopt;
}

std::optional<base::Duration> override_window(const LimitOverride& limit) {
  const int64_t unit = unit_seconds(limit.unit);
  const int64_t units = limit.unit_multiplier.value_or(1);
  constexpr int64_t seconds_max = std::numeric_limits<int64_t>::max() / base::seconds(1).us;
  if (unit == 0 || units == 0 || units > seconds_max / unit) return std::nullopt;
  return base::seconds(unit * units);
}

std::optional<RequestError> check_overrides(const RateLimitRequest& request) {
  for (size_t i = 0; i < request.descriptors.size(); ++i) {
    const std::optional<LimitOverride>& limit = request.descriptors[i].limit;
    if (!limit || override_window(*limit)) continue;
    std::string message = "descriptors[" + std::to_string(i) + "].limit.";
    if (unit_seconds(limit->unit) == 0) {
      const std::string_view name = unit_name(limit->unit);
      message += "unit: ";
      message +=
          name.empty() ? std::to_string(static_cast<int32_t>(limit->unit)) : std::string(name);
      message += " is not a unit";
    } else {
      message += "unit_multiplier: " + std::to_string(limit->unit_multiplier.value_or(1)) +
                 " units are not a window";
    }
    return RequestError{grpc_invalid_argument, std::move(message)};
  }
  return std::nullopt;
}

}  // namespace sluice::envoy
