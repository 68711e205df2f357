// The addresses of a name by the system's resolver. Blocks; any thread.
#pragma once

#include <netdb.h>

#include <string>

namespace sluice::base {

// As getaddrinfo(3), whose result the caller frees; `localhost` is found also where there is no
// /etc/hosts that lists it, as in a bare root folder.
inline int look_up(const std::string& host, const std::string& port, const addrinfo& hints,
                   addrinfo** found) {
  const int problem = ::getaddrinfo(host.c_str(), port.c_str(), &hints, found);
  if (problem == 0 || host != "localhost" || (hints.ai_flags & AI_NUMERICHOST) != 0) return problem;
  return ::getaddrinfo(nullptr, port.c_str(), &hints, found) == 0 ? 0 : problem;
}

}  // namespace sluice::base
