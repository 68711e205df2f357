// From what the counters of a request tell to Envoy's response: the status of each descriptor, the
// overall code, header fields and metadata. No counter, clock or rule is looked at here. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "protocol/envoy/messages.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// Is a limit exceeded, and how many hits are left of it?
struct Standing {
  bool over = false;
  uint32_t remaining = 0;  // 0 when it is over
  friend bool operator==(const Standing&, const Standing&) = default;
};

// By a counter that has `count` after the charge, or for a peek as it is. Below 0 is 0.
Standing standing_at(int64_t count, uint32_t limit);
// Hits have been given back: never over.
Standing standing_after_refund(int64_t count, uint32_t limit);
// Under all_or_nothing, of a request that has charged nothing since a limit of it would be over:
// would this one be, by `hits` more? What is left is the state.
Standing standing_uncharged(int64_t count, uint64_t hits, uint32_t limit);
// By an algorithm that decides itself.
Standing standing_decided(bool allowed, int64_t remaining);

// What has been found out of a descriptor.
struct DescriptorResult {
  enum class Kind : uint8_t {
    none,       // no rule, a rule without a limit, an unknown domain, a replaced limit
    unlimited,  // by a rule that says so
    limited
  };
  Kind kind = Kind::none;

  // Of a limited one. Views point into the rules or the request.
  CurrentLimit limit;
  bool shadow = false, quota = false;  // the rule's; an override is neither
  Standing standing;
  // Until the window ends; without a window until one hit passes again when over, else until all
  // are left, rounded up.
  int64_t seconds_until_reset = 0;

  // Of the rule, unless it is an override.
  const MetadataMap* metadata = nullptr;

  // For header fields of IETF's kind only.
  int64_t window_seconds = 0;  // rounded up; 0: it has none
  uint64_t burst = 0;          // where it differs from the limit
  // Until one more hit is left, where that is not seconds_until_reset.
  std::optional<int64_t> seconds_until_next{};
  bool never_passes = false;  // the hits are more than it ever allows
};

enum class HeaderStyle : uint8_t { none, legacy, ietf, both };

struct ResponseOptions {
  bool shadow = false, quota = false;  // SHADOW_MODE, QUOTA_MODE
  bool dynamic_metadata = false;       // RESPONSE_DYNAMIC_METADATA
  HeaderStyle headers = HeaderStyle::none;
  std::string limit_header = "RateLimit-Limit", remaining_header = "RateLimit-Remaining",
              reset_header = "RateLimit-Reset";
};

// Makes `response` of the results, one for each descriptor of `request`, in order. True: the
// request was over and SHADOW_MODE has let it pass. Views of the response point into `request`,
// `results` and `options`. Allocates nothing once the response's lists are long enough, unless
// header fields or metadata are sent.
bool compose_response(const RateLimitRequest& request, std::span<const DescriptorResult> results,
                      const ResponseOptions& options, RateLimitResponse& response);

}  // namespace sluice::envoy
