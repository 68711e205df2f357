// Divvy's own metrics, for users who come from Divvy: its page and its statsd lines, byte for byte
// in Divvy's format. Constant.
#pragma once

#include "protocol/metrics.h"

namespace sluice::divvy {

extern const protocol::Metrics own_metrics;

}  // namespace sluice::divvy
