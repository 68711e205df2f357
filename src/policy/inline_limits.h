// Limits that come whole with a request, in place of a rule's: their counters are those of the key
// and the list of algorithms, so other numbers change the limits of the same counter, as a reload
// does. Which space and which number a list has is kept for the lists that were asked last; what
// is not asked any more is given back, and the collector forgets it (request/space.h). One for each
// worker, used by its thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/limit.h"
#include "request/space.h"

namespace sluice::policy {

// How the names of such counters begin; behind the key stands ":token_bucket,fixed_window".
inline constexpr std::string_view inline_prefix = "inline:";

// The algorithms of a list as such names have them: "token_bucket,fixed_window".
std::string algorithms_text(std::span<const limit::Limit> limits);

class InlineLimits {
 public:
  // `lists_max`: of all lists of limits that the process knows, those of rules and overrides
  // included; past it a list that is new is not found.
  explicit InlineLimits(request::Spaces& spaces, size_t lists_max);

  struct Found {
    request::SpaceRef space;
    request::LimitsRef limits;
  };
  // 1 to limit::slots_max limits. Valid until the next call; what is in a batch stays known for as
  // long as the batch holds the live policy. Null: there are too many.
  const Found* find(std::span<const limit::Limit> limits);

  // Lists that are kept.
  size_t size() const { return known_.size(); }

 private:
  struct Less {
    bool operator()(const std::vector<limit::Limit>& a, const std::vector<limit::Limit>& b) const;
  };

  request::Spaces& spaces_;
  const size_t lists_max_;
  std::map<std::vector<limit::Limit>, Found, Less> known_;
  std::vector<limit::Limit> asked_;  // scratch
};

}  // namespace sluice::policy
