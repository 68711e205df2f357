// The counterpart of messages.h for the client, the load generator and tests: writes requests and
// reads responses. Functions without state; any thread.
#pragma once

#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"

namespace sluice::envoy {

// Appends the request, without fields that have their default values.
void append_request(const RateLimitRequest& request, base::Buffer& out);

// False: the bytes are not a message. Views of `response` point into `message`. Fractions of
// seconds are skipped, and fields without a member in RateLimitResponse, such as dynamic_metadata.
bool read_response(std::string_view message, RateLimitResponse& response);

}  // namespace sluice::envoy
