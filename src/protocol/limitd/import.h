// Brings the buckets of limitd's own database into a store. The call takes the store's directory
// for itself as long as it runs, and says which process has it if it cannot. Main thread.
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

// Is DIR itself a LevelDB database, as limitd keeps its buckets in? It is only ever read.
bool has_database(const std::string& dir);

// A bucket in limitd's own database.
struct StoredBucket {
  std::string_view type, key;
  double content = 0;                   // units that were there
  std::optional<int64_t> last_drip_us;  // when; a bucket that does not refill may lack it
};
// The counter that such a bucket is here; nothing: there is no such type any more. The views live
// until the next call.
struct BucketCounter {
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  limit::Limit limit;
  std::string_view key;
};
using ToCounter =
    std::function<std::optional<BucketCounter>(std::string_view type, std::string_view key)>;
// What a token_bucket or fixed_bucket stores of it.
limit::State state_of(const StoredBucket& bucket, const limit::Limit& limit, base::Time now);
struct ImportReport {
  uint64_t imported = 0;
  uint64_t full = 0;        // as a fresh one, so there is nothing to keep
  uint64_t there = 0;       // the store has that counter already, and keeps it
  uint64_t untyped = 0;     // of types that are not configured
  uint64_t unreadable = 0;  // no bucket of limitd's
};
// Brings the buckets of the database in `dir`, which is only read, into the store there.
base::Result<ImportReport> import_buckets(const std::string& dir, base::Time now,
                                          request::Spaces& spaces, const ToCounter& to_counter);

}  // namespace sluice::limitd
