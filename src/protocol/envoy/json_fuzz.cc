// Reads any bytes as a JSON request, twice. The results must be equal, keep the bounds and own
// their texts, or give a reason for a refusal. What was read is then written as metadata, as
// protobuf and as JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/utf8.h"
#include "protocol/envoy/json.h"
#include "protocol/envoy/response.h"

namespace {

using namespace sluice::envoy;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  JsonRequest into;
  const auto problem = read_json_request(input, into);
  if (problem) {
    require(!problem->message.empty());
    return 0;
  }
  const RateLimitRequest& request = into.request;
  require(request.descriptors.size() <= request_descriptors_max &&
          request.entries.size() <= request_entries_max);
  require(sluice::base::utf8::is_valid(request.domain));
  for (const Entry& entry : request.entries)
    require(sluice::base::utf8::is_valid(entry.key) && sluice::base::utf8::is_valid(entry.value));

  ResponseOptions options;
  options.dynamic_metadata = true;
  const std::vector<DescriptorResult> results(request.descriptors.size());
  RateLimitResponse response;
  compose_response(request, results, options, response);
  sluice::base::Buffer bytes, text, again;
  append_response(response, bytes);
  append_json_response(response, text);
  require(bytes.size() > 0 && sluice::base::utf8::is_valid(text.view()));

  JsonRequest second;
  require(!read_json_request(input, second));
  compose_response(second.request, results, options, response);
  append_json_response(response, again);
  require(again.view() == text.view());
  return 0;
}
