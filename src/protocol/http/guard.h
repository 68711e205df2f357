// What keeps web pages from asking: a page in a browser on this machine, or one whose name was
// pointed at this machine (DNS rebinding), may send requests to any port. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "protocol/http/request_fields.h"

namespace sluice::http {

// May a request name that host: an address, `localhost`, or one of `hosts` (in lower case), each
// with or without a port? Of HTTP/1.0 it may be missing (empty).
bool is_host_allowed(std::string_view host, std::span<const std::string> hosts);
// The host that a connection's requests named last and that was allowed: clients name one.
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

// May the page that asks, if a page does: it has the same origin by its own word, or is one of
// `origins`?
bool is_origin_allowed(const RequestFields& fields, std::span<const std::string> origins);

}  // namespace sluice::http
