// Settings of the server that belong to one protocol: a section of sluice.yaml with the protocol's
// name, flags of `sluice serve` and environment variables. A protocol with such settings defines a
// SettingsFormat in its folder (Description::settings); config::Config holds one object of each.
// The main thread, and the thread that reloads with an object of its own.
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

// A setting that is also a flag and a variable.
struct SettingsFlag {
  std::string_view flag, variable;   // "--cleanup-interval", "SLUICE_CLEANUP_INTERVAL"
  std::string_view type_name, help;  // of the flag
};

class Settings {
 public:
  virtual ~Settings() = default;
  virtual std::unique_ptr<Settings> clone() const = 0;

  // The section of a sluice.yaml.
  virtual void read(config::FileReader& reader, const policy::YamlNode& section) = 0;
  // The value of one of the format's flags; what is wrong with it is reported at `place`.
  virtual void set(const SettingsFlag& flag, std::string_view text, const std::string& origin,
                   const base::Diagnostic& place, base::Diagnostics& diagnostics);
  // Lines of a sluice.yaml with where each comes from. Equal settings have equal lines.
  virtual std::vector<std::pair<std::string, std::string>> lines() const = 0;
  // What comes of them for a server; `self` is the protocol's number.
  virtual void add_to(server::Options& options, Protocol self) const = 0;
  // What of them does not go together with the others, once all has been said.
  virtual void check(const config::Config& config, base::Diagnostics& diagnostics) const;

 protected:
  Settings() = default;
  Settings(const Settings&) = default;
  Settings& operator=(const Settings&) = default;
};

struct SettingsFormat {
  // What they are about: what is stored, or what those who run the server see of it. The latter
  // are printed and compared together with the admin port's.
  enum class Subject { store, operations };

  Subject subject;
  std::span<const SettingsFlag> flags;
  std::unique_ptr<Settings> (*make)();
  // Warns of variables that `sluice serve` does not read; null: there are none to warn of.
  void (*check_environment)(const config::Config& config, const config::CommandIo& io,
                            base::Diagnostics& diagnostics) = nullptr;
  // They say what requests are answered that no rule applies to; then listeners do not.
  bool has_unmatched = false;
};

}  // namespace sluice::protocol
