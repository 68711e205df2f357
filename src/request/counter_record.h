// A counter as a store hands it to the disk's journal: its name and its state.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::request {

// A counter as it is stored. The views are valid during the call.
struct CounterRecord {
  const Space* space = nullptr;
  uint32_t limits_id = 0;  // Spaces::intern_limits; 0 where the counter keeps its limits
  std::string_view key;    // within the space
  std::span<const limit::State> cells;  // empty: the counter is forgotten
  int64_t forget_us = INT64_MAX;        // the time from which it is fresh, and may be dropped
};

using VisitCounter = std::function<void(const CounterRecord&)>;

}  // namespace sluice::request
