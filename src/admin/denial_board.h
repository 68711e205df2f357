// The refusals of the last day, over all workers: collects what each has noted (engine/denials.h)
// every ten seconds and whenever it is asked, and answers /v1/denials. Owned by the server,
// outlives its workers' use. `collect_some` on the housekeeping thread, `answer` on one thread that
// may wait.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "admin/denial_history.h"
#include "admin/http_server.h"
#include "admin/server_stats.h"
#include "admin/top_board.h"
#include "base/clock.h"
#include "live/live_policy.h"
#include "request/space.h"
#include "wire/http_session.h"

namespace sluice::admin {

class DenialBoard {
 public:
  // All of it outlives this. spaces: null: no counter's name is known.
  DenialBoard(base::Clock& clock, const live::Live& live, const ServerStats& server_stats,
              const request::Spaces* spaces);

  // Before the server serves.
  void add(std::function<void(TopBoard::Visit)> worker);

  // Every ten seconds: has each worker hand on what it has noted, soon, and keeps what was handed
  // on before. Waits for no worker.
  void collect_some();

  // since=DURATION (up to a day), actor, rule, limit=1..1000.
  wire::HttpResponse answer(const wire::HttpRequest& request);

 private:
  // Between the workers and this: who was asked, and what they have handed on. A worker that is
  // late leaves it here.
  struct Tray;

  void ask_workers() const;
  void keep();
  void find_owners(const std::vector<std::unique_ptr<engine::DenialTable>>& tables);

  base::Clock& clock_;
  const live::Live& live_;
  const ServerStats& server_stats_;
  const request::Spaces* const spaces_;
  const base::Time started_;
  std::vector<std::function<void(TopBoard::Visit)>> workers_;
  const std::shared_ptr<Tray> tray_;
  std::mutex mutex_;  // of what follows
  DenialHistory history_;
  // By family and rule; the rule's number in metrics as well, for rules without an id.
  using Named = std::tuple<const void*, uint64_t, uint16_t>;
  std::map<Named, std::shared_ptr<const DenialHistory::Owner>> owners_;
  base::Time asked_at_{};  // by monotonic time; of collect_some
};

}  // namespace sluice::admin
