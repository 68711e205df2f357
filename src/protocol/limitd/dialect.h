// The ways in which limitd's rules differ from others, in the form that policy/dialect.h requires.
// Constant; any thread.
#pragma once

#include "policy/dialect.h"

namespace sluice::limitd {

extern const policy::Dialect dialect;

}  // namespace sluice::limitd
