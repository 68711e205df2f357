// The commands that belong to Envoy's rate limit service.
#pragma once

#include "protocol/command.h"
#include "protocol/protocol.h"

namespace sluice::envoy {

extern const protocol::Description description;

// `sluice envoy`
int serve(const protocol::Words& words, config::CommandIo& io);
// `sluice ask envoy`
int ask(const protocol::Words& words, config::CommandIo& io);

}  // namespace sluice::envoy
