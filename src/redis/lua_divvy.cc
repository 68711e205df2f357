#include "redis/lua.h"

namespace sluice::redis {

// KEYS: the counter. ARGV: verb, units, limit, seconds. Reply: allowed, remaining, seconds to the
// end of the window (-1: it has none), as text.
const std::string_view lua_divvy = "";

}  // namespace sluice::redis
