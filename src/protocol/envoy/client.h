// A small client of Envoy's rate limit service for people and scripts: one question, one answer, a
// deadline over both. Blocks the calling thread; holds no connection between calls. Not meant for
// services: it connects again each time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "protocol/envoy/client_messages.h"

namespace sluice::envoy {

// An answer whose views point into itself.
struct ServiceAnswer {
  std::string message;
  RateLimitResponse response;  // of `message`
};

class ServiceClient {
 public:
  // Nothing is done before the first call. `timeout` bounds each call, except for the lookup of
  // the name, which takes what the system's resolver takes; the server receives it too.
  ServiceClient(std::string host, uint16_t port, std::chrono::milliseconds timeout);

  // Not null.
  base::Result<std::unique_ptr<const ServiceAnswer>> ask(const RateLimitRequest& request) const;

 private:
  const std::string host_;
  const uint16_t port_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace sluice::envoy
