// A server's settings at its start. Plain values, set from the command line and the configuration
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/options.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/time.h"
#include "metrics/page.h"
#include "net/inherited.h"
#include "net/listener.h"
#include "net/tls.h"
#include "otlp/options.h"
#include "protocol/metrics.h"
#include "protocol/policy_files.h"
#include "protocol/protocol.h"
#include "request/session.h"
#include "request/space.h"
#include "store/hold_book.h"
#include "store/metadata_store.h"

namespace sluice::server {

// What a port serves: a protocol, or HTTP for the server's operators. Plain values.

struct Service {
  enum class Kind : uint8_t {
    requests,  // in the protocol
    page,      // HTTP: the protocol's own page of metrics, at `path`
    admin,     // HTTP: the admin port
    health,    // HTTP: its /health/ alone
  };
  Kind kind = Kind::requests;
  protocol::Protocol protocol{};
  std::string path{};

  Service(protocol::Protocol its_protocol) : protocol(its_protocol) {}
  static Service admin() { return Service(Kind::admin, {}, {}); }
  static Service health() { return Service(Kind::health, {}, {}); }
  // The page of a protocol that has metrics of its own.
  static Service page(protocol::Protocol its_protocol, std::string its_path) {
    return Service(Kind::page, its_protocol, std::move(its_path));
  }

  bool is_http() const { return kind != Kind::requests; }
  bool serves(protocol::Protocol other) const {
    return kind == Kind::requests && protocol == other;
  }
  std::string_view name() const {
    if (kind == Kind::admin) return "admin";
    if (kind == Kind::health) return "health";
    const protocol::Description& its = protocol::describe(protocol);
    return kind == Kind::page ? its.metrics->page_name : its.name;
  }

 private:
  Service(Kind its_kind, protocol::Protocol its_protocol, std::string its_path)
      : kind(its_kind), protocol(its_protocol), path(std::move(its_path)) {}
};

struct ListenerOptions {
  Service service;
  std::string host = "::";  // as the next two in net::Endpoint
  uint16_t port = 0;
  net::Timeouts timeouts = {};
  request::Unmatched unmatched = {};  // the answer to takes and waits that no rule matches
  bool strict = false;                // request::Peer::strict
  // That answer by a setting of the protocol itself, which takes the place of `unmatched`.
  std::optional<request::Unmatched> own_unmatched = {};
  std::optional<net::TlsServer> tls = {};  // empty: plain
};

struct Options {
  std::vector<ListenerOptions> listeners;
  unsigned workers = 0;  // threads; 0: one for each processor that this process may use
  size_t connections_max = base::bounds::connections_default;
  // Listening sockets of a service manager; null: there are none.
  std::shared_ptr<net::InheritedSockets> inherited = {};
  // How long a stop goes on serving while it says that the server is not ready.
  base::Duration drain = {};
  // How often full counters are forgotten, if a protocol that wants this is served; 0: never.
  base::Duration cleanup_interval = base::seconds(60);
  std::optional<protocol::Protocol> cleaned_protocol = {};
  // Settings of sessions, by the number of their protocol; null: the defaults.
  std::array<std::shared_ptr<const request::SessionOptions>, protocol::protocols_max>
      session_options = {};
  // How many more descriptors the store will open: files on disk, and connections to Redis.
  size_t store_files = 0, redis_files = 0;
  uint64_t denials_every = 0;  // every Nth denial is logged; 0: none
  admin::AdminOptions admin = {};
  // The path of a UNIX socket on which the admin port is served as well; empty: none.
  std::string admin_socket = {};
  bool is_admin_socket_wanted = false;  // true: the server does not start without that socket
  std::optional<admin::StatsdOptions> statsd = {};
  otlp::Options otlp = {};
  store::HoldBook::Options holds = {};
  // Makes the book of holds that are not those of this process. The store that keeps them outlives
  // the server. Empty: store::Holds keeps them.
  std::function<std::unique_ptr<store::HoldBook>(const store::HoldBook::Options&)> make_holds = {};
  // Further sources of metrics: stores, and what a protocol adds in Settings::add_to. They outlive
  // the server; a protocol's lives as long as its session options.
  std::vector<const metrics::Source*> sources = {};
  // Policies that are sent to the server; they are sources of metrics as well.
  std::vector<std::shared_ptr<protocol::PolicyFeed>> feeds = {};
  // Where rules and the store intern spaces; outlives the server. Null: overrides are not
  // supported.
  request::Spaces* spaces = nullptr;
  // The clock of the process, which the store uses as well; outlives the server. Null: the server
  // has its own.
  base::Clock* clock = nullptr;
  // Where overrides are stored; outlives the server. Null: they are lost at exit.
  store::MetadataStore* metadata = nullptr;
  std::function<void()> on_stop = {};  // called on the main thread when the server begins to stop
  // Opens the log's file again; called on the main thread after SIGUSR1 and, beside the reload,
  // SIGHUP. Empty: the log is not in a file.
  std::function<void()> reopen_log = {};
};

}  // namespace sluice::server
