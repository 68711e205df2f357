// What a server is told at its start. Plain values, filled by the command line and the
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

#include "base/bounds.h"
#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/time.h"
#include "limit/space.h"
#include "metrics/page.h"
#include "policy/rule_set.h"
#include "store/keeper.h"

namespace sluice::server {

// Behind the first three are decisions; the others are HTTP for those who watch.
enum class Protocol : uint8_t { divvy, limitd, droplet, admin, divvy_metrics };

// What a listener's clients have time for. A request_timeout begins with the first byte of a
// request and ends with its last; a send_timeout begins when the client stops taking what it is
// sent.
struct Timeouts {
  base::Duration request = base::seconds(30);
  base::Duration send = base::seconds(30);
  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

struct ListenerOptions {
  Protocol protocol = Protocol::divvy;
  std::string host =
      "::";  // an address or a name; "::" is both families, or IPv4 alone where there is no IPv6
  uint16_t port = 0;  // 0: a free one
  Timeouts timeouts = {};
};

// What a candidate for the policy comes to.
struct Candidate {
  std::shared_ptr<const policy::RuleSet> rules;  // null: it is refused
  base::Diagnostics diagnostics;
  // What it would replace.
  std::vector<policy::Dialect> dialects;
  bool native = false;
};

// The admin port, where there is one among the listeners.
struct AdminOptions {
  std::string version;
  std::string token;     // empty: none is asked for
  std::string settings;  // as `serve --print-config` prints them
  // Reads a candidate; `kind` as `sluice check --as` names it, "sluice" for a whole sluice.yaml.
  // Nothing: there is no such kind. Any thread.
  std::function<std::optional<Candidate>(std::string_view kind, const std::string& text)> check;
};

// What Divvy tells statsd.
struct StatsdOptions {
  std::string host;
  uint16_t port = 8125;
  std::string prefix;
  bool tcp = false;
};

struct Options {
  std::vector<ListenerOptions> listeners;
  unsigned workers = 0;  // threads; 0: as many as this process may use processors
  size_t connections_max = base::bounds::connections_default;
  // How often full buckets of droplet are forgotten, where it is served; 0: never.
  base::Duration cleanup_interval = base::seconds(60);
  // Descriptors that the store will want beside those it has: on disk, and to Redis.
  size_t store_files = 0, redis_files = 0;
  uint64_t denials_every = 0;  // every Nth is logged; 0: none
  AdminOptions admin = {};
  std::string divvy_metrics_path = "/metrics";  // of listeners with Protocol::divvy_metrics
  std::optional<StatsdOptions> statsd = {};
  // What else metrics are collected from: stores. Outlives the server.
  std::vector<const metrics::Source*> sources = {};
  // What rules and store intern in; outlives the server. Null: there can be no overrides.
  limit::Spaces* spaces = nullptr;
  // The process's, which the store goes by as well; outlives the server. Null: one of its own.
  base::Clock* clock = nullptr;
  // Keeps the overrides; outlives the server. Null: they are forgotten at exit.
  store::Keeper* keeper = nullptr;
  std::function<void()> on_stop = {};  // when the server begins to stop; on the main thread
  // SIGUSR1, and SIGHUP beside the reload: the log's file is to be opened again; on the main
  // thread. Not there: the log is in no file.
  std::function<void()> reopen_log = {};
};

}  // namespace sluice::server
