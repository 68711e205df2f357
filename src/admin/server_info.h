// What the server knows of itself beside what its workers count: the store, the policy, the build.
// Owned by the server; any thread.
#pragma once

#include <string>

#include "live/live_policy.h"
#include "live/reload_history.h"
#include "metrics/page.h"
#include "store/catalog.h"

namespace sluice::admin {

class ServerInfo final : public metrics::Source {
 public:
  // All of it outlives this; `readings` may be null.
  ServerInfo(const live::Live& live, const live::ReloadHistory* history,
             const store::Catalog& store, std::string version);
  void collect(metrics::Page& page) const override;

 private:
  const live::Live& live_;
  const live::ReloadHistory* const history_;
  const store::Catalog& store_;
  const std::string version_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace sluice::admin
