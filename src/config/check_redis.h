// Checks `store.redis` as a whole, once the flags and variables that may name another Redis have
// been applied to what the file says.
#pragma once

#include "base/diagnostic.h"
#include "config/config.h"

namespace sluice::config {

// Reports what a server refuses at its start. Without a Redis there is nothing to check.
void check_redis(const StoreSettings& store, base::Diagnostics& diagnostics);

}  // namespace sluice::config
