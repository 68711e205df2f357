// gRPC's server reflection, by which clients such as grpcurl learn how to call this server: one
// message in, one message out. Versions v1 and v1alpha are the same but for their names. The
// answers are in proto_files.h. Pure; any thread.
#pragma once

#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"

namespace sluice::envoy {

// Appends the ServerReflectionResponse to a ServerReflectionRequest: a file comes with all that it
// imports, whatever was sent before; what is not known, and a request that asks nothing, is an
// error_response. On a problem (malformed or not_utf8) nothing is appended: the call ends with it.
ReadProblem answer_reflection(std::string_view request, base::Buffer& out);

}  // namespace sluice::envoy
