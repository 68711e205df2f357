// The ways in which the rules of CL.THROTTLE, THROTTLE and GCRA differ from others, in the form
// that policy/dialect.h requires. Constant; any thread.
#pragma once

#include <string_view>

#include "limit/limit.h"
#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "protocol/resp/options.h"
#include "request/space.h"

namespace sluice::resp {

extern const policy::Dialect dialect;

// The entries of a request's descriptor, in this order.
inline constexpr std::string_view command_entry = "command";  // "cl.throttle"
inline constexpr std::string_view database_entry = "db";      // the number given to SELECT
inline constexpr std::string_view key_entry = "key";

// The value of `command` in requests of SLUICE.* with inline limits; they have no entry `db`.
inline constexpr std::string_view inline_command = "inline";

// The value of `command` in requests of that algorithm, such as "cl.throttle".
std::string_view command_of(limit::Algorithm algorithm);

// Adds to the dialect's rules one for each of the three commands, with a counter for each database
// and key, and one for requests with inline limits.
void add_throttle_rules(request::Spaces& spaces, policy::RuleSet& rules,
                        const RespOptions& options = {});

}  // namespace sluice::resp
