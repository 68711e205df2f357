// Limits that come with a request in place of a rule's. Their counter is named by the key alone, so
// a request with other limits changes those of the same counter, as a reload does
// (limit/carry_list.h). An InlineLimits remembers the numbers of the lists that were used last; it
// releases the others, which the collector then forgets (request/space.h), and those that have
// given way to others (request/limit_owners.h). Each worker has one, used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/limit_owners.h"
#include "request/space.h"

namespace sluice::policy {

// The beginning of the names of such counters; the key follows.
inline constexpr std::string_view inline_prefix = "inline:";

// For requests about the counter itself, whatever limits it has (Charge::as_written, or a put of
// all).
inline constexpr limit::Limit any_limit{limit::Algorithm::fixed_window, 1, {1'000'000}};

// Their space, the same for all protocols.
request::SpaceRef inline_space(request::Spaces& spaces);

inline constexpr request::LimitShares inline_shares{
    .all = base::bounds::inline_limits_max,
    .reserve = base::bounds::inline_limits_reserve,
    .few = base::bounds::inline_limits_few,
    .one = base::bounds::inline_limits_of_client_max};

class InlineLimits {
 public:
  InlineLimits(request::Spaces& spaces, const request::LimitShares& shares)
      : spaces_(spaces), shares_(shares) {}

  // Whose requests come next (Request::brought_by), and when.
  void serve(uint64_t owner, base::Time now) {
    owner_ = owner;
    now_ = now;
  }
  // The number of a list of 1 to limit::slots_max limits (Spaces::hold_brought), which stays known
  // while the batch holds the live policy. 0: the list is new, and there are too many.
  uint32_t find(std::span<const limit::Limit> limits);
  // Releases the lists that have given way.
  void release_given_way();

  // The number of lists that are remembered.
  size_t size() const { return known_.size(); }

 private:
  struct Less {
    using is_transparent = void;
    bool operator()(std::span<const limit::Limit> a, std::span<const limit::Limit> b) const;
  };

  request::Spaces& spaces_;
  const request::LimitShares shares_;
  uint64_t owner_ = 0;
  base::Time now_{};
  std::map<std::vector<limit::Limit>, request::LimitsRef, Less> known_;
};

}  // namespace sluice::policy
