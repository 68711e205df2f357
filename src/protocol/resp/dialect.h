// What makes the rules of CL.THROTTLE, THROTTLE and GCRA differ from others, as policy/dialect.h
// wants it. Constant; any thread.
#pragma once

#include <string_view>

#include "limit/limit.h"
#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "protocol/resp/options.h"
#include "request/space.h"

namespace sluice::resp {

extern const policy::Dialect dialect;

// The entries of such a request's descriptor, in this order.
inline constexpr std::string_view command_entry = "command";  // "cl.throttle"
inline constexpr std::string_view database_entry = "db";      // of SELECT
inline constexpr std::string_view key_entry = "key";

// The value of `command` in the requests of SLUICE.* that bring their limits along, which have no
// `db`.
inline constexpr std::string_view inline_command = "inline";

// The value of `command` in the requests of that algorithm: "cl.throttle".
std::string_view command_of(limit::Algorithm algorithm);

// Adds a rule for each of the three commands to the dialect's, a counter for each database and key;
// and one for requests that bring their limits along.
void add_throttle_rules(request::Spaces& spaces, policy::RuleSet& rules,
                        const RespOptions& options = {});

}  // namespace sluice::resp
