// What a server is given at its start. Plain values, filled by the command line and the
// configuration file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/options.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/time.h"
#include "metrics/page.h"
#include "net/listener_options.h"
#include "request/space.h"
#include "request/unmatched.h"
#include "server/service.h"
#include "store/metadata_store.h"

namespace sluice::server {

struct ListenerOptions {
  Service service;
  std::string host = "::";  // as the next two in net::Endpoint
  uint16_t port = 0;
  net::Timeouts timeouts = {};
  request::Unmatched unmatched = {};  // what takes and waits are answered that no rule applies to
  bool strict = false;                // request::Peer::strict
};

struct Options {
  std::vector<ListenerOptions> listeners;
  unsigned workers = 0;  // threads; 0: as many as this process may use processors
  size_t connections_max = base::bounds::connections_default;
  // How often full counters are forgotten, where the protocol is served that wants it; 0: never.
  base::Duration cleanup_interval = base::seconds(60);
  std::optional<protocol::Protocol> cleaned_protocol = {};
  // What sessions go by, by their protocol's number; null: the defaults.
  std::array<std::shared_ptr<const request::SessionOptions>, protocol::protocols_max>
      session_options = {};
  // Descriptors that the store will want beside those it has: on disk, and to Redis.
  size_t store_files = 0, redis_files = 0;
  uint64_t denials_every = 0;  // every Nth is logged; 0: none
  admin::AdminOptions admin = {};
  // The path of a UNIX socket that the admin port is served at as well; empty: none.
  std::string admin_socket = {};
  bool is_admin_socket_wanted = false;  // without it the server does not start
  std::optional<admin::StatsdOptions> statsd = {};
  // What else metrics are collected from: stores. Outlives the server.
  std::vector<const metrics::Source*> sources = {};
  // What rules and store intern in; outlives the server. Null: there can be no overrides.
  request::Spaces* spaces = nullptr;
  // The process's, which the store goes by as well; outlives the server. Null: one of its own.
  base::Clock* clock = nullptr;
  // Keeps the overrides; outlives the server. Null: they are forgotten at exit.
  store::MetadataStore* metadata = nullptr;
  std::function<void()> on_stop = {};  // when the server begins to stop; on the main thread
  // SIGUSR1, and SIGHUP beside the reload: the log's file must be opened again; on the main
  // thread. Not there: the log is in no file.
  std::function<void()> reopen_log = {};
};

}  // namespace sluice::server
