// A small client of Envoy's rate limit service for people and scripts: one request, one answer, and
// a deadline for both. Blocks the calling thread. Each call opens a connection, so it is not meant
// for services.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/tls.h"
#include "protocol/envoy/client_messages.h"

namespace sluice::envoy {

// An answer whose views point into itself.
struct ServiceAnswer {
  std::string message;
  RateLimitResponse response;  // of `message`
};

class ServiceClient {
 public:
  // Connects only when it is called. `timeout` bounds each call, except the lookup of the host's
  // name by the system's resolver; it is sent to the server as well.
  // `authorization`: sent as the metadata of that name; empty: none. `tls`: empty: plain text.
  ServiceClient(std::string host, uint16_t port, std::chrono::milliseconds timeout,
                std::string authorization = {}, std::optional<net::TlsClient> tls = {});

  // The answer is not null.
  base::Result<std::unique_ptr<const ServiceAnswer>> ask(const RateLimitRequest& request) const;

 private:
  const std::string host_;
  const uint16_t port_;
  const std::chrono::milliseconds timeout_;
  const std::string authorization_;
  const std::optional<net::TlsClient> tls_;
};

}  // namespace sluice::envoy
