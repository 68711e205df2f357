// Reads limitd's configuration: bucket types and their overrides become rules of the dialect, its
// settings a LimitdConfig. Not called by workers. The texts are arguments; no file is read.
// docs/compat/limitd.md documents each difference from limitd.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/time.h"
#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::limitd {

// How its rules differ from others. Constant; any thread.
extern const policy::Dialect dialect;

// A setting that is present, with its place.
template <class T>
struct LimitdSetting {
  T value{};
  std::string file;  // its name as the user gave it; if line is 0, an environment variable
  size_t line = 0;
};

struct LimitdDatabase {
  std::string path;  // empty: in memory
  bool in_memory = false;
};
struct LimitdConfigurator {
  std::string path;
  base::Duration interval{};
};

inline constexpr std::array<std::string_view, 6> log_levels = {"fatal", "error", "warn",
                                                               "info",  "debug", "trace"};

struct LimitdConfig {
  template <class T>
  using Setting = LimitdSetting<T>;
  using Database = LimitdDatabase;
  using Configurator = LimitdConfigurator;

  std::optional<Setting<uint16_t>> port;
  std::optional<Setting<std::string>>
      hostname;  // as it was given; from the environment it may not be an address
  std::optional<Setting<Database>> db;
  std::optional<Setting<std::string>> log_level;  // one of log_levels
  std::optional<Setting<std::string>> log_file;
  std::optional<Setting<Configurator>> configurator;
  size_t types = 0;
};

// A file or an environment variable: a view of its name, as the user knows it, and of its text.
struct NamedText {
  std::string_view name, text;
};

// Reads limitd's main file, if there is one, then the files of its folder FILE.d in the order of
// their names, then the environment (variables that are not limitd's are skipped), and appends the
// rules of the types to those of the dialect. Settings that `config` has already, from flags, are
// kept; `db` must be set in the end. Errors and warnings are appended to `diagnostics`; after an
// error neither `rules` nor `config` may be used.
//
// A configurator's file is a configuration of its own, of which only the types count: it must be
// read by itself, without an environment and with an empty `config`.
void read_limitd(std::span<const NamedText> files, std::span<const NamedText> environment,
                 request::Spaces& spaces, policy::RuleSet& rules, LimitdConfig& config,
                 base::Diagnostics& diagnostics);

}  // namespace sluice::limitd
