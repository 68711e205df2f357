// HTTP/1.1 as a client on loopback: one request on a connection of its own. Trouble is thrown.
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

// `headers`: further lines, each with its CRLF.
HttpAnswer http(uint16_t port, const std::string& method, const std::string& target,
                std::string_view body = {}, const std::string& headers = {},
                Deadline deadline = soon());
inline HttpAnswer http_get(uint16_t port, const std::string& target,
                           const std::string& headers = {}) {
  return http(port, "GET", target, {}, headers);
}

// A sample of /metrics, as `family{label="value"}`; "" where there is none.
std::string sample(uint16_t port, const std::string& name);

}  // namespace sluice::tests
