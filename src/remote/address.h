// Addresses of servers as users of the client write them:
// SCHEME://[USER:TOKEN@]HOST[:PORT][,HOST[:PORT]...]. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/dialect.h"

namespace sluice::calls {

struct Address {
  const Dialect* dialect = nullptr;
  std::vector<Target> hosts;
  std::string problem;  // empty: it was read
};

// A port that is missing is the dialect's. A host in brackets is IPv6. A path that is not "/" or
// empty is a problem, as are more than 1,024 hosts.
Address read_address(std::string_view text);

}  // namespace sluice::calls
