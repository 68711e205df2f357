// What people do to a store that no server has open: look at it, check it, repair it, copy it, and
// bring in counters of another server. Each call takes the folder for itself as long as it runs;
// its problem says which process has it if it cannot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "request/space.h"
#include "store/log/journal.h"

namespace sluice::disk {

// How much of a store is in memory at a time, as bytes on disk, while it is read as a whole. Tests
// have less.
extern uint64_t pass_bytes;

struct StoreStats {
  uint32_t format = 0;
  uint64_t snapshot_counters = 0, snapshot_bytes = 0;
  uint64_t log_blocks = 0, log_counters = 0, log_bytes = 0;  // behind the snapshot
  uint64_t texts = 0;
  uint64_t bytes = 0;  // of all files
};
base::Result<StoreStats> stats(const std::string& dir);

// The latest state of every counter, in no order. The spaces are those of `spaces`. Then the texts,
// by name, where they are needed.
base::Done dump(const std::string& dir, request::Spaces& spaces, const Visit& visit,
                const VisitText& visit_text = {});

inline constexpr size_t damages_max = 100;  // that a report lists

struct CheckReport {
  uint64_t counters = 0, blocks = 0, block_counters = 0;  // of the snapshot; of the logs
  uint64_t unreadable = 0;                                // records, of either
  uint64_t texts = 0;
  std::vector<std::string> damages;  // the first damages_max
  std::vector<std::string> torn;     // ends of logs that the next start cuts off; no damage
};
// Reads all there is, checksums and every record. The problem: it could not be looked at at all;
// what is damaged is in the report.
base::Result<CheckReport> check(const std::string& dir);

struct RepairReport {
  uint64_t counters = 0, texts = 0;  // that are there afterwards
  std::vector<std::string> damages;  // what was wrong or is lost, the first damages_max
  std::vector<std::string> torn;     // ends of logs that were cut off; no damage
};
// Makes a store that can be opened of what can still be read: one snapshot. Damaged files stay in
// DIR/sluice.damaged, or .damaged.2 and so on. The problem: it cannot be repaired.
base::Result<RepairReport> repair(const std::string& dir);

// A copy in `target`, which does not exist yet.
base::Done backup(const std::string& dir, const std::string& target);

// Brings in counters that another server has stored: what is there already stays. One object for
// one pass, used by one thread; the folder is its own until it ends.
class Importer {
 public:
  enum class Added : uint8_t {
    yes,
    there  // the store has that counter already, and keeps it
  };

  // Opens the store in `dir`, or makes it. `now`: what is past its time by then is not there.
  // `spaces` outlives it.
  static base::Result<std::unique_ptr<Importer>> open(const std::string& dir, base::Time now,
                                                      request::Spaces& spaces);
  ~Importer();

  // A counter of limits with one cell. It is committed with many others, by `finish` at the latest.
  // What this pass has added may be listed, or be replaced.
  base::Result<Added> add(const request::Space& space, uint32_t limits_id, std::string_view key,
                          const limit::State& state);
  // Commits the rest, and writes a snapshot of all if there is much, so that a server need not
  // replay it. What was committed before stays, also after a failure.
  base::Done finish();

 private:
  Importer(std::unique_ptr<Journal> journal, std::string dir, request::Spaces& spaces)
      : journal_(std::move(journal)), dir_(std::move(dir)), spaces_(spaces) {}

  std::unique_ptr<Journal> journal_;
  const std::string dir_;
  request::Spaces& spaces_;
  std::unordered_map<std::string, bool> logged_;  // names in the log: is it there still?
};

}  // namespace sluice::disk
