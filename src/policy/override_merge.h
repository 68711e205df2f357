// Merges the limits of an override with those of its rule: each limit of the override replaces the
// rule's limit of the same window, and the others stay in force. Not needed for an override that
// replaces all limits of its rule. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limit/limit.h"
#include "policy/overrides.h"

namespace sluice::policy {

struct MergedLimits {
  std::vector<limit::Limit> limits;  // in the rule's order
  OwnLimits own = 0;
};

// The rule's limits with those of `own` in their places. If several limits of the rule have a
// window, the algorithm decides. Empty: own[wrong] has the window of none of the rule's limits, or
// of several of them, or of one that another limit of `own` replaces.
std::optional<MergedLimits> merge_limits(std::span<const limit::Limit> of_rule,
                                         std::span<const limit::Limit> own, size_t& wrong);

// The limits of a list that `own` names.
std::vector<limit::Limit> own_limits(std::span<const limit::Limit> limits, OwnLimits own);

// The windows of a rule's limits, as a text for people: "1s and 1d", "1s, 1m (fixed_window) and 1m
// (sliding_log)"; for a fixed_bucket, which has no window, "none (fixed_bucket)".
std::string window_words(std::span<const limit::Limit> limits);

}  // namespace sluice::policy
