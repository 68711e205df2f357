// An HTTP/1.1 client on loopback: each request has its own connection. Failures are thrown.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tests/support/patience.h"

namespace sluice::tests {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// `headers`: further header lines, each with its CRLF.
HttpAnswer http(uint16_t port, const std::string& method, const std::string& target,
                std::string_view body = {}, const std::string& headers = {},
                Deadline deadline = soon());
inline HttpAnswer http_get(uint16_t port, const std::string& target,
                           const std::string& headers = {}) {
  return http(port, "GET", target, {}, headers);
}

// The value of a sample of /metrics, "" if it is not there. `name`: as in `family{label="value"}`.
std::string sample(uint16_t port, const std::string& name);

}  // namespace sluice::tests
