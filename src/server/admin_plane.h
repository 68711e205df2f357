// What a server has for those who run it: the counts of its workers, the admin port,
// protocols' own pages of metrics, statsd. Owned by the server, made before its workers and gone
// after them; main thread but for what says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/admin.h"
#include "admin/http_server.h"
#include "admin/log_control.h"
#include "admin/server_info.h"
#include "admin/server_stats.h"
#include "admin/top_board.h"
#include "live/override_registry.h"
#include "live/reloader.h"
#include "log/log.h"
#include "metrics/page.h"
#include "metrics/process.h"
#include "metrics/statsd.h"
#include "net/listener.h"
#include "net/unix_listener.h"
#include "server/options.h"

namespace sluice::server {

class AdminPlane {
 public:
  // Any thread, from the start on: names for rules, statistics for workers.
  admin::ServerStats& server_stats() { return server_stats_; }

  // All of it outlives this; `reloader` and `overrides` may be null.
  void prepare(const Options& options, const live::Live& live, live::Reloader* reloader,
               live::OverrideRegistry* overrides, std::vector<std::string> files,
               const store::Catalog& store, base::Clock& clock, log::Log& log,
               live::ChangeLog& changes);
  // What else must be collected; outlives this.
  void add_source(const metrics::Source& source) { sources_.add(source); }
  engine::DenialSampler& denials() { return log_control_->denials(); }
  // Null: it cannot be asked for.
  admin::TopBoard* top_board() { return top_board_.get(); }
  // The HTTP server gets so many places.
  void start(size_t http_places);
  // From here on /health/ready says that the server stops.
  void begin_stop() { stopping_ = true; }
  void stop();

  // False: it is not HTTP. Else this owns the socket.
  bool take(int fd, const Service& service);
  // Of the connections that `take` would own.
  net::Listener::Owner http_owner();
  // Also serves the admin port at that socket, until `stop`, before which it stays.
  void serve(const net::UnixListener& listener) { http_->serve(listener.fd(), *admin_); }
  bool serves_http() const { return http_ != nullptr; }
  bool has_admin() const { return admin_ != nullptr; }
  admin::Admin& admin() { return *admin_; }

 private:
  admin::ServerStats server_stats_;
  metrics::ProcessSource process_;
  metrics::Sources sources_;
  std::atomic<bool> stopping_{false}, serving_{false};
  std::unique_ptr<admin::ServerInfo> server_info_;
  std::unique_ptr<admin::LogControl> log_control_;
  std::unique_ptr<admin::Admin> admin_;
  std::unique_ptr<admin::TopBoard> top_board_;
  struct OwnPage {
    Service service;
    std::unique_ptr<admin::HttpHandler> handler;
  };
  std::vector<OwnPage> pages_;
  std::unique_ptr<admin::HttpServer> http_;
  std::unique_ptr<metrics::StatsdSender> statsd_;
};

}  // namespace sluice::server
