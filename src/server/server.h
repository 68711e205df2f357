// One running server: listeners, workers, the counter store and the live policy, from start to
// stop. SIGHUP, and a change of the policy's files, load a new generation of the policy. Built and
// run by the main thread; `run` returns when the process has been told to stop (SIGTERM, SIGINT,
// SIGQUIT) and every reply has been sent.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/live_policy.h"
#include "log/log.h"
#include "net/files.h"
#include "server/options.h"
#include "store/store.h"

namespace sluice::server {

struct Bound {
  Service service;
  std::string address;  // as "[::]:8321" or "127.0.0.1:8321"
  uint16_t port;
};

class Server {
 public:
  // `store` and `log` outlive the server.
  Server(Options options, live::Policy policy, store::Store& store, log::Log& log);
  ~Server();

  // Makes the workers and binds every listener. Returns nothing, or the error ("listen EADDRINUSE:
  // address already in use [::]:8321"). From then on connections are queued; `run` serves them.
  std::optional<std::string> start();

  // The addresses that `start` bound, in the order of the options.
  const std::vector<Bound>& bound() const;
  // How many descriptors `start` reserved, and for what.
  const net::FilesPlan& files() const;

  // Serves until SIGTERM, SIGINT or SIGQUIT. A second signal closes every connection at once.
  // False: that happened, so replies may be missing.
  bool run();
  // After `run`: a thread did not end in time, because something that it waits for does not answer
  // (a file on a disk that is gone). The destructor waits for it, so the process ends before.
  bool is_held_up() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
