// Messages of Envoy's rate limit service as the JSON of protobuf (proto3), for /json: a request is
// read, a response written. Plain functions without state; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// A request and its texts, which its views point into; so it stays where it is. Reading into one
// that has been read into before keeps its memory.
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
  bool too_large = false;  // past a bound of messages.h; else not such a message
  std::string message;     // `descriptors[1].limit.unit: a unit must be a name or a number`
};

// Nothing: `into` has been read. After a problem it is of no use. Names of fields may be those of
// JSON or the original ones; numbers may be texts and units numbers; null is as absent; unknown
// fields, and a field that is there twice, are problems. Values lie at most six deep, as no field
// that may be nested is known.
std::optional<JsonProblem> read_json_request(std::string_view body, JsonRequest& into);

// Appends it. What has its default value is left out.
void append_json_response(const RateLimitResponse& response, base::Buffer& out);

void append_json(const MetadataMap& map, base::Buffer& out);

}  // namespace sluice::envoy
