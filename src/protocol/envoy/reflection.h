// gRPC's server reflection, by which clients such as grpcurl learn how to call this server: one
// message in, one message out. Versions v1 and v1alpha are the same but for their names. The
// answers are what protoc made of proto/envoy, proto/kuadrant and proto/grpc. Any thread.
#pragma once

#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"

namespace sluice::envoy {

// Appends the ServerReflectionResponse to a ServerReflectionRequest. A file comes with all files
// that it imports, even if they were sent before. The answer to an unknown name, and to a request
// that asks for nothing, is an error_response. A malformed request appends nothing, and
// the call must end with that problem.
ReadProblem answer_reflection(std::string_view request, base::Buffer& out);

}  // namespace sluice::envoy
