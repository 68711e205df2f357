// What Envoy's sessions go by. Constant once the server runs; any thread.
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
#include "request/peer.h"
#include "wire/grpc.h"

namespace sluice::envoy {

struct EnvoyOptions final : request::SessionOptions {
  // Requests settle all or nothing, and are charged no refusal: of all domains, or of these.
  bool all_or_nothing = false;
  std::vector<std::string> all_or_nothing_domains{};
  // Where a limit of a request is over, only what is over is charged
  // (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT).
  bool sparing = false;
  ResponseOptions response{};
  // What is answered where the store cannot decide; what did not come in time is UNAVAILABLE.
  wire::GrpcStatus error_code = wire::GrpcStatus::unknown;
  // Is the service healthy only with a domain loaded, and only while the store can be asked?
  bool healthy_with_domains = false, healthy_with_store = false;
  // Without the latter it is healthy once the store could be asked; of the server.
  std::shared_ptr<std::atomic<bool>> store_was_reached = std::make_shared<std::atomic<bool>>(false);
  bool reflection = false;
  // From when on a connection takes no more calls, and how long those under way may take then;
  // base::never: for ever.
  base::Duration connection_age = base::never, connection_grace = base::never;
  // A listener with that port has /rlconfig and nothing else; 0: none has.
  uint16_t debug_port = 0;
  // The original's metrics, of the server; null: they are not configured.
  std::shared_ptr<LimitMetrics> metrics{};

  bool settles_all_or_nothing(std::string_view domain) const;
};

}  // namespace sluice::envoy
