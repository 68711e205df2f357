// The environment of a program that sluice stands in for, as its drop-in reads it. A drop-in
// declares the variables in its folder; from the declarations come the lines of --help, and the
// warnings of a name that is nearly one of them. Main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/setting.h"
#include "config/command_io.h"

namespace sluice::config {

struct Listener;

// `names`: of variables that are explained together. Texts are literals; lines of `help` end with
// '\n'.
struct VariableHelp {
  std::string_view names, help;  // "STATSD_HOST, STATSD_PORT"
};
// "  PORT           the port to listen on\n", a line or more for each.
std::string help_of(std::span<const VariableHelp> all);
// Each name once.
std::vector<std::string_view> names_of(std::span<const VariableHelp> all);

// Variables that are read beside those of the table: a drop-in's.
struct OtherVariables {
  std::vector<std::string_view> names = {};
  // Is it none of the names, and yet one of the original's, as one that has no effect? Null: none
  // is.
  bool (*is_known)(std::string_view name) = nullptr;
};
// Warns of each variable that is not known, and whose name is nearly that of one that is read.
void warn_of_near(const CommandIo& io, const OtherVariables& others,
                  base::Diagnostics& diagnostics);

class Variables {
 public:
  Variables(const CommandIo& io, base::Diagnostics& diagnostics)
      : io_(io), diagnostics_(diagnostics) {}

  // Nothing: it is not set.
  std::optional<std::string> set(const char* name) const { return io_.environment(name); }
  // Nothing: it is not set, or empty.
  std::optional<std::string> text(const char* name) const;
  // At most one error for each variable.
  void complain(const char* name, std::string what, std::string remedy);
  void warn(const char* name, std::string what, std::string remedy);

  // Applies PORT as Node.js does (node_port). `usual`: the port without it, for messages.
  // `may_be_empty`: an empty one counts as not set.
  void apply_node_port(base::Setting<Listener>& listener, const char* usual, bool may_be_empty);

 protected:
  const CommandIo& io_;
  base::Diagnostics& diagnostics_;
};

}  // namespace sluice::config
