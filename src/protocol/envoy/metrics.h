// Shows the original's metrics in its forms: lines for statsd, and a page for Prometheus with the
// names of the original's own mapping. The counters are in limit_metrics.h. Constant.
#pragma once

#include "protocol/metrics.h"

namespace sluice::envoy {

extern const protocol::Metrics own_metrics;

}  // namespace sluice::envoy
