#include "server/server_view.h"

#include "store/store.h"

namespace sluice::server {

request::ServerFigures ServerView::figures() const {
  request::ServerFigures figures;
  for (const engine::WorkerStats* const worker : stats_.worker_stats()) {
    const auto& its = worker->at(protocol_);
    figures.connections_total += its.opened.read();
    for (const auto& verb : its.requests)
      for (const auto& outcome : verb) figures.requests_total += outcome.read();
  }
  figures.connections = stats_.connections(protocol_);
  const store::Stats stats = store_.stats();
  figures.counters = stats.counters;
  figures.memory_bytes = stats.memory_bytes;
  figures.memory_bytes_max = stats.memory_bytes_max;
  figures.uptime = {std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::steady_clock::now() - started_)
                        .count()};
  return figures;
}

void ServerView::warn(std::string_view line) const {
  const auto second =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - started_)
          .count();
  if (warned_at_.exchange(second) == second) {
    ++passed_over_;
    return;
  }
  const uint64_t passed_over = passed_over_.exchange(0);
  if (passed_over == 0)
    log_->warn("{}: {}", protocol::name_of(protocol_), line);
  else
    log_->warn("{}: {} ({} more warnings since the last one)", protocol::name_of(protocol_), line,
               passed_over);
}

}  // namespace sluice::server
