// Where a listener binds, and what its clients have time for. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace sluice::net {

// What a listener's clients have time for. A request_timeout begins with the first byte of a
// request and ends with its last; a send_timeout begins when the client stops taking what it is
// sent. An idle_timeout begins when a client that waits for nothing has sent its last byte.
struct Timeouts {
  base::Duration request = base::seconds(30);
  base::Duration send = base::seconds(30);
  base::Duration idle = {};  // 0: none
  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

struct Endpoint {
  std::string host =
      "::";  // an address or a name; "::" is both families, or IPv4 alone where there is no IPv6
  uint16_t port = 0;  // 0: a free one
  Timeouts timeouts = {};
};

}  // namespace sluice::net
