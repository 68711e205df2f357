// What makes droplet's rules differ from others, as policy/dialect.h wants it. Constant; any
// thread.
#pragma once

#include "policy/dialect.h"

namespace sluice::droplet {

extern const policy::Dialect dialect;

}  // namespace sluice::droplet
