// `store.redis` of a sluice.yaml, and its flags and variables. Plain values; main thread, and the
// thread that reloads.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "config/table.h"
#include "redis/options.h"

namespace sluice::config {

struct StoreSettings;

// User, password and TLS from flags and variables, which override those of the file.
struct RedisAccess {
  std::optional<std::string> username{}, password{}, password_file{};  // at most one password
  std::optional<bool> tls{};
  std::string origin;  // of the last one that was set; empty: none is

  // The options with these settings in place.
  redis::Options over(redis::Options options) const;
};

// The entry `redis`, and those of its flags and variables.
Table redis_entries(StoreSettings& store);

// Reports settings of one Redis that exclude each other.
void check_redis(const StoreSettings& store, base::Diagnostics& diagnostics);

// Replaces password files by the passwords in them, without the line end. False: a file cannot be
// read or has no password, as `diagnostics` say.
bool read_redis_passwords(redis::Options& options, base::Diagnostics& diagnostics);

}  // namespace sluice::config
