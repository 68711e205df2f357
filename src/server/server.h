// One running server: listeners, workers, the counter store and the live policy, from start to
// stop. SIGHUP, and a change of the policy's files, bring in a new generation of it. Built and run
// by the main thread; `run` returns when the process has been told to stop (SIGTERM, SIGINT,
// SIGQUIT) and every reply owed is out.
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

  // Makes the workers and binds every listener, or says what could not be had and why ("listen
  // EADDRINUSE: address already in use [::]:8321"). After it connections are queued, and served
  // once `run` is called.
  std::optional<std::string> start();

  // What `start` bound, in the order of the options.
  const std::vector<Bound>& bound() const;
  // What `start` keeps descriptors for.
  const net::FilesPlan& files() const;

  // Serves until SIGTERM, SIGINT or SIGQUIT. A second one closes every connection at once. False:
  // it did, so replies may be missing.
  bool run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
