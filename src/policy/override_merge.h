// Which of a rule's limits an override replaces, and the list that holds then: each limit of an
// override stands in place of the rule's limit of the same window, and the others stay the rule's.
// An override that replaces all limits of its rule needs none of this. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limit/limit.h"

namespace sluice::policy {

// Bit i: limit i of a list is an override's own, the others are its rule's. 0: all of them are the
// override's own, which then replaces all limits of its rule.
using OwnLimits = uint8_t;
static_assert(limit::slots_max <= 8);

struct MergedLimits {
  std::vector<limit::Limit> limits;  // in the rule's order
  OwnLimits own = 0;
};

// The rule's limits with `own` in them. A window that several limits of the rule have is identified
// by the algorithm. Nothing: own[wrong] has the window of none of the rule's limits, or of several,
// or of one that another of `own` replaces.
std::optional<MergedLimits> merge_limits(std::span<const limit::Limit> of_rule,
                                         std::span<const limit::Limit> own, size_t& wrong);

// Those of a list that `own` names.
std::vector<limit::Limit> own_limits(std::span<const limit::Limit> limits, OwnLimits own);

// The windows of a rule's limits, for people: "1s and 1d", "1s, 1m (fixed_window) and 1m
// (sliding_log)"; of a fixed_bucket, which has none, "none (fixed_bucket)".
std::string window_words(std::span<const limit::Limit> limits);

}  // namespace sluice::policy
