// The server's settings, each with its origin. Flags override the environment, which overrides the
// file, which overrides the defaults. Plain values, built and read by the main thread; errors in a
// source become diagnostics.
#pragma once

#include <spdlog/common.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
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
#include "config/redis_settings.h"
#include "config/table.h"
#include "config/users.h"
#include "log/log.h"
#include "net/tls.h"
#include "otlp/options.h"
#include "protocol/policy_files.h"
#include "protocol/protocol.h"
#include "protocol/settings.h"
#include "redis/options.h"
#include "request/session.h"
#include "server/options.h"

namespace sluice::config {

using base::Setting;

struct Listener {
  std::optional<protocol::Protocol> protocol = {};  // empty: the admin port, or health alone
  Address address;
  net::Timeouts timeouts = {};
  request::Unmatched unmatched = {};
  bool strict = false;                     // request::Peer::strict
  std::optional<net::TlsServer> tls = {};  // empty: plain
  bool only_health = false;                // the admin port's /health/ alone

  bool is_admin() const { return !protocol && !only_health; }
};

// One entry of `policy`. If the list has no entries, and there are no native rules, the protocols
// that are served have their built-in examples.
struct Policy {
  protocol::Protocol protocol;
  base::Cloned<protocol::PolicyFiles> files;  // never empty
};

// The `rules` of the file. It shares the parsed file, so that it need not be parsed again.
struct NativeRules {
  std::string path;
  std::shared_ptr<const policy::YamlDocument> document;  // null: there are none
  size_t count = 0;
};

enum class Durability : uint8_t { unsaid, none, interval, always };

// The place of the counters.
struct StoreSettings {
  Setting<uint64_t> memory_bytes{uint64_t{1} << 30};
  Setting<std::string> path;  // the folder of a store on disk; empty: none
  Setting<Durability> durability{Durability::unsaid};
  Setting<base::Duration> interval{base::milliseconds(100)};
  Setting<bool> fsync{false};
  // For a server that still has the folder; up to base::bounds::drain_us_max.
  Setting<base::Duration> wait{};
  unsigned servers = 1;  // that share the counters in Redis
  // Counters in Redis, shared by all servers that use the same one. Empty: not in Redis. Settings
  // without `nodes` are an error. A server uses redis_options().
  std::optional<Setting<redis::Options>> redis{};
  RedisAccess redis_access{};  // from flags and variables

  // The durability in force: none without a folder; with one, at intervals unless it is set.
  Durability effective_durability() const;
  // Those of the file with what flags and variables say of its place and access; `redis` is there.
  redis::Options redis_options() const;
  // The bound of this process's table; with Redis, of the table that decides while Redis cannot.
  uint64_t table_bytes() const;
};

// The settings of holds (store::HoldBook::Options).
struct HoldSettings {
  Setting<uint64_t> most{1'000'000};
  Setting<base::Duration> ttl{base::seconds(60)}, remember{base::seconds(600)};
};

// The settings of the log.
struct LogConfig {
  Setting<spdlog::level::level_enum> level{spdlog::level::info};
  Setting<log::LogFormat> format{log::LogFormat::text};
  std::map<log::LogModule, Setting<spdlog::level::level_enum>> modules{};  // with own levels
  Setting<uint64_t> denials_every{0};  // logs every Nth denial; 0: none

  log::LogSettings settings() const;
};

// Settings for operators (config/operations.h).
struct Operations {
  Setting<std::string> admin_token;       // from the environment or the file
  Setting<std::string> admin_token_file;  // empty: none
  Setting<std::string> admin_socket;      // the path that was set; empty: none was
  bool admin_off = false;                 // no admin port, and no admin socket either
};

// A variable that a drop-in's original reads, and the one of the table that sets the same.
// Literals.
struct SameVariable {
  const char *original, *own;
};

struct Config {
  std::vector<Setting<Listener>> listen;  // each on a port of its own
  Setting<unsigned> workers{0};           // 0: one for each processor that the process may use
  Setting<uint64_t> connections{base::bounds::connections_default};  // the most at a time
  Setting<base::Duration> drain{};  // of a stop, before it ends anything
  StoreSettings store;
  HoldSettings holds;
  LogConfig log;
  std::string log_file;  // empty: standard error
  Operations operations;
  // The folder of time zones' data; empty: the first that has any (base::ZoneData::find).
  Setting<std::string> time_zone_data;
  otlp::Options otlp;
  ConfiguredUsers users;  // for protocols whose clients authenticate; none: no client must
  // The protocols' own settings, by the protocols' numbers; empty for a protocol without settings.
  std::array<base::Cloned<protocol::Settings>, protocol::protocols_max> own;
  std::vector<Policy> policy;
  Setting<NativeRules> rules;
  std::string file;          // the sluice.yaml that was read; empty: none
  uint64_t file_digest = 0;  // of the text of `file`
  // The original's variables of the drop-in command that serves this configuration: remedies name
  // them. Empty: `sluice serve` serves it.
  std::span<const SameVariable> same_variables{};

  Config();
  // Makes the built-in example listen on loopback only.
  void listen_on_loopback();

  // Is a policy configured? If not, the built-in example is served.
  bool has_policy() const { return !policy.empty() || rules.value.document; }
  bool serves(protocol::Protocol protocol) const;

  // The notes of the settings of the protocols that are served (protocol::Settings::note).
  std::vector<std::string> notes() const;

  server::Options options() const;
  PolicyList policy_files() const;
  protocol::Settings& settings_of(protocol::Protocol protocol) {
    return *own[static_cast<size_t>(protocol)];
  }
  const protocol::Settings& settings_of(protocol::Protocol protocol) const {
    return *own[static_cast<size_t>(protocol)];
  }
};

// Calls `visit(number, description)` for each protocol that has settings.
template <class Visit>
void each_settings(Visit&& visit) {
  const auto all = protocol::all();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->settings != nullptr) visit(i, *all[i]);
}

// The values of the flags, as they were typed.
struct Flags {
  std::vector<std::string> listen;  // PROTOCOL=ADDRESS
  // By the flags' names: "--workers". Of a flag without a value: "".
  std::map<std::string_view, std::optional<std::string>> given;
  bool print = false;  // --print-config
};

// All settings, bound to the values in `config`.
Table table_of(Config& config);

// Reads the text of a sluice.yaml into `config`. `file` is its name as the user gave it; paths of
// policies are relative to its folder. A file without a policy or rules is an error, unless all
// protocols that it serves need none: a user who writes a file wants rules of their own.
void read_config(std::string_view text, const std::string& file, Config& config,
                 base::Diagnostics& diagnostics);

// Sets what variables name. One that is set but empty counts as not set.
void apply_environment(const CommandIo& io, Config& config, base::Diagnostics& diagnostics);

void apply_flags(const Flags& flags, Config& config, base::Diagnostics& diagnostics);

// Sets what the variable `as` sets, from another program's variable `name`, as that of a drop-in
// (Config::same_variables).
void apply_variable(std::string_view as, std::string_view text, const std::string& name,
                    Config& config, base::Diagnostics& diagnostics);

// Reports settings of the store that exclude each other; called after all sources were read.
void check_store(const Config& config, base::Diagnostics& diagnostics);

// A sluice.yaml that gives the same server from any folder, with the origin of each value as a
// comment.
std::string print_config(const Config& config);

// The settings that differ and that a reload does not apply, by their paths: "store.memory".
std::vector<std::string> changed_settings(const Config& a, const Config& b);

}  // namespace sluice::config
