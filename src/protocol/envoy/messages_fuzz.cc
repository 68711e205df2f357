// Reads any bytes as a request of each service twice, into a new object and into a used one. The
// results must be equal, their views must point into the bytes, and they must keep the bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "limit/limit.h"
#include "protocol/envoy/kuadrant.h"
#include "protocol/envoy/messages.h"

namespace {

using namespace sluice::envoy;

void require(bool holds) {
  if (!holds) std::abort();
}

bool same(const RateLimitRequest& a, const RateLimitRequest& b) {
  if (a.domain != b.domain || a.hits_addend != b.hits_addend ||
      a.descriptors.size() != b.descriptors.size() || a.entries.size() != b.entries.size())
    return false;
  for (size_t i = 0; i < a.entries.size(); ++i)
    if (a.entries[i].key != b.entries[i].key || a.entries[i].value != b.entries[i].value)
      return false;
  for (size_t i = 0; i < a.descriptors.size(); ++i)
    if (a.descriptors[i].hits_addend != b.descriptors[i].hits_addend ||
        a.descriptors[i].entry_count != b.descriptors[i].entry_count ||
        a.descriptors[i].limit.has_value() != b.descriptors[i].limit.has_value())
      return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static RateLimitRequest used;
  RateLimitRequest fresh;
  const ReadProblem problem = read_request(input, fresh);
  require(read_request(input, used) == problem);

  const auto within = [&](std::string_view text) {
    return text.empty() || (text.data() >= input.data() &&
                            text.data() + text.size() <= input.data() + input.size());
  };
  size_t entries = 0;
  for (const Descriptor& descriptor : fresh.descriptors) {
    require(descriptor.first_entry == entries);
    entries += descriptor.entry_count;
  }
  require(within(fresh.domain));
  for (const Entry& entry : fresh.entries) require(within(entry.key) && within(entry.value));
  if (problem == ReadProblem::none) {
    require(entries == fresh.entries.size());
    require(fresh.descriptors.size() <= request_descriptors_max && entries <= request_entries_max);
    require(same(fresh, used));
  }

  for (const Method method :
       {Method::check_rate_limit, Method::report, Method::reserve, Method::commit}) {
    KuadrantCall call{.method = method}, again{.method = method};
    const ReadProblem its = read_kuadrant(input, fresh, call);
    require(read_kuadrant(input, used, again) == its && within(call.id));
    require(call.amount >= 0 && call.amount <= sluice::limit::used_max && call.ttl.us >= 0);
    if (its != ReadProblem::none) continue;
    require(same(fresh, used) && call.amount == again.amount && call.id == again.id &&
            call.ttl == again.ttl);
    require(!fresh.descriptors.empty() && fresh.descriptors.size() <= request_descriptors_max);
  }

  std::string_view service;
  if (read_health_request(input, service) == ReadProblem::none) require(within(service));
  return 0;
}
