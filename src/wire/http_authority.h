// Hosts and ports as requests of HTTP name them: in Host and in targets in absolute form. Pure
// functions, any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::wire {

// Whether the text is uri-host [ ":" port ] (RFC 9110, 7.2). The host must not be empty, the port
// must be at most 65535. User information and IPv6 zones are not allowed, nor commas, which some
// programs read as the end of a value.
bool is_http_authority(std::string_view text);

// The size of the scheme of a target in absolute form, including `://`; 0: it is not http or https.
size_t http_scheme_bytes(std::string_view target);

// The part of a target in absolute form between its scheme and its path or query.
std::string_view http_authority_of(std::string_view target);

}  // namespace sluice::wire
