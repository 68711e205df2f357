#include "server/doors.h"

#include <string>

namespace sluice::server {
namespace {

constexpr std::array<const char*, engine::closed_count> words{
    "did not finish a request in time (request_timeout)",
    "had the oldest unfinished requests when these reached their bound of memory",
    "took no replies in time (send_timeout)",
    "had taken no replies for the longest when these reached their bound of memory",
    nullptr,  // idle_timeout: not logged, as such clients did nothing wrong
    "had the oldest handshakes of TLS when these were too many"};

}  // namespace

void Doors::collect(metrics::Page& page) const {
  page.counter("sluice_connections_turned_away_total",
               "Connections that were closed at once, as there were as many as may be.",
               static_cast<double>(turned_away_.load(std::memory_order_relaxed)));
  page.counter("sluice_accept_pauses_total",
               "Times that accepting found clients waiting and no descriptor for them: some ten a "
               "second while it pauses.",
               static_cast<double>(pauses_.load(std::memory_order_relaxed)));
}

void Doors::tell(const ClosedFor& closed, std::chrono::steady_clock::time_point now, bool all) {
  if (!all && now < next_log_) return;
  std::string text;
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0 && what != nullptr)
      text += (text.empty() ? "" : "; ") + std::to_string(count) + " " + what;
  };
  for (size_t i = 0; i < engine::closed_count; ++i) add(closed[i] - told_[i], words[i]);
  const uint64_t away = turned_away_.load(std::memory_order_relaxed);
  add(away - told_turned_away_, "came when there were as many as may be (connections)");
  if (text.empty()) return;
  log_->warn("connections were closed: {}", text);
  told_ = closed;
  told_turned_away_ = away;
  next_log_ = now + log_period;
}

}  // namespace sluice::server
