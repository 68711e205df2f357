#include "config/redis_access.h"

#include "config/read_file.h"
#include "config/settings.h"
#include "config/table.h"

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

void declare_redis_access(RedisAccess& access, std::vector<Entry>& table) {
  const auto take = [](std::optional<Setting<std::string>>& to,
                       std::optional<Setting<std::string>>& other) {
    return [&to, &other](const Written& written) {
      to = {written.text, written.origin};
      if (&other != &to) other.reset();
      return true;
    };
  };
  table.push_back(own_setting("", take(access.username, access.username),
                              {.flag = "--redis-username",
                               .variable = "SLUICE_REDIS_USERNAME",
                               .type = "NAME",
                               .help = "Its user, where it wants one"}));
  table.push_back(own_setting(
      "", take(access.password, access.password_file),
      {.variable = "SLUICE_REDIS_PASSWORD", .help = "its password, in place of a file"}));
  table.push_back(own_setting(
      "",
      [&access, take_file = take(access.password_file, access.password)](const Written& written) {
        if (written.text.empty())
          return written.wrong("names no file", "name the file that holds the password");
        return take_file(written);
      },
      {.flag = "--redis-password-file",
       .variable = "SLUICE_REDIS_PASSWORD_FILE",
       .type = "FILE",
       .help = "The file that holds its password"}));
  table.push_back(own_setting(
      "",
      [&access](const Written& written) {
        bool tls = false;
        if (!Truth{"write `true` to reach the Redis by TLS, else `false`"}.read(written, tls))
          return false;
        access.tls = {tls, written.origin};
        return true;
      },
      {.flag = "--redis-tls", .variable = "SLUICE_REDIS_TLS", .help = "Reach it by TLS"}));
}

bool read_redis_passwords(redis::Options& options, base::Diagnostics& diagnostics) {
  const bool first = read_password(options.password_file, options.password, diagnostics);
  return read_password(options.second.password_file, options.second.password, diagnostics) && first;
}

}  // namespace sluice::config
