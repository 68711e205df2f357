// The commands of this protocol's own, as protocol/command.h wants them.
#pragma once

#include "protocol/command.h"

namespace sluice::droplet {

int serve(const protocol::Words& words, config::Outside& outside);
int ask(const protocol::Words& words, config::Outside& outside);

}  // namespace sluice::droplet
