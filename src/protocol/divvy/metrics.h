// What Divvy's users know: its page of metrics and its lines for statsd, byte for byte in its form.
// Constant.
#pragma once

#include "protocol/metrics.h"

namespace sluice::divvy {

extern const protocol::Metrics own_metrics;

}  // namespace sluice::divvy
