// A protocol's own settings: a section of sluice.yaml with the protocol's name, flags of `sluice
// serve`, and environment variables. A protocol with such settings defines a SettingsFormat in its
// folder (Description::settings); config::Config has an object for each. Main thread; the thread
// that reloads has objects of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {
struct Config;
struct CommandIo;
class FileReader;
}  // namespace sluice::config
namespace sluice::policy {
class YamlNode;
}
namespace sluice::server {
struct Options;
}

namespace sluice::protocol {

enum class Protocol : uint8_t;

// A setting that has a flag and an environment variable.
struct SettingsFlag {
  std::string_view flag, variable;   // "--cleanup-interval", "SLUICE_CLEANUP_INTERVAL"
  std::string_view type_name, help;  // of the flag
};

class Settings {
 public:
  virtual ~Settings() = default;
  virtual std::unique_ptr<Settings> clone() const = 0;

  // Reads the section of a sluice.yaml.
  virtual void read(config::FileReader& reader, const policy::YamlNode& section) = 0;
  // Sets the value of one of the format's flags. An error in it is reported at `place`.
  virtual void set(const SettingsFlag& flag, std::string_view text, const std::string& origin,
                   const base::Diagnostic& place, base::Diagnostics& diagnostics);
  // The settings as lines of a sluice.yaml, each with its origin. Equal settings have equal lines.
  virtual std::vector<std::pair<std::string, std::string>> lines() const = 0;
  // A line for `check` and for the start, about what clients of the protocol may not expect with
  // these settings; empty: there is none. Called after all sources were read.
  virtual std::string note(const config::Config& config) const;
  // Puts the settings into the server's options. `self`: the protocol's number.
  virtual void add_to(server::Options& options, Protocol self) const = 0;
  // Reports settings that do not fit other settings; called after all sources were read.
  virtual void check(const config::Config& config, base::Diagnostics& diagnostics) const;

 protected:
  Settings() = default;
  Settings(const Settings&) = default;
  Settings& operator=(const Settings&) = default;
};

struct SettingsFormat {
  // The subject of the settings: what is stored, or what operators see of the server. The latter
  // are printed and compared together with those of the admin port.
  enum class Subject { store, operations };

  Subject subject;
  std::span<const SettingsFlag> flags;
  std::unique_ptr<Settings> (*make)();
  // Warns of variables of the original server that `sluice serve` does not read; null: there are
  // none.
  void (*check_environment)(const config::Config& config, const config::CommandIo& io,
                            base::Diagnostics& diagnostics) = nullptr;
  // What requests to which no rule applies are answered, in words: the value of a setting of these,
  // so listeners do not have it. Null: listeners have it.
  std::string_view (*unmatched)(const Settings& settings) = nullptr;
};

}  // namespace sluice::protocol
