// The grammar of one Divvy request line (docs/divvy-protocol.md). A pure function; the session
// frames the lines and owns their bytes.
#pragma once

#include <string>
#include <string_view>

#include "request/session.h"

namespace sluice::divvy {

// Reads `line`, well-formed UTF-8 without its line end, and commits one request to `requests`,
// whose entries are views into `line`, in its order, repeated keys included. False: the line is an
// error; then `requests` is as before and `error` the ERR line that answers it, without LF.
bool parse_divvy_line(std::string_view line, request::Requests& requests, std::string& error);

// `ERR unknown "<reason>"`, without LF: the answer to a malformed line.
std::string divvy_error(std::string_view reason);

}  // namespace sluice::divvy
