// The commands that only this protocol has, in the form that protocol/command.h requires.
#pragma once

#include "protocol/command.h"
#include "protocol/protocol.h"

namespace sluice::limitd {

extern const protocol::Description description;

int serve(const protocol::Words& words, config::CommandIo& io);
int limitdctl(const protocol::Words& words, config::CommandIo& io);
int ask(const protocol::Words& words, config::CommandIo& io);

}  // namespace sluice::limitd
