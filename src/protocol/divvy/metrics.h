// Divvy's own metrics, for its users: its page and its lines for statsd, byte for byte in Divvy's
// form. Constant.
#pragma once

#include "protocol/metrics.h"

namespace sluice::divvy {

extern const protocol::Metrics own_metrics;

}  // namespace sluice::divvy
