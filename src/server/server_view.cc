#include "server/server_view.h"

#include <utility>

#include "base/ip_address.h"
#include "base/printable.h"
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

namespace {

constexpr size_t example_bytes_max = 300;

bool is_of_loopback(std::string_view text) {
  static const base::IpNetwork v4 = *base::parse_ip_network("127.0.0.0/8");
  static const base::IpNetwork v6 = *base::parse_ip_network("::1");
  const auto address = base::parse_ip_address(text);
  return address && (v4.contains(*address) || v6.contains(*address));
}

}  // namespace

ListenerView::ListenerView(std::string_view name, request::Unmatched unmatched,
                           std::shared_ptr<spdlog::logger> log)
    : request::ListenerView(unmatched == request::Unmatched::as_protocol ||
                            unmatched == request::Unmatched::error),
      name_(name),
      unmatched_(unmatched),
      log_(std::move(log)) {
  refusals_[request::malformed_code];  // so that its rate has a beginning
}

void ListenerView::set_address(std::string address) {
  address_ = std::move(address);
  is_loopback_ = is_of_loopback(address_);
}

void ListenerView::refused(std::string_view code, std::string_view example) const {
  const auto now = Clock::now();
  uint64_t since = 0;
  {
    const std::lock_guard lock(mutex_);
    Refusals& its = refusals_[code];
    ++its.count;
    if (example.empty() || now < its.next_line) return;
    its.next_line = now + std::chrono::microseconds(line_period.us);
    since = its.count - std::exchange(its.told, its.count);
  }
  log_->warn("{} at {}: {} refused ({}) since the last such line, for example: {}", name_, address_,
             since == 1 ? "1 request was" : std::to_string(since) + " requests were", code,
             base::printable(example, example_bytes_max));
}

// With a protocol's own answer, which its clients know, such requests may be right.
void ListenerView::log_unmatched(std::string_view example) const {
  log_->log(unmatched_ == request::Unmatched::error ? spdlog::level::warn : spdlog::level::info,
            "{} at {}: takes match no rule, for example: {} (`sluice explain --policy FILE` with "
            "these says why; such a line comes once a minute at most, and none if `unmatched` is "
            "allow or deny)",
            name_, address_, example);
}

void ListenerView::collect(metrics::Page& page) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [code, its] : refusals_)
    page.counter("sluice_requests_refused_total",
                 "Requests that were refused before any rule was looked for, because they are "
                 "malformed or their client may not ask.",
                 static_cast<double>(its.count),
                 {{"protocol", name_}, {"listener", address_}, {"reason", std::string(code)}});
}

}  // namespace sluice::server
