// The options of Envoy's sessions. Constant once the server runs; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/response.h"
#include "request/hold.h"
#include "request/peer.h"
#include "wire/grpc.h"

namespace sluice::envoy {

// Of reservations by Kuadrant's service: the terms join those of the rules. A rule alone says that
// late commits are ignored.
struct HoldOptions {
  bool enabled = true;
  request::HoldTerms terms{.ttl_max = base::seconds(60),
                           .fraction = request::HoldTerms::whole / 2,
                           .ignores_late = true};
};

struct EnvoyOptions final : request::SessionOptions {
  // The requests of all domains, or of these, settle all or nothing, and a refusal charges nothing.
  bool all_or_nothing = false;
  std::vector<std::string> all_or_nothing_domains{};
  // If a limit of a request is exceeded, only the exceeded limits are charged
  // (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT).
  bool sparing = false;
  ResponseOptions response{};
  // The status if the store cannot decide; if it does not decide in time, it is UNAVAILABLE.
  wire::GrpcStatus error_code = wire::GrpcStatus::unknown;
  // Is the service healthy only with a loaded domain, and only while the store can be reached?
  bool healthy_with_domains = false, healthy_with_store = false;
  // Without the latter it is healthy from the first answer of the store on. Shared by the server.
  std::shared_ptr<std::atomic<bool>> store_was_reached = std::make_shared<std::atomic<bool>>(false);
  bool reflection = false;
  HoldOptions holds{};
  // The age from which a connection accepts no new calls, and the time that the others may take
  // then; base::never: no bound.
  base::Duration connection_age = base::never, connection_grace = base::never;
  // A listener with that port serves only /rlconfig; 0: there is none.
  uint16_t debug_port = 0;
  // The original's metrics, shared by the server; null: they are not configured.
  std::shared_ptr<LimitMetrics> metrics{};

  bool settles_all_or_nothing(std::string_view domain) const;
};

}  // namespace sluice::envoy
