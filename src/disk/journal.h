// The counters' home on one machine: a directory that holds the latest committed state of every
// counter, in RocksDB. What has changed is committed as a block: one packed value under a rising
// number. A thread of the journal folds blocks into the counters' own keys and drops them
// (docs/store-format.md). Knows nothing of the table in memory. Owned by the store; each call says
// which thread may make it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/counter_record.h"
#include "request/space.h"
#include "store/metadata_store.h"

namespace sluice::disk {

using Record = request::CounterRecord;
using Visit = request::VisitCounter;

struct JournalOptions {
  std::string path;                 // made if missing; ours lies in `path`/sluice
  bool sync = false;                // a commit reaches the medium, not only the system
  std::function<base::Time()> now;  // tells which counters are past forget_us; any thread
  std::function<void(const std::string&)>
      tell{};  // a line for the log, while it is opened; or null
};

struct JournalStats {
  uint64_t blocks = 0;          // committed since the start
  uint64_t counters = 0;        // in them
  uint64_t bytes = 0;           // of them
  uint64_t unfolded_bytes = 0;  // of the blocks that are there now
  uint64_t folds = 0;           // since the start
  uint64_t failures = 0;        // commits and folds that failed, since the start
};

using VisitText = std::function<void(std::string_view name, std::string_view text)>;

class Journal {
 public:
  enum class Found : uint8_t { yes, no, failed };

  // Opens what is there, or makes it. The problem says what is wrong and what to do (in use by
  // which process, not writable, damaged, written by a newer version). `spaces` outlives it.
  static base::Result<std::unique_ptr<Journal>> open(JournalOptions options,
                                                     request::Spaces& spaces);
  virtual ~Journal() = default;

  // The block that is being made: a later state of the same counter takes the place of an earlier
  // one. One thread, as the next two.
  virtual void add(const Record& record) = 0;
  virtual size_t pending() const = 0;  // counters in it
  // Commits it and begins another. After a failure it is not committed and kept; called again, it
  // is tried again, and goes through once the cause is gone. Waits while the folding is
  // base::bounds::unfolded_bytes_max behind.
  virtual base::Done commit() = 0;
  // A problem: nothing can be committed for now, as the disk is full or fails. It is tried again by
  // each call, and by each commit. The same thread.
  virtual base::Done try_to_write() { return {}; }

  // At the start, before the first commit: reads the blocks that are not folded.
  virtual base::Done read_blocks() = 0;
  // Counters in these; one may be in several.
  virtual uint64_t counters_in_blocks() const = 0;
  // What is in them, oldest first; what is past its time, too. After read_blocks. Any number of
  // threads, each of which sees all.
  virtual base::Done replay(const Visit& visit) const = 0;
  // Starts folding what is there and what is to come. After the last replay.
  virtual void start_folding() = 0;

  // What is folded of one counter; what is past its time is not there. Any thread.
  virtual Found find(const request::Space& space, std::string_view key, const Visit& visit) = 0;
  // What is folded, in the order of the stored keys: the next `max` behind `position`, which is
  // moved (empty at first, and again when all were visited). False: the disk fails. One thread.
  virtual bool scan(std::string& position, size_t max, const Visit& visit) = 0;

  // Nothing is looked for, visited or replayed any more.
  virtual void all_is_loaded() {}

  // A copy that a server can be started on, of what is committed. `target` does not exist yet. Any
  // thread but the committing one need not stop for it.
  virtual base::Done backup(const std::string& target) = 0;

  // What is kept beside the counters, as long as the journal, read in the order of the names; null:
  // such a journal has none. Any thread; each call waits for the disk and for the one before.
  virtual store::MetadataStore* metadata() { return nullptr; }

  virtual JournalStats stats() const = 0;
};

}  // namespace sluice::disk
