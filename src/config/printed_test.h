// What --print-config shows of one section, for tests.
#pragma once

#include <string>
#include <string_view>

#include "config/config.h"

namespace sluice::config {

// "http: { unmatched: deny }": the line of a section that is printed on one; empty: there is none.
inline std::string printed_line(const Config& config, std::string_view key) {
  const std::string printed = "\n" + print_config(config);
  const size_t begin = printed.find("\n" + std::string(key) + ": ");
  if (begin == printed.npos) return {};
  std::string line = printed.substr(begin + 1, printed.find('\n', begin + 1) - begin - 1);
  line.erase(line.rfind(" # "));
  return line.erase(line.find_last_not_of(' ') + 1);
}

// Sets what the flag or variable `name` sets.
inline void set(Config& config, std::string_view name, std::string_view text,
                base::Diagnostics& diagnostics) {
  each_outside(table_of(config), [&](const Entry& entry) {
    if (entry.about.flag == name || entry.about.variable == name)
      set_entry(entry, text, std::string(name), diagnostics);
  });
}

}  // namespace sluice::config
