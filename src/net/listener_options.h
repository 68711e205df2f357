// Where a listener binds, and the time limits for its clients. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace sluice::net {

// Time limits for a listener's clients. `request`: from the first byte of a request to its last.
// `send`: from the time at which the client stops taking output. `idle`: from the last byte of a
// client that waits for no reply.
struct Timeouts {
  base::Duration request = base::seconds(30);
  base::Duration send = base::seconds(30);
  base::Duration idle = {};  // 0: none
  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

struct Endpoint {
  std::string host =
      "::";  // an address or a hostname; "::" is IPv4 and IPv6, or IPv4 if there is no IPv6
  uint16_t port = 0;  // 0: any free port
  Timeouts timeouts = {};
};

}  // namespace sluice::net
