// The ways in which the rules for limits that come with HTTP requests differ from others, in the
// form that policy/dialect.h requires. Constant; any thread.
#pragma once

#include <string_view>

#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "protocol/http/options.h"
#include "request/space.h"

namespace sluice::http {

extern const policy::Dialect dialect;

// The entries of such a request's descriptor, in this order. Native rules may match on them.
inline constexpr std::string_view kind_entry = "http";  // its value: inline_kind
inline constexpr std::string_view key_entry = "key";
// Also the name of the rule that decides such a request.
inline constexpr std::string_view inline_kind = "inline";
// The same for POST /throttle, whose requests have a database between these two entries: its
// counters are those of THROTTLE over Redis' protocol, in database 0.
inline constexpr std::string_view throttle_kind = "throttle", database_entry = "db";

// Adds the rules for requests that bring their limits. Requests of other protocols with the same
// key use the same counters.
void add_request_rules(request::Spaces& spaces, policy::RuleSet& rules, const HttpOptions& options);

}  // namespace sluice::http
