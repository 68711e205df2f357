// Makes Envoy's response from the results of a request's counters: the status of each descriptor,
// the overall code, header fields and metadata. Uses no counter, clock or rule itself. Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "protocol/envoy/messages.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// Is a limit exceeded, and how many hits are left?
struct Standing {
  bool over = false;
  uint32_t remaining = 0;  // 0 if it is exceeded
  friend bool operator==(const Standing&, const Standing&) = default;
};

// For a counter that has `count` after the charge, or at a peek. A negative count is 0.
Standing standing_at(int64_t count, uint32_t limit);
// After hits were given back: never exceeded.
Standing standing_after_refund(int64_t count, uint32_t limit);
// Under all_or_nothing, for a request that charged nothing because one of its limits would be
// exceeded: would this limit be, with `hits` more? `remaining` is the state without them.
Standing standing_uncharged(int64_t count, uint64_t hits, uint32_t limit);
// For an algorithm that decides itself.
Standing standing_decided(bool allowed, int64_t remaining);

// The result of a descriptor.
struct DescriptorResult {
  enum class Kind : uint8_t {
    none,       // no rule, a rule without a limit, an unknown domain, a replaced limit
    unlimited,  // a rule with `unlimited`
    limited
  };
  Kind kind = Kind::none;

  // If it is limited. Views point into the rules or the request.
  CurrentLimit limit;
  bool shadow = false, quota = false;  // of the rule; false for an override
  Standing standing;
  // To the end of the window. Without a window: if it is exceeded until one hit is allowed again,
  // otherwise until all hits are left. Rounded up.
  int64_t seconds_until_reset = 0;

  // Of the rule; null for an override.
  const MetadataMap* metadata = nullptr;

  // Only for the header fields of IETF's draft.
  int64_t window_seconds = 0;  // rounded up; 0: there is no window
  uint64_t burst = 0;          // if it differs from the limit
  // Until one more hit is left, if that is not seconds_until_reset.
  std::optional<int64_t> seconds_until_next{};
  bool never_passes = false;  // more hits than the limit ever allows
};

enum class HeaderStyle : uint8_t { none, legacy, ietf, both };

struct ResponseOptions {
  bool shadow = false, quota = false;  // SHADOW_MODE, QUOTA_MODE
  bool dynamic_metadata = false;       // RESPONSE_DYNAMIC_METADATA
  HeaderStyle headers = HeaderStyle::none;
  std::string limit_header = "RateLimit-Limit", remaining_header = "RateLimit-Remaining",
              reset_header = "RateLimit-Reset";
};

// Makes `response` from the results, one for each descriptor of `request`, in order. True: the
// request exceeded a limit, and SHADOW_MODE allowed it. Views of the response point into `request`,
// `results` and `options`. Allocates nothing once the response's lists are long enough, unless
// header fields or metadata are sent.
bool compose_response(const RateLimitRequest& request, std::span<const DescriptorResult> results,
                      const ResponseOptions& options, RateLimitResponse& response);

// The header fields that Envoy adds to responses to its clients: the three of the rate limit
// service, and those of IETF's draft (draft-ietf-httpapi-ratelimit-headers). Pure functions.

// The most limits in RateLimit and RateLimit-Policy: the first ones of the request. More are left
// out, because headers have bounds of their own.
inline constexpr size_t ietf_members_max = 32;

// Appends the fields of options.headers to response.response_headers_to_add, from the results, and
// from the statuses and the overall code that the response has already.
void append_headers(std::span<const DescriptorResult> results, const ResponseOptions& options,
                    RateLimitResponse& response);

}  // namespace sluice::envoy
