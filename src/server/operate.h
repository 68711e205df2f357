// What a server has for those who run it: the counts of its workers, the admin port, Divvy's page
// of metrics, statsd. Owned by the server, made before its workers and gone after them; main thread
// but for what says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "metrics/page.h"
#include "metrics/process.h"
#include "metrics/statsd.h"
#include "server/admin.h"
#include "server/facts.h"
#include "server/figures.h"
#include "server/http_server.h"
#include "server/listener.h"
#include "server/log_control.h"
#include "server/options.h"
#include "server/overrides_book.h"
#include "server/reloader.h"
#include "server/top_board.h"

namespace sluice::server {

class Operate {
 public:
  // Any thread, from the start on: names for rules, tallies for workers.
  Figures& figures() { return figures_; }

  // All of it outlives this; `reloader` and `overrides` may be null.
  void prepare(const Options& options, const Live& live, Reloader* reloader,
               OverridesBook* overrides, std::vector<std::string> files, const store::Store& store,
               base::Clock& clock, base::Log& log);
  // What else is to be collected; outlives this.
  void add_source(const metrics::Source& source) { sources_.add(source); }
  Denials& denials() { return log_control_->denials(); }
  // Null: nobody can ask for it.
  TopBoard* top_board() { return top_board_.get(); }
  // The HTTP server gets so many places.
  void start(size_t http_places);
  // From here on /health/ready says that the server stops.
  void begin_stop() { stopping_ = true; }
  void stop();

  // Is it for here? Then `take` owns the socket.
  static bool serves(Protocol protocol) {
    return protocol == Protocol::admin || protocol == Protocol::divvy_metrics;
  }
  bool take(int fd, Protocol protocol);
  // Of the connections that `take` would own.
  Listener::Owner http_owner();
  bool has_admin() const { return admin_ != nullptr; }
  Admin& admin() { return *admin_; }

 private:
  Figures figures_;
  metrics::ProcessSource process_;
  metrics::Sources sources_;
  std::atomic<bool> stopping_{false}, serving_{false};
  std::string statsd_prefix_;
  std::unique_ptr<Facts> facts_;
  std::unique_ptr<LogControl> log_control_;
  std::unique_ptr<Admin> admin_;
  std::unique_ptr<TopBoard> top_board_;
  std::unique_ptr<Site> divvy_page_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<metrics::StatsdSender> statsd_;
};

}  // namespace sluice::server
