// What the server knows of itself beside what its workers count: the store, the policy, the build.
// Owned by the server; any thread.
#pragma once

#include <string>

#include "metrics/page.h"
#include "live/live_policy.h"
#include "live/readings.h"
#include "store/store.h"

namespace sluice::server {

// Of all that somebody wrote: droplet's one rule is not among them.
size_t count_rules(const policy::RuleSet& rules);

class Facts final : public metrics::Source {
 public:
  // All of it outlives this; `readings` may be null.
  Facts(const Live& live, const Readings* readings, const store::Store& store, std::string version);
  void collect(metrics::Page& page) const override;

 private:
  const Live& live_;
  const Readings* const readings_;
  const store::Store& store_;
  const std::string version_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace sluice::server
