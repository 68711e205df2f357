// Header fields that Envoy adds to the responses to its clients: the three of the rate limit
// service, and those of IETF's draft (draft-ietf-httpapi-ratelimit-headers). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/envoy/response.h"

namespace sluice::envoy {

// Limits that RateLimit and RateLimit-Policy have, at most: the first ones of the request. Past it:
// left out, as a header has bounds of its own.
inline constexpr size_t ietf_members_max = 32;

// Appends to response.response_headers_to_add what options.headers says, by the results and the
// statuses and the overall code that the response has already.
void append_headers(std::span<const DescriptorResult> results, const ResponseOptions& options,
                    RateLimitResponse& response);

}  // namespace sluice::envoy
