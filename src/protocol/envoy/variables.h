// The variables of the original's environment, each read as the original reads it. Main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "config/variables.h"

namespace sluice::envoy {

// The names of all variables of the original.
std::vector<std::string_view> variable_names();
// Is it one of a family without effect, of which Variables::check warns by itself?
bool has_no_effect(std::string_view name);

// What cannot be read at all is reported by check, and counts as not set elsewhere.
class Variables : public config::Variables {
 public:
  using config::Variables::Variables;

  std::optional<bool> truth(const char* name) const;
  bool is_true(const char* name) const { return truth(name).value_or(false); }
  // Is it set, and not to `false`?
  bool is_wanted(const char* name) const;
  // Do limits come by xDS?
  bool is_xds() const;
  std::optional<base::Duration> duration(const char* name) const;
  std::optional<int64_t> number(const char* name) const;
  std::optional<double> ratio(const char* name) const;
  // A number out of its range is reported.
  std::optional<int64_t> count(const char* name, int64_t most);
  std::optional<uint16_t> port(const char* name);

  // Reports every variable that the original cannot read, an empty number or boolean too, and so
  // does not start with; those that ask for something that sluice cannot do and must not ignore;
  // and those that have no effect here, or none without another one.
  void check();
  // Warns of those that are about a Redis, where none is named.
  void warn_of_redis();
};

}  // namespace sluice::envoy
