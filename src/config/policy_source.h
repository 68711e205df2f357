// The source of a running server's policy: the files of its configuration, which it reads again at
// each reload. Created by the main thread, then used by the thread that reloads.
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

// Reads the configuration from all its sources.
using ReadConfig = std::function<Config(base::Diagnostics&)>;

class PolicySource {
 public:
  // `config`: the configuration at the start; `read` reads it again. `spaces` outlives this object;
  // when it knows `known_max` lists of limits or spaces, no policy is read any more.
  PolicySource(Config config, ReadConfig read, request::Spaces& spaces,
               size_t known_max = base::bounds::known_limits_max);

  // The policy at the start.
  live::Loaded first();
  // Reads the configuration again. Only `policy` and `rules` take effect; a warning names other
  // settings that have changed. `hash`: if the texts have this hash, no rules are made.
  live::Loaded again(uint64_t hash);

  // Can all files be read again? A pipe, for example, cannot.
  bool is_repeatable() const;

 private:
  std::vector<std::string> files_of(const Config& config) const;
  bool are_texts_of(uint64_t hash) const;
  protocol::SentPolicy* running(const protocol::PolicyFormat* format);
  void load(const Config& config, std::optional<uint64_t> unless, live::Loaded& loaded);
  void warn_of_changes(const Config& config, base::Diagnostics& diagnostics) const;

  Config start_;  // without the rules after they were read
  const ReadConfig read_;
  request::Spaces& spaces_;
  const size_t known_max_;
  std::vector<std::string> files_;  // the files of the rules that were made last
  std::chrono::milliseconds interval_{0};
};

}  // namespace sluice::config
