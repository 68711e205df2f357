// Searches Redis for counters: a pass by SCAN on a connection of its own. Blocks, so it is for a
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

// As store::Catalog::list_all, with one pass for all lists of an encoding. A list fails if Redis
// cannot be reached; if Redis fails half way it keeps what was found.
void scan(Shared& shared, store::ListPass& lists);

// The bounds of one search. It ends past either of them, but not before it has looked at some keys.
struct Reach {
  size_t keys = base::bounds::redis_scanned_max;  // keys looked at, of any kind
  // Short, as a client waits for the page, and others wait for the thread.
  std::chrono::milliseconds time = std::chrono::seconds(2);
};

// See store::Catalog::scan_page.
store::ScanPage read_scan_page(Shared& shared, const request::SpaceIndex& spaces,
                               std::string_view prefix, std::string_view after, size_t max,
                               std::string_view from = {}, const Reach& reach = {});

}  // namespace sluice::redis
