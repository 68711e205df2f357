// The variables of the original's environment, each read as the original reads it. Main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/time.h"
#include "config/command_io.h"

namespace sluice::envoy {

// Reads variables. Problems are reported under the variable's name. What cannot be read at all is
// reported by check_typed, and counts as not set elsewhere.
class Variables {
 public:
  Variables(const config::CommandIo& io, base::Diagnostics& diagnostics)
      : io_(io), diagnostics_(diagnostics) {}

  // Nothing: it is not set.
  std::optional<std::string> set(const char* name) const { return io_.environment(name); }
  // Nothing: it is not set, or empty.
  std::optional<std::string> text(const char* name) const;
  std::optional<bool> truth(const char* name) const;
  bool is_true(const char* name) const { return truth(name).value_or(false); }
  // Is it set, and not to `false`?
  bool is_wanted(const char* name) const;
  std::optional<base::Duration> duration(const char* name) const;
  std::optional<int64_t> number(const char* name) const;
  // A number out of its range is reported.
  std::optional<int64_t> count(const char* name, int64_t most);
  std::optional<uint16_t> port(const char* name);

  // Reports every variable that the original cannot read, an empty number or boolean too, and so
  // does not start with; also those that have no effect here.
  void check_typed();

  // At most one error for each variable.
  void complain(const char* name, std::string what, std::string remedy);
  void warn(const char* name, std::string what, std::string remedy);

 private:
  const config::CommandIo& io_;
  base::Diagnostics& diagnostics_;
};

}  // namespace sluice::envoy
