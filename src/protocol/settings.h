// A protocol's own settings: a section of sluice.yaml with the protocol's name, flags of `sluice
// serve`, and environment variables, declared as a table (config/table.h). A protocol with such
// settings defines a SettingsFormat in its folder (Description::settings); config::Config has an
// object for each. Main thread; the thread that reloads has objects of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {
struct Config;
struct CommandIo;
struct Entry;
}  // namespace sluice::config
namespace sluice::server {
struct Options;
}

namespace sluice::protocol {

enum class Protocol : uint8_t;

class Settings {
 public:
  virtual ~Settings() = default;
  virtual std::unique_ptr<Settings> clone() const = 0;

  // The settings, bound to the values of this object.
  virtual std::vector<config::Entry> table() = 0;
  // A line for `check` and for the start, about what clients of the protocol may not expect with
  // these settings; empty: there is none. Called after all sources were read.
  virtual std::string note(const config::Config&) const { return {}; }
  // Puts the settings into the server's options. `self`: the protocol's number.
  virtual void add_to(server::Options& options, Protocol self) const = 0;
  // Reports settings that do not fit other settings; called after all sources were read.
  virtual void check(const config::Config&, base::Diagnostics&) const {}

  std::string origin = "default";  // of the section

 protected:
  Settings() = default;
  Settings(const Settings&) = default;
  Settings& operator=(const Settings&) = default;
};

struct SettingsFormat {
  std::unique_ptr<Settings> (*make)();
  bool on_one_line = true;  // the section is printed as `{ a: 1, b: 2 }`, else a line for each
  // Warns of variables of the original server that `sluice serve` does not read; null: there are
  // none.
  void (*check_environment)(const config::Config& config, const config::CommandIo& io,
                            base::Diagnostics& diagnostics) = nullptr;
  // What requests to which no rule applies are answered, in words: the value of a setting of these,
  // so listeners do not have it. Null: listeners have it.
  std::string_view (*unmatched)(const Settings& settings) = nullptr;
};

}  // namespace sluice::protocol
