// The other way round than messages.h: requests are written and responses are read, for the client,
// the load generator and tests. Plain functions without state; any thread.
#pragma once

#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"

namespace sluice::envoy {

// Appends it. What has its default value is left out.
void append_request(const RateLimitRequest& request, base::Buffer& out);

// False: that is not a message. Views of `response` point into `message`; fractions of seconds and
// what RateLimitResponse has no member for are skipped, dynamic_metadata too.
bool read_response(std::string_view message, RateLimitResponse& response);

}  // namespace sluice::envoy
