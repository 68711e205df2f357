// What is wrong with a request of Envoy's that is a message all the same: what the service refuses
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

// What is wrong with overrides is not looked at, as they count only in a known domain.
std::optional<RequestError> check_request(const RateLimitRequest& request);

// Of a request whose domain is known: the first override whose unit is none, or whose window is 0
// or too long.
std::optional<RequestError> check_overrides(const RateLimitRequest& request);

// The window of an override. Nothing: check_overrides refuses it.
std::optional<base::Duration> override_window(const LimitOverride& limit);

}  // namespace sluice::envoy
