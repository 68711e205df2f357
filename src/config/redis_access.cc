#include "config/redis_access.h"

#include "config/config.h"
#include "config/read_file.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

constexpr size_t redis_password_bytes_max = 4096;

bool read_password(const std::string& file, std::string& password, base::Diagnostics& diagnostics) {
  if (file.empty()) return true;
  auto text = read_file(file, diagnostics);
  if (!text) return false;
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  if (text->empty() || text->size() > redis_password_bytes_max) {
    base::Diagnostic place;
    place.file = file;
    complain(place,
             text->empty() ? "holds no password"
                           : "holds more than the " + std::to_string(redis_password_bytes_max) +
                                 " bytes that a password has at most",
             "write the password of the Redis into it, and nothing else", diagnostics);
    return false;
  }
  password = std::move(*text);
  return true;
}

}  // namespace

std::string RedisAccess::origin() const {
  if (username) return username->origin;
  if (password) return password->origin;
  if (password_file) return password_file->origin;
  return tls ? tls->origin : "";
}

redis::Options RedisAccess::over(redis::Options options) const {
  if (username) options.username = username->value;
  if (password || password_file) options.password = options.password_file = "";
  if (password) options.password = password->value;
  if (password_file) options.password_file = password_file->value;
  if (tls) options.tls = tls->value;
  return options;
}

void set_redis_username(std::string_view text, const std::string& origin, const base::Diagnostic&,
                        Config& config, base::Diagnostics&) {
  config.store.redis_access.username = {std::string(text), origin};
}

void set_redis_password(std::string_view text, const std::string& origin, const base::Diagnostic&,
                        Config& config, base::Diagnostics&) {
  config.store.redis_access.password = {std::string(text), origin};
  config.store.redis_access.password_file.reset();
}

void set_redis_password_file(std::string_view text, const std::string& origin,
                             const base::Diagnostic& place, Config& config,
                             base::Diagnostics& diagnostics) {
  if (text.empty())
    return complain(place, "names no file", "name the file that holds the password", diagnostics);
  config.store.redis_access.password_file = {std::string(text), origin};
  config.store.redis_access.password.reset();
}

void set_redis_tls(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics) {
  if (text == "true" || text == "false")
    config.store.redis_access.tls = {text == "true", origin};
  else
    complain(place, "`" + std::string(text) + "` is neither true nor false",
             "write `true` to reach the Redis by TLS, else `false`", diagnostics);
}

bool read_redis_passwords(redis::Options& options, base::Diagnostics& diagnostics) {
  const bool first = read_password(options.password_file, options.password, diagnostics);
  return read_password(options.second.password_file, options.second.password, diagnostics) && first;
}

}  // namespace sluice::config
