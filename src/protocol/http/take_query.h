// A take whose subject is in the query of a GET, for curl and for proxies that cannot send bodies:
// `key=K&limit=100&window=1m&algorithm=A&burst=B&n=1`, or `entry=KEY=VALUE` for each entry, and
// `n`. Percent-encoded; `+` is a blank. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::http {

struct TakeOfQuery {
  std::string body;        // the body of an equivalent POST, which is read instead
  bool always_ok = false;  // the query has status=200
};
base::Result<TakeOfQuery> body_of_query(std::string_view query);

}  // namespace sluice::http
