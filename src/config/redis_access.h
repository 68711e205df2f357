// How a Redis is reached that a flag or variable names: the user, the password, TLS. They stand in
// place of what sluice.yaml says of these. Plain values; main thread.
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
  // One of the two at most.
  std::optional<base::Setting<std::string>> password{}, password_file{};
  std::optional<base::Setting<bool>> tls{};

  // Where one of them comes from; empty: nothing is said.
  std::string origin() const;
  // Those options with what is said here.
  redis::Options over(redis::Options options) const;
};

// As the functions of config/settings.h.
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

// Puts the text of the password files in place, the line end behind it aside. False: one cannot be
// read or holds no password, as `diagnostics` say.
bool read_redis_passwords(redis::Options& options, base::Diagnostics& diagnostics);

}  // namespace sluice::config
