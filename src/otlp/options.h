// What is sent to a collector, and where it is. Plain values; main thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/tls.h"

namespace sluice::otlp {

// Where one kind of messages goes.
struct Endpoint {
  bool is_tls = false;
  std::string host;
  uint16_t port = 0;
  std::string path;  // as it stands in the request line
};
// Of `http://HOST:PORT/PATH` or `https://...`; without a path it is `usual_path`. Without a port it
// is the scheme's.
base::Result<Endpoint> read_endpoint(std::string_view url, std::string_view usual_path);

inline constexpr std::string_view traces_path = "/v1/traces", metrics_path = "/v1/metrics";

struct Options {
  struct Traces {
    std::string endpoint;  // a URL; empty: no traces
    double sample = 1;     // the share of traces that are recorded, if the caller does not say
    bool values = false;   // spans have the entries of requests
    base::Duration delay = base::seconds(5);  // from one export to the next
    uint32_t batch = 512;                     // the most spans in one message
    uint32_t queue = 2048;  // of each worker: spans under way, and those that wait
  };
  struct Metrics {
    std::string endpoint;  // a URL; empty: no metrics
    base::Duration interval = base::seconds(60);
  };

  std::string service = "sluice", name_space, instance;  // of the resource; instance: empty: random
  std::vector<std::pair<std::string, std::string>> headers;  // of each request
  base::Duration timeout = base::seconds(10);                // of one try
  net::TlsClient tls{};                                      // of endpoints with https://
  Traces traces{};
  Metrics metrics{};

  bool is_wanted() const { return !traces.endpoint.empty() || !metrics.endpoint.empty(); }
};

}  // namespace sluice::otlp
