// The variables of Divvy's environment, as `sluice divvy` takes them: each means what it means to
// Divvy, where it is empty, `0` or not a number too. Main thread.
#pragma once

#include "base/diagnostic.h"
#include "config/command_io.h"
#include "config/config.h"
#include "config/variables.h"

namespace sluice::divvy {

inline constexpr config::VariableHelp variables_help[] = {
    {"PORT", "the port to listen on, default 8321; 0 takes a free one"},
    {"DEBUG=divvy", "log level debug, unless --log-level is given"},
    {"STATSD_HOST, STATSD_PORT, STATSD_PREFIX, STATSD_USE_TCP",
     "what is sent to statsd, and where"},
    {"HTTP_SERVICE_PORT, PROMETHEUS_METRICS_PATH", "where Divvy's page of metrics is"},
    {"REDIS_HOST, REDIS_PORT",
     "the Redis that keeps the counters, shared with every Divvy that\n"
     "uses it; either one is enough, the other is localhost or 6379"},
    {"REDIS_CLUSTER", "1: that is a node of a Redis Cluster"},
    {"REDIS_USERNAME, REDIS_PASSWORD, REDIS_PASSWORD_FILE, REDIS_TLS=true",
     "how it is reached, which the original has no variables for"}};

// The first listener of `config` must be Divvy's. A variable with which Divvy would not start is an
// error.
void apply_divvy_environment(const config::CommandIo& io, config::Config& config,
                             base::Diagnostics& diagnostics);

}  // namespace sluice::divvy
