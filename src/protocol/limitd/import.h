// Imports the buckets of limitd's own database into a store. During the call the store's directory
// is locked; if another process has it, the problem names that process. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "protocol/store_tools.h"
#include "request/space.h"

namespace sluice::limitd {

extern const protocol::StoreTools store_tools;

// Is `dir` itself a LevelDB database, as limitd has for its buckets? It is only read.
bool has_database(const std::string& dir);

// A bucket in limitd's own database.
struct StoredBucket {
  std::string_view type, key;
  double content = 0;                   // the units in the bucket
  std::optional<int64_t> last_drip_us;  // the time of `content`; may be missing without refill
};
// The counter for such a bucket; empty: its type is no longer configured. The views are valid until
// the next call.
struct BucketCounter {
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  limit::Limit limit;
  std::string_view key;
};
using ToCounter =
    std::function<std::optional<BucketCounter>(std::string_view type, std::string_view key)>;
// The state of a token_bucket or fixed_bucket with the bucket's content.
limit::State state_of(const StoredBucket& bucket, const limit::Limit& limit, base::Time now);
struct ImportReport {
  uint64_t imported = 0;
  uint64_t full = 0;        // counters that equal a fresh one, so they are not stored
  uint64_t there = 0;       // the store has the counter already; its state is kept
  uint64_t untyped = 0;     // of types that are not configured
  uint64_t unreadable = 0;  // not a bucket of limitd
};
// Imports the buckets of the database in `dir`, which is only read, into the store there.
base::Result<ImportReport> import_buckets(const std::string& dir, base::Time now,
                                          request::Spaces& spaces, const ToCounter& to_counter);

}  // namespace sluice::limitd
