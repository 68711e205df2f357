#include "client/dialect.h"

namespace sluice::envoy {

// Empty: the client library does not speak this protocol, because its clients are proxies and code
// that gRPC generates.
extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {};

}  // namespace sluice::envoy
