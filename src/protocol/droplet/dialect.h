// The ways in which droplet's rules differ from others, in the form that policy/dialect.h requires.
// Constant; any thread.
#pragma once

#include "policy/dialect.h"

namespace sluice::droplet {

extern const policy::Dialect dialect;

}  // namespace sluice::droplet
