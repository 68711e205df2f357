// The original's metrics as it shows them: lines for statsd, and a page for Prometheus by the names
// that its own mapping of them gives. What is counted is in limit_metrics.h. Constant.
#pragma once

#include "protocol/metrics.h"

namespace sluice::envoy {

extern const protocol::Metrics own_metrics;

}  // namespace sluice::envoy
