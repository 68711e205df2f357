// Reads requests and writes responses of Envoy's rate limit service in protobuf's JSON (proto3),
// for /json. Functions without state; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// A request with the texts into which its views point; so it must not be moved. Reading into it
// again reuses its memory.
class JsonRequest {
 public:
  JsonRequest() = default;
  JsonRequest(const JsonRequest&) = delete;
  JsonRequest& operator=(const JsonRequest&) = delete;

  RateLimitRequest request;

 private:
  friend class JsonRequestReader;
  std::string texts_;
};

struct JsonProblem {
  bool too_large = false;  // beyond a bound of messages.h; false: not such a message
  std::string message;     // `descriptors[1].limit.unit: a unit must be a name or a number`
};

// Empty: `into` has the request. After a problem it must not be used. Fields may have their JSON or
// their original names; numbers may be texts, and units numbers; null means absent. Unknown and
// repeated fields are problems. Values may be at most six levels deep, because no known field is
// deeper.
std::optional<JsonProblem> read_json_request(std::string_view body, JsonRequest& into);

// Appends the response, without fields that have their default values.
void append_json_response(const RateLimitResponse& response, base::Buffer& out);

void append_json(const MetadataMap& map, base::Buffer& out);

}  // namespace sluice::envoy
