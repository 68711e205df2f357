// limitd's configuration as a dialect of the one rule set: bucket types and their overrides become
// rules, its settings a LimitdConfig. Called off the workers; texts are handed in, nothing is read
// from files. The behaviour is documented, difference by difference, in docs/compat/limitd.md.
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
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::limitd {

// One that is set, and where.
template <class T>
struct LimitdSetting {
  T value{};
  std::string file;  // as it was named; with line 0 the name of an environment variable
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
      hostname;  // as it is: of the environment it may be no address
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

// Reads limitd's main file, if there is one, then those of its folder FILE.d in the order of their
// names, then the environment (all of it; what is not limitd's is skipped), and appends the
// types' rules to those of the dialect. What `config` has already, from flags, stays; `db` must
// be there at the end. Everything wrong or doubtful is appended to `diagnostics`; with an error
// among them neither `rules` nor `config` may be used.
//
// A configurator's file is a configuration of its own, of which only the types count: read it by
// itself, without an environment and with a fresh `config`.
void read_limitd(std::span<const NamedText> files, std::span<const NamedText> environment,
                 request::Spaces& spaces, policy::RuleSet& rules, LimitdConfig& config,
                 base::Diagnostics& diagnostics);

}  // namespace sluice::limitd
