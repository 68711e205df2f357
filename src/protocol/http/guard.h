// What keeps web pages from asking: a page in a browser on this machine, or one whose name was
// pointed at this machine (DNS rebinding), may send requests to any port. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "protocol/http/request_fields.h"

namespace sluice::http {

// May a request name that host: an address, `localhost`, or one of `hosts` (in lower case), each
// with or without a port? Of HTTP/1.0 it may be missing (empty).
bool is_host_allowed(std::string_view host, std::span<const std::string> hosts);
// May the page that asks, if a page does: it has the same origin by its own word, or is one of
// `origins`?
bool is_origin_allowed(const RequestFields& fields, std::span<const std::string> origins);

}  // namespace sluice::http
