// Hosts and ports as requests of HTTP name them: in Host and in targets in absolute form. Pure
// functions, any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::wire {

// Is it uri-host [ ":" port ] (RFC 9110, 7.2)? The host must not be empty, the port be at most
// 65535. Without user information, IPv6 zones, and commas, at which some would see two values.
bool is_http_authority(std::string_view text);

// Bytes of the scheme of a target in absolute form, with `://`; 0: it is not http or https.
size_t http_scheme_bytes(std::string_view target);

// Of a target in absolute form: what is between its scheme and its path or query.
std::string_view http_authority_of(std::string_view target);

}  // namespace sluice::wire
