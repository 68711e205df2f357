// Protection against requests of web pages: a page in a browser on this machine, or a page whose
// name was pointed at this machine (DNS rebinding), can send requests to any port. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "protocol/http/request_fields.h"

namespace sluice::http {

// Host without its port and without a dot at its end.
std::string_view name_of_host(std::string_view host);
// Whether a request may have the host: an address, `localhost` or a name below it, or one of
// `hosts` (in lower case), each with or without a port and, of names, a dot at the end. An empty
// host, which HTTP/1.0 allows, is accepted.
bool is_host_allowed(std::string_view host, std::span<const std::string> hosts);
// Remembers the last host of a connection's requests that was allowed, because clients use only
// one.
class AllowedHost {
 public:
  bool allows(std::string_view host, std::span<const std::string> hosts) {
    if (!host.empty() && host.size() == last_.size() && host == last_) return true;
    if (!is_host_allowed(host, hosts)) return false;
    if (host.size() <= kept_bytes_max) last_ = host;
    return true;
  }

 private:
  static constexpr size_t kept_bytes_max = 64;
  std::string last_;
};

// Whether the request may be answered: no web page sent it, the browser says that the page has the
// same origin, or the page's origin is one of `origins`.
bool is_origin_allowed(const RequestFields& fields, std::span<const std::string> origins);

}  // namespace sluice::http
