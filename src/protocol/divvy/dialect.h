// What makes Divvy's rules differ from others, as policy/dialect.h wants it. Constant; any thread.
#pragma once

#include "policy/dialect.h"

namespace sluice::divvy {

extern const policy::Dialect dialect;

}  // namespace sluice::divvy
