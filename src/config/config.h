// The server's settings, each with where it comes from: flags override the environment, which
// overrides the file, which overrides the defaults. Plain values, built and read by the main
// thread; what is wrong with a source is a diagnostic.
#pragma once

#include <spdlog/common.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/cloned.h"
#include "base/diagnostic.h"
#include "base/setting.h"
#include "config/address.h"
#include "config/command_io.h"
#include "config/load_policy.h"
#include "config/redis_access.h"
#include "config/users.h"
#include "log/log.h"
#include "protocol/policy_files.h"
#include "protocol/protocol.h"
#include "protocol/settings.h"
#include "redis/options.h"
#include "request/unmatched.h"
#include "server/options.h"

namespace sluice::config {

using base::Setting;

struct Listener {
  std::optional<protocol::Protocol> protocol = {};  // nothing: the admin port
  Address address;
  net::Timeouts timeouts = {};
  request::Unmatched unmatched = {};
  bool strict = false;  // request::Peer::strict
};

// One entry of `policy`. An empty list of them stands for the built-in examples of the protocols
// that are served, unless there are native rules.
struct Policy {
  protocol::Protocol protocol;
  base::Cloned<protocol::PolicyFiles> files;  // never empty
};

// `rules` of the file. Shares the parsed file, so that it is not parsed again for them.
struct NativeRules {
  std::string path;
  std::shared_ptr<const policy::YamlDocument> document;  // null: there are none
  size_t count = 0;
};

enum class Durability : uint8_t { unsaid, none, interval, always };

// Where counters are kept.
struct StoreSettings {
  Setting<uint64_t> memory_bytes{uint64_t{1} << 30};
  Setting<std::string> path;  // the folder that they survive in; empty: none
  Setting<Durability> durability{Durability::unsaid};
  Setting<base::Duration> interval{base::milliseconds(100)};
  Setting<bool> fsync{false};
  // In Redis, shared with all servers that use the same one. Settings of it without `nodes` are an
  // error.
  std::optional<Setting<redis::Options>> redis{};
  RedisAccess redis_access{};  // of flags and variables

  // What it comes to: none without a folder, and in an interval unless it is said.
  Durability effective_durability() const;
  // Bound of this process' own table: with Redis only what decides while that is away.
  uint64_t table_bytes() const;
};

// What is logged, and how.
struct LogConfig {
  Setting<spdlog::level::level_enum> level{spdlog::level::info};
  Setting<log::LogFormat> format{log::LogFormat::text};
  std::map<log::LogModule, Setting<spdlog::level::level_enum>> modules{};  // with their own level
  Setting<uint64_t> denials_every{0};  // every Nth denial; 0: none

  log::LogSettings settings() const;
};

// What those need who run the server (config/operations.h).
struct Operations {
  Setting<std::string> admin_token;       // of the environment; or of the file
  Setting<std::string> admin_token_file;  // empty: none
  Setting<std::string> admin_socket;      // path that was asked for; empty: none was
  bool admin_off = false;                 // no admin port, also not by a socket
};

struct Config {
  std::vector<Setting<Listener>> listen;  // every protocol on its own port
  Setting<unsigned> workers{0};           // 0: as many as this process may use processors
  Setting<uint64_t> connections{base::bounds::connections_default};  // at most, at a time
  StoreSettings store;
  LogConfig log;
  std::string log_file;  // empty: standard error
  Operations operations;
  ConfiguredUsers users;  // of protocols whose clients authenticate; none: everybody may
  // Settings of protocols' own, by their numbers; empty where a protocol has none.
  std::array<base::Cloned<protocol::Settings>, protocol::protocols_max> own;
  std::vector<Policy> policy;
  Setting<NativeRules> rules;
  std::string file;          // the sluice.yaml that it comes from; empty: none
  uint64_t file_digest = 0;  // of its text

  Config();
  // Has the built-in example listen on this machine alone.
  void listen_on_loopback();

  // Of their own, or would it be the built-in example?
  bool has_policy() const { return !policy.empty() || rules.value.document; }
  bool serves(protocol::Protocol protocol) const;

  server::Options options() const;
  PolicyList policy_files() const;
  protocol::Settings& settings_of(protocol::Protocol protocol) {
    return *own[static_cast<size_t>(protocol)];
  }
  const protocol::Settings& settings_of(protocol::Protocol protocol) const {
    return *own[static_cast<size_t>(protocol)];
  }
};

// Calls `visit(number, description)` for each protocol that has settings about `subject`.
template <class Visit>
void each_settings(protocol::SettingsFormat::Subject subject, Visit&& visit) {
  const auto all = protocol::all();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->settings != nullptr && all[i]->settings->subject == subject) visit(i, *all[i]);
}

// What flags may say, as they were written.
struct Flags {
  std::optional<std::string> workers, connections, memory, data, durability, redis, redis_cluster,
      redis_username, redis_password_file, log_level, log_format, admin, unmatched;
  bool redis_tls = false;
  std::vector<std::string> listen;  // PROTOCOL=ADDRESS
  // Of protocols' own settings, by the flag's name.
  std::map<std::string_view, std::optional<std::string>> own;
};

// The text of a sluice.yaml into `config`. `file` is how the user named it; policy paths count from
// its folder. Without a policy or rules it is an error, unless only protocols are served that need
// none: who writes a file wants their own rules.
void read_config(std::string_view text, const std::string& file, Config& config,
                 base::Diagnostics& diagnostics);

// SLUICE_WORKERS, SLUICE_CONNECTIONS, SLUICE_MEMORY, SLUICE_DATA, SLUICE_DURABILITY,
// SLUICE_REDIS and SLUICE_REDIS_USERNAME, _PASSWORD, _PASSWORD_FILE and _TLS, SLUICE_LOG_LEVEL,
// SLUICE_LOG_FORMAT, SLUICE_ADMIN, SLUICE_ADMIN_TOKEN, SLUICE_ADMIN_TOKEN_FILE, and those of
// protocols' own settings; one that is set but empty counts as not set.
void apply_environment(const CommandIo& io, Config& config, base::Diagnostics& diagnostics);

void apply_flags(const Flags& flags, Config& config, base::Diagnostics& diagnostics);

// What does not go together, once all has been said.
void check_store(const Config& config, base::Diagnostics& diagnostics);

// As a sluice.yaml that gives the same server from any folder, with the origin of every value
// behind it.
std::string print_config(const Config& config);

}  // namespace sluice::config
