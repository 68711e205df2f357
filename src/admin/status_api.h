// The admin port's answer about the server as a whole, GET /v1/status: health, listeners, the live
// policy, the store, connections, requests and their rates, errors. The members are the same with
// every store; what a store does not have is null.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/admin.h"
#include "admin/server_stats.h"
#include "live/change_log.h"
#include "live/live_policy.h"
#include "live/override_registry.h"
#include "protocol/policy_files.h"
#include "store/catalog.h"

namespace sluice::admin {

struct ListenerJson {
  std::string service;  // the protocol, "admin", or what a page of metrics is called
  const char* kind;     // "requests", "page", "admin" or "health"
  std::string address;  // as the banner shows it
  // Of its TLS: the certificate's file and when it ends, in seconds since 1970, and why the files
  // that lie there now are not used, if they are not.
  struct Tls {
    std::string certificate;
    int64_t expires = 0;
    std::string problem;
  };
  std::optional<Tls> tls = {};  // empty: it is plain
  // Do other machines reach it without TLS and without a token?
  bool is_open = false;
};

// Of a collector to which the server sends by OTLP.
struct CollectorJson {
  std::string_view signal;  // "traces" or "metrics"
  std::string endpoint;     // the URL
  // Spans, or messages of metrics: taken; given up, as they were not; never made for want of room.
  uint64_t sent = 0, failed = 0, dropped = 0;
  std::string problem;  // of the last message; empty: it was taken
};

// All of it outlives the admin port. The functions may be called on any thread once it serves.
struct StatusDeps {
  const live::Live& live;
  const live::ReloadHistory* history;       // null: the policy cannot be read again
  const live::OverrideRegistry* overrides;  // null: there are none
  const store::Catalog& store;
  const ServerStats& server_stats;
  const RequestRates& rates;
  std::function<std::vector<ListenerJson>()> listeners;
  std::function<uint64_t()> connections_refused;  // since the start, beyond the bound
  // Of policies that are sent to the server.
  std::function<std::vector<protocol::PolicyFeed::State>()> feeds = {};
  std::function<std::vector<CollectorJson>()> collectors = {};
};

void add_status(Admin& admin, StatusDeps deps);

}  // namespace sluice::admin
