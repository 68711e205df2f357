// Reads any bytes as a response of a control plane, and each of its resources as limits: bounds are
// kept, and what is refused names why.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/envoy/ads.h"
#include "protocol/envoy/limits_message.h"

namespace {

using namespace sluice::envoy;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto response = read_ads_response(input);
  std::vector<std::string> messages;
  if (response)
    for (const auto& one : response->resources) messages.push_back(one.value);
  messages.emplace_back(input);
  LimitsReading reading;
  reading.descriptors_max = 100;
  reading.metadata_values_max = 100;
  sluice::base::Diagnostics told;
  const auto set = read_limit_messages(messages, reading, told);
  require(set.has_value() == told.empty());
  if (set) require(set->limits().size() <= 100 && set->domains().size() <= messages.size());
  AdsSession session("node", {});
  std::string answer;
  const auto outcome = session.receive(
      input, {}, [](const AdsResponse&) { return std::optional(AdsSession::Refusal{"no"}); },
      answer);
  require((outcome == AdsSession::Outcome::nonsense) == !response.has_value());
  require(response.has_value() == !answer.empty());
  return 0;
}
