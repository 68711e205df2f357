// Which counters there are in Redis: a pass by SCAN over a connection of its own. Blocks; for a
// thread that may.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "limit/limit.h"
#include "redis/shared.h"
#include "store/store.h"

namespace sluice::redis {

// As store::Catalog::list_all: one pass for all lists of each encoding. One fails where Redis
// cannot be asked; it keeps what was found where Redis fails half way.
void scan(Shared& shared, store::ListPass& lists);

// How far one search goes; past either it is cut, but not before it has looked at something.
struct Reach {
  size_t keys = base::bounds::redis_scanned_max;  // of whatever kind
  // A client waits for a page, and others for the thread.
  std::chrono::milliseconds time = std::chrono::seconds(2);
};

// As store::Catalog::scan_page.
store::ScanPage read_scan_page(Shared& shared, const request::SpaceIndex& spaces,
                               std::string_view prefix, std::string_view after, size_t max,
                               std::string_view from = {}, const Reach& reach = {});

}  // namespace sluice::redis
