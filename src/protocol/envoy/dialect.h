// What makes Envoy's limits differ from other rules. Constant.
#pragma once

#include "policy/dialect.h"

namespace sluice::envoy {

extern const policy::Dialect dialect;

}  // namespace sluice::envoy
