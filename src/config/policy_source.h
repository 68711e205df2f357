// Where a running server's policy comes from: the files of its configuration, which are read once
// more when it is asked to reload. Made by the main thread, then used by the thread that reloads.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "config/config.h"
#include "live/live_policy.h"

namespace sluice::config {

// The configuration as all its sources give it now.
using ReadConfig = std::function<Config(base::Diagnostics&)>;

class PolicySource {
 public:
  // `config`: what the server starts with; `read`: gives it again. `spaces` outlives this; once it
  // knows `known_max` lists of limits or spaces, no policy is read again.
  PolicySource(Config config, ReadConfig read, request::Spaces& spaces,
               size_t known_max = base::bounds::known_limits_max);

  // What the server starts with.
  live::Loaded first();
  // The state by now; of it only `policy` and `rules` are of interest, and a warning says what
  // else has changed. `hash`: for these texts no rules are made.
  live::Loaded again(uint64_t hash);

  // Can all files be read a second time? Not a pipe, for example.
  bool is_repeatable() const;

 private:
  std::vector<std::string> files_of(const Config& config) const;
  bool are_texts_of(uint64_t hash) const;
  void load(const Config& config, std::optional<uint64_t> unless, live::Loaded& loaded);
  void warn_of_changes(const Config& config, base::Diagnostics& diagnostics) const;

  Config start_;  // without the rules, once they are read
  const ReadConfig read_;
  request::Spaces& spaces_;
  const size_t known_max_;
  std::vector<std::string> files_;  // of the last rules that were made
  std::chrono::milliseconds interval_{0};
};

}  // namespace sluice::config
