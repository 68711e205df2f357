// The protocol's commands and its words for `sluice ask`. Main thread.
#pragma once

#include "protocol/command.h"
#include "protocol/protocol.h"

namespace sluice::http {

extern const protocol::Description description;

// `sluice http`.
int serve(const protocol::Words& words, config::CommandIo& io);
// `sluice ask http`.
int ask(const protocol::Words& words, config::CommandIo& io);

}  // namespace sluice::http
