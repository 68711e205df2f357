#include "client/dialect.h"

namespace sluice::envoy {

// Nothing: its clients are proxies, and what gRPC generates.
extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {};

}  // namespace sluice::envoy
