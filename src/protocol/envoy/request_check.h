// Finds errors in requests that are valid messages of Envoy's; the service refuses such requests
// before it charges anything. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "protocol/envoy/messages.h"

namespace sluice::envoy {

struct RequestError {
  uint32_t grpc_code = 0;
  std::string message;
  friend bool operator==(const RequestError&, const RequestError&) = default;
};

// Does not check overrides, because they matter only in a known domain.
std::optional<RequestError> check_request(const RateLimitRequest& request);

// For a request whose domain is known: reports the first override whose unit is unknown, or whose
// window is 0 or too long.
std::optional<RequestError> check_overrides(const RateLimitRequest& request);

// The window of an override. Nothing: check_overrides refuses it.
std::optional<base::Duration> override_window(const LimitOverride& limit);

}  // namespace sluice::envoy
