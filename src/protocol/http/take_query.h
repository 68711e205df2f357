// A take whose subject stands in the query of a GET, for curl and for proxies that cannot make
// bodies: `key=K&limit=100&window=1m&algorithm=A&burst=B&n=1`, or `entry=KEY=VALUE` for each entry,
// and `n`. Percent-encoded; `+` is a blank. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::http {

// The body of a POST that asks the same, to be read as one; `always_ok`: the query had status=200.
// Nothing: `problem` says why.
std::optional<std::string> body_of_query(std::string_view query, bool& always_ok,
                                         std::string& problem);

}  // namespace sluice::http
