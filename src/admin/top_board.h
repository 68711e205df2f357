// The most active and the most limited keys of the last minutes, over all workers: asks each to
// copy what it has counted, minute by minute on its own thread, and puts the copies together.
// Answers /v1/top. Owned by the server, outlives its workers' use; `answer` on one thread that may
// wait.
#pragma once

#include <functional>
#include <vector>

#include "admin/http_server.h"
#include "admin/server_stats.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/top_keys.h"
#include "live/live_policy.h"
#include "wire/http_session.h"

namespace sluice::admin {

class TopBoard {
 public:
  // All of it outlives this. A key whose space is known no more is not told. spaces: null: none is.
  TopBoard(base::Clock& clock, const live::Live& live, const ServerStats& server_stats,
           const request::Spaces* spaces);

  // By which a worker's keys are hashed.
  const base::Hash& hash() const { return hash_; }

  // Calls that on a worker's own thread, soon; or never, if it has ended.
  using Visit = std::function<void(engine::TopKeys&)>;
  // Before the server serves.
  void add(std::function<void(Visit)> worker) { workers_.push_back(std::move(worker)); }

  // by=denied|active|shadow_denied, limit=1..1000. `handler` tells problems.
  wire::HttpResponse answer(const wire::HttpRequest& request, const HttpHandler& handler) const;

 private:
  bool merge(int64_t period, bool shadow, metrics::TopMerge& all) const;

  base::Clock& clock_;
  const live::Live& live_;
  const ServerStats& server_stats_;
  const request::Spaces* const spaces_;
  const base::Time started_;
  const base::Hash hash_;
  std::vector<std::function<void(Visit)>> workers_;
};

}  // namespace sluice::admin
