// The ways in which Divvy's rules differ from others, in the form that policy/dialect.h requires.
// Constant; any thread.
#pragma once

#include "policy/dialect.h"

namespace sluice::divvy {

extern const policy::Dialect dialect;

}  // namespace sluice::divvy
