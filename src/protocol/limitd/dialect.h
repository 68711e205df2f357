// What makes limitd's rules differ from others, as policy/dialect.h wants it. Constant; any thread.
#pragma once

#include "policy/dialect.h"

namespace sluice::limitd {

extern const policy::Dialect dialect;

}  // namespace sluice::limitd
