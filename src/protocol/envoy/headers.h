// The header fields that Envoy adds to responses to its clients: the three of the rate limit
// service, and those of IETF's draft (draft-ietf-httpapi-ratelimit-headers). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/envoy/response.h"

namespace sluice::envoy {

// The most limits in RateLimit and RateLimit-Policy: the first ones of the request. More are left
// out, because headers have bounds of their own.
inline constexpr size_t ietf_members_max = 32;

// Appends the fields of options.headers to response.response_headers_to_add, from the results, and
// from the statuses and the overall code that the response has already.
void append_headers(std::span<const DescriptorResult> results, const ResponseOptions& options,
                    RateLimitResponse& response);

}  // namespace sluice::envoy
