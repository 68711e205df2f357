// What people do to a store that no server has open: look at it, check it, repair it, copy it.
// Each call takes the directory for itself as long as it runs; its problem says which process has
// it if it cannot.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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
base::Result<StoreStats> stats(const std::string& dir);

// The latest state of every counter, in the order of the stored keys. The spaces are those of
// `spaces`. Then the texts, by name, where they are needed.
base::Done dump(const std::string& dir, request::Spaces& spaces, const Visit& visit,
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
base::Result<CheckReport> check(const std::string& dir);

struct RepairReport {
  uint64_t counters = 0, texts = 0;  // that are there afterwards
  std::vector<std::string> damages;  // what was wrong or is lost, the first damages_max
  std::vector<std::string> torn;     // ends of logs that were cut off; no damage
};
// Makes a store that can be opened of what can still be read, and folds it. False: it cannot be
// repaired.
base::Result<RepairReport> repair(const std::string& dir);

// A copy in `target`, which does not exist yet.
base::Done backup(const std::string& dir, const std::string& target);

}  // namespace sluice::disk
