// User, password and TLS for Redis from flags and variables, which override those of sluice.yaml.
// Plain values; main thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/setting.h"
#include "redis/options.h"

namespace sluice::config {

struct Config;

struct RedisAccess {
  std::optional<base::Setting<std::string>> username{};
  // At most one of them is set.
  std::optional<base::Setting<std::string>> password{}, password_file{};
  std::optional<base::Setting<bool>> tls{};

  // The origin of one of the settings; empty: none is set.
  std::string origin() const;
  // The options with these settings in place.
  redis::Options over(redis::Options options) const;
};

// As in config/settings.h.
void set_redis_username(std::string_view text, const std::string& origin,
                        const base::Diagnostic& place, Config& config,
                        base::Diagnostics& diagnostics);
void set_redis_password(std::string_view text, const std::string& origin,
                        const base::Diagnostic& place, Config& config,
                        base::Diagnostics& diagnostics);
void set_redis_password_file(std::string_view text, const std::string& origin,
                             const base::Diagnostic& place, Config& config,
                             base::Diagnostics& diagnostics);
void set_redis_tls(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics);

// Replaces password files by the passwords in them, without the line end. False: a file cannot be
// read or has no password, as `diagnostics` say.
bool read_redis_passwords(redis::Options& options, base::Diagnostics& diagnostics);

}  // namespace sluice::config
