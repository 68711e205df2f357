// What people do to a store that no server has open: look at it, check it, mend it, copy it, and
// bring limitd's buckets over. Each call takes the directory for itself as long as it runs, and
// says which process has it if it cannot. `problem` is told where a call returns false.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "disk/journal.h"
#include "request/space.h"

namespace sluice::disk {

struct StoreStats {
  uint32_t format = 0;
  uint64_t folded = 0;  // counters under their own keys
  uint64_t blocks = 0, block_counters = 0, block_bytes = 0;
  uint64_t spaces = 0, limits = 0;
  uint64_t texts = 0;
  uint64_t bytes = 0;  // of all files
};
bool stats(const std::string& dir, StoreStats& stats, std::string& problem);

// The latest state of every counter, in the order of the stored keys. The spaces are those of
// `spaces`. Then the texts, by name, where they are wanted.
bool dump(const std::string& dir, request::Spaces& spaces, const Visit& visit, std::string& problem,
          const VisitText& visit_text = {});

inline constexpr size_t damages_max = 100;  // that a report lists

struct CheckReport {
  uint64_t counters = 0, blocks = 0, block_counters = 0;
  uint64_t unreadable = 0;  // records, of either
  uint64_t texts = 0;
  std::vector<std::string> damages;  // the first damages_max
  std::vector<std::string> torn;     // ends of logs that the next start cuts off; no damage
};
// Reads all there is, checksums and every record. False: it could not be looked at at all; what is
// damaged is in the report.
bool check(const std::string& dir, CheckReport& report, std::string& problem);

struct RepairReport {
  uint64_t counters = 0, texts = 0;  // that are there afterwards
  std::vector<std::string> damages;  // what was wrong or is lost, the first damages_max
  std::vector<std::string> torn;     // ends of logs that were cut off; no damage
};
// Makes a store that can be opened of what can still be read, and folds it. False: it cannot be
// repaired.
bool repair(const std::string& dir, RepairReport& report, std::string& problem);

// A copy in `target`, which does not exist yet.
bool backup(const std::string& dir, const std::string& target, std::string& problem);

// A bucket in limitd's own database.
struct LimitdBucket {
  std::string_view type, key;
  double content = 0;                   // units that were there
  std::optional<int64_t> last_drip_us;  // when; a bucket that does not refill may lack it
};
// The counter that such a bucket is here; nothing: there is no such type any more. The views live
// until the next call.
struct LimitdCounter {
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  limit::Limit limit;
  std::string_view key;
};
using ToCounter =
    std::function<std::optional<LimitdCounter>(std::string_view type, std::string_view key)>;
// What a token_bucket or fixed_bucket stores of it.
limit::State state_of(const LimitdBucket& bucket, const limit::Limit& limit, base::Time now);
struct ImportReport {
  uint64_t imported = 0;
  uint64_t full = 0;        // as a fresh one, so there is nothing to keep
  uint64_t there = 0;       // the store has that counter already, and keeps it
  uint64_t untyped = 0;     // of types that are not configured
  uint64_t unreadable = 0;  // no bucket of limitd's
};
// Brings the buckets of the database in `dir`, which is only read, into the store there.
bool import_limitd(const std::string& dir, base::Time now, request::Spaces& spaces,
                   const ToCounter& to_counter, ImportReport& report, std::string& problem);

}  // namespace sluice::disk
