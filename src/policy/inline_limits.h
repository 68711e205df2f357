// Limits that come with a request in place of a rule's. Their counter is named by the key alone, so
// a request with other limits changes those of the same counter, as a reload does
// (limit/carry_list.h). An InlineLimits remembers the numbers of the lists that were used last; it
// releases the others, which the collector then forgets (request/space.h). Each worker has one,
// used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "limit/limit.h"
#include "request/space.h"

namespace sluice::policy {

// The beginning of the names of such counters; the key follows.
inline constexpr std::string_view inline_prefix = "inline:";

// For requests about the counter itself, whatever limits it has (Charge::as_written, or a put of
// all).
inline constexpr limit::Limit any_limit{limit::Algorithm::fixed_window, 1, {1'000'000}};

// Their space, the same for all protocols.
request::SpaceRef inline_space(request::Spaces& spaces);

class InlineLimits {
 public:
  // `lists_max`: the most lists of limits that the process may know, with those of rules and
  // overrides.
  InlineLimits(request::Spaces& spaces, size_t lists_max);

  // The number of a list of 1 to limit::slots_max limits (Spaces::hold_limits), which stays known
  // while the batch holds the live policy. 0: the list is new, and the process knows too many.
  uint32_t find(std::span<const limit::Limit> limits);

  // The number of lists that are remembered.
  size_t size() const { return known_.size(); }

 private:
  struct Less {
    using is_transparent = void;
    bool operator()(std::span<const limit::Limit> a, std::span<const limit::Limit> b) const;
  };

  request::Spaces& spaces_;
  const size_t lists_max_;
  std::map<std::vector<limit::Limit>, request::LimitsRef, Less> known_;
};

}  // namespace sluice::policy
