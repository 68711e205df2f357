// The environment that a test gives a command or a reader of settings, in place of the process's.
// Header alone; one thread.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace sluice::tests {

// For config::CommandIo::environment. `variables` is looked at when a variable is asked for, so it
// must live as long.
inline auto environment_of(const std::map<std::string, std::string>& variables) {
  return [&variables](const char* name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
}

}  // namespace sluice::tests
