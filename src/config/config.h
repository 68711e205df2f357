// The server's settings, each with where it comes from: flags override the environment, which
// overrides the file, which overrides the defaults. Plain values, built and read by the main
// thread; what is wrong with a source is a diagnostic.
#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/diagnostic.h"
#include "config/address.h"
#include "config/load_policy.h"
#include "config/outside.h"
#include "log/log.h"
#include "redis/options.h"
#include "server/options.h"

namespace sluice::config {

template <class T>
struct Setting {
  T value{};
  std::string origin =
      "default";  // for people: "default", "sluice.yaml:3", "SLUICE_WORKERS", "--workers"
};

struct Listener {
  protocol::Protocol protocol = protocol::Protocol::divvy;
  Address address;
  net::Timeouts timeouts = {};
};

// One entry of `policy`. An empty list of them stands for the built-in example, unless there are
// native rules or nobody is served Divvy's protocol.
struct Policy {
  Setting<std::string> path;  // as it is to be opened
  Setting<divvy::DivvyMatching> matching{divvy::DivvyMatching::code};
  std::shared_ptr<const limitd::LimitdSource>
      limitd{};  // not null: of limitd's dialect, not Divvy's
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

  // What it comes to: none without a folder, and in an interval unless it is said.
  Durability kept() const;
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

// Divvy's own page of metrics, and what it tells statsd.
struct DivvyPage {
  Address address;
  std::string path = "/metrics";
};
struct Statsd {
  Address address;
  std::string prefix;
  bool tcp = false;
};

// What those need who run the server (config/operations.h).
struct Operations {
  Setting<std::string> admin_token;       // of the environment; or of the file
  Setting<std::string> admin_token_file;  // empty: none
  std::optional<Setting<DivvyPage>> divvy_page{};
  std::optional<Setting<Statsd>> statsd{};
};

struct Config {
  std::vector<Setting<Listener>> listen;  // every protocol on its own port
  Setting<unsigned> workers{0};           // 0: as many as this process may use processors
  Setting<uint64_t> connections{base::bounds::connections_default};  // at most, at a time
  StoreSettings store;
  LogConfig log;
  Setting<base::Duration> cleanup_interval{base::seconds(60)};  // of droplet; 0: never
  std::string log_file;                                         // empty: standard error
  Operations operations;
  std::vector<Policy> policy;
  Setting<NativeRules> rules;
  std::string file;          // the sluice.yaml that it comes from; empty: none
  uint64_t file_digest = 0;  // of its text

  Config();

  // Of their own, or would it be the built-in example?
  bool has_policy() const { return !policy.empty() || rules.value.document; }
  bool serves(protocol::Protocol protocol) const;

  server::Options options() const;
  std::vector<PolicyFile> policy_files() const;
};

// What flags may say, as they were written.
struct Flags {
  std::optional<std::string> workers, connections, memory, data, durability, redis, log_level,
      log_format, cleanup_interval, admin;
  std::vector<std::string> listen;  // PROTOCOL=ADDRESS
};

// The text of a sluice.yaml into `config`. `file` is how the user named it; policy paths count from
// its folder. Without a policy or rules it is an error, unless only droplet is served, which needs
// none: who writes a file wants their own rules.
void read_config(std::string_view text, const std::string& file, Config& config,
                 base::Diagnostics& diagnostics);

// SLUICE_WORKERS, SLUICE_CONNECTIONS, SLUICE_MEMORY, SLUICE_DATA, SLUICE_DURABILITY,
// SLUICE_LOG_LEVEL, SLUICE_LOG_FORMAT, SLUICE_CLEANUP_INTERVAL, SLUICE_ADMIN, SLUICE_ADMIN_TOKEN;
// one that is set but empty counts as not set.
void apply_environment(const Outside& outside, Config& config, base::Diagnostics& diagnostics);

void apply_flags(const Flags& flags, Config& config, base::Diagnostics& diagnostics);

// What does not go together, once all has been said.
void check_store(const Config& config, base::Diagnostics& diagnostics);

// As a sluice.yaml that gives the same server from any folder, with the origin of every value
// behind it.
std::string print_config(const Config& config);

}  // namespace sluice::config
