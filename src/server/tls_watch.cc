#include "server/tls_watch.h"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

using std::chrono::system_clock;

constexpr std::chrono::hours told_every{24}, told_before{24 * 14};

}  // namespace

void TlsWatch::add(std::string address, std::shared_ptr<net::ListenerTls> tls) {
  all_.push_back({std::move(address), std::move(tls)});
}

void TlsWatch::start() {
  if (!all_.empty()) thread_ = std::thread([this] { run(); });
}

void TlsWatch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void TlsWatch::run() {
  auto told_at = std::chrono::steady_clock::now() - told_every;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, period, [this] { return stopping_; })) {
    lock.unlock();
    for (size_t i = 0; i < all_.size(); ++i)
      // A listener of a name has an entry for each address, behind one another.
      if (i == 0 || all_[i].tls != all_[i - 1].tls) look(all_[i]);
    if (std::chrono::steady_clock::now() - told_at >= told_every) {
      for (const Watched& one : all_) tell_of_end(one);
      told_at = std::chrono::steady_clock::now();
    }
    lock.lock();
  }
}

void TlsWatch::look(const Watched& one) {
  using Look = net::ListenerTls::Look;
  const Look found = one.tls->look();
  if (found == Look::exchanged)
    log_->info("{}: new connections get the certificate that lies in {} now", one.address,
               one.tls->settings().certificate);
  if (found == Look::refused)
    log_->error("{}: {}; the certificate before it stays", one.address, one.tls->problem());
}

// A certificate that ends while nobody looks is an outage.
void TlsWatch::tell_of_end(const Watched& one) {
  const system_clock::time_point end{std::chrono::seconds(one.tls->context()->expires())};
  const auto left = end - system_clock::now();
  if (left <= system_clock::duration::zero())
    log_->error("{}: the certificate {} has ended, so clients refuse it", one.address,
                one.tls->settings().certificate);
  else if (left < told_before)
    log_->warn("{}: the certificate {} ends in {} days", one.address,
               one.tls->settings().certificate,
               std::chrono::duration_cast<std::chrono::hours>(left).count() / 24);
}

const net::ListenerTls* TlsWatch::of(const std::string& address) const {
  const auto at = std::ranges::find(all_, address, &Watched::address);
  return at == all_.end() ? nullptr : at->tls.get();
}

void TlsWatch::collect(metrics::Page& page) const {
  for (const Watched& one : all_) {
    const metrics::Labels labels{{"listener", one.address}};
    page.gauge("sluice_tls_certificate_expires_seconds",
               "When the listener's certificate ends, in seconds since 1970.",
               static_cast<double>(one.tls->context()->expires()), labels);
    page.gauge("sluice_tls_certificate_refused",
               "Do files lie there that cannot be used, so that the certificate before them stays?",
               one.tls->problem().empty() ? 0 : 1, labels);
  }
}

}  // namespace sluice::server
