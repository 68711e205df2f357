// The part of a server that its operators use: the workers' counts, the admin port, protocols' own
// pages of metrics, statsd. Owned by the server, made before its workers and destroyed after them.
// Used on the main thread, unless a function says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/admin.h"
#include "admin/denials.h"
#include "admin/http_server.h"
#include "admin/log_control.h"
#include "admin/server_stats.h"
#include "admin/top_board.h"
#include "live/override_registry.h"
#include "live/reloader.h"
#include "log/log.h"
#include "metrics/page.h"
#include "metrics/process.h"
#include "metrics/statsd.h"
#include "net/listener.h"
#include "server/options.h"

namespace sluice::server {

class AdminPlane {
 public:
  // Names of rules and statistics of workers. Any thread, from the start on.
  admin::ServerStats& server_stats() { return server_stats_; }

  // The arguments outlive this object; `reloader`, `overrides` and `holds` may be null.
  void prepare(const Options& options, const live::Live& live, live::Reloader* reloader,
               live::OverrideRegistry* overrides, store::HoldBook* holds,
               std::vector<std::string> files, const store::Catalog& store, base::Clock& clock,
               log::Log& log, live::ChangeLog& changes);
  // Adds a source of metrics, which outlives this object.
  void add_source(const metrics::Source& source) { sources_.add(source); }
  const metrics::Sources& sources() const { return sources_; }
  const admin::RequestRates& rates() const { return rates_; }
  // Called about once a second, on one thread.
  void sample_rates() {
    if (admin_) rates_.add(server_stats_.requests(), admin::RequestRates::Clock::now());
  }
  engine::DenialSampler& denials() { return log_control_->denials(); }
  // Null: top keys are off.
  admin::TopBoard* top_board() { return top_board_.get(); }
  // Null if and only if top keys are off.
  admin::DenialBoard* denial_board() { return denial_board_.get(); }
  // Starts the HTTP server with room for that many connections.
  void start(size_t http_places);
  // From here on /health/ready answers that the server is stopping.
  void begin_stop() { stopping_ = true; }
  const std::atomic<bool>& stopping() const { return stopping_; }
  // False: an answer does not end in time (admin::HttpServer::stop).
  bool stop();

  // Takes the socket `fd` if `service` is HTTP. False: it is not, and the caller keeps the socket.
  bool take(int fd, const Service& service, std::shared_ptr<net::TlsContext> tls);
  // The owner of the connections that `take` accepts.
  net::Listener::Owner http_owner();
  // Serves the admin port on that socket as well. `listener` must live until `stop`.
  void serve(const net::UnixListener& listener) { http_->serve(listener.fd(), *admin_); }
  bool serves_http() const { return http_ != nullptr; }
  bool has_admin() const { return admin_ != nullptr; }
  admin::Admin& admin() { return *admin_; }

 private:
  admin::ServerStats server_stats_;
  admin::RequestRates rates_;
  metrics::ProcessSource process_;
  metrics::Sources sources_;
  std::atomic<bool> stopping_{false}, serving_{false};
  std::unique_ptr<admin::ServerInfo> server_info_;
  std::unique_ptr<admin::LogControl> log_control_;
  std::unique_ptr<admin::Admin> admin_;
  std::unique_ptr<admin::TopBoard> top_board_;
  std::unique_ptr<admin::DenialBoard> denial_board_;
  struct OwnPage {
    Service service;
    std::unique_ptr<admin::HttpHandler> handler;
  };
  std::vector<OwnPage> pages_;
  std::unique_ptr<admin::HttpHandler> health_;
  std::unique_ptr<admin::HttpServer> http_;
  std::unique_ptr<metrics::StatsdSender> statsd_;
};

}  // namespace sluice::server
