// The counters' home on one machine: a folder that holds the latest committed state of every
// counter, as a log and a snapshot (docs/store-format.md). What has changed is appended to the log;
// from time to time a thread of the journal writes a snapshot of the table, and the log before it
// goes. Knows nothing of the table in memory. Owned by the store; each call says which thread may
// make it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bounds.h"
#include "base/result.h"
#include "base/time.h"
#include "request/counter_record.h"
#include "request/space.h"
#include "store/log/files.h"
#include "store/metadata_store.h"

namespace sluice::disk {

using Record = request::CounterRecord;
using Visit = request::VisitCounter;
using VisitText = std::function<void(std::string_view name, std::string_view text)>;

struct JournalOptions {
  std::string path;                 // made if missing; ours lies in `path`/sluice
  bool sync = false;                // a commit reaches the medium, not only the system
  base::Duration wait{};            // for another process that has it, at most
  std::function<base::Time()> now;  // tells which counters are past forget_us; any thread
  // A line for the log, while it is opened; or null.
  std::function<void(const std::string&)> tell{};
  bool offline = false;  // no table will be there, and the log may have any length
  // A snapshot is due when the log has so many states of counters: a start needs a place in the
  // table for each counter among them.
  uint64_t log_counters = UINT64_MAX;
};

// When a log is full, and a snapshot due. Tests have smaller numbers.
struct LogSizes {
  uint64_t log_bytes = base::bounds::log_bytes_max;  // of one log, and of all behind a snapshot
  size_t logs = base::bounds::logs_max;              // behind a snapshot
};

struct JournalStats {
  uint64_t commits = 0;    // since the start
  uint64_t counters = 0;   // in them
  uint64_t bytes = 0;      // of them
  uint64_t log_bytes = 0;  // behind the snapshot, which a start has to replay
  uint64_t snapshots = 0;  // since the start
  uint64_t failures = 0;   // commits and snapshots that failed, since the start
};

class Journal {
 public:
  enum class Found : uint8_t { yes, no, failed };

  // The table whose counters are kept, as the journal's thread sees it.
  struct Table {
    std::function<uint64_t()> counters{};  // about so many
    // Calls `visit(record)` with the state of each counter, until it returns false. Then returns
    // false, and otherwise true once all that was visited is committed.
    std::function<bool(const std::function<bool(const Record&)>& visit)> walk{};
  };

  // Opens what is there, or makes it. The problem says what is wrong and what to do (in use by
  // which process, not writable, damaged, written by a newer version). `spaces` outlives it.
  static base::Result<std::unique_ptr<Journal>> open(JournalOptions options,
                                                     request::Spaces& spaces);
  virtual ~Journal() = default;

  // The commit that is being made: a later state of the same counter counts for both. One thread,
  // as the next two. All states of one commit are found again after a crash, or none.
  virtual void add(const Record& record) = 0;
  // A text of that name (store/notes.h); null: it is gone. The last one of a commit counts.
  virtual void add_note(std::string_view name, const std::string* text) = 0;
  virtual size_t pending() const = 0;  // counters and texts in it
  // Commits it and begins another. After a failure it is not committed and kept; called again, it
  // is tried again, and goes through once the cause is gone.
  virtual base::Done commit() = 0;
  // Is the log twice as long as it should be, so that loading and the snapshot must not yield to
  // requests? At four times the length commits fail. Any thread.
  virtual bool is_late() const { return false; }
  // A problem: nothing can be committed for now, as the disk is full or fails. It is tried again by
  // each call, and by each commit. The same thread.
  virtual base::Done try_to_write() { return {}; }

  // Counters in the log, at most; one may be there several times.
  virtual uint64_t counters_in_log() const = 0;
  // What is in the log, oldest first; what is past its time, too. Before the first commit. Any
  // number of threads, each of which sees all.
  virtual base::Done replay(const Visit& visit) const = 0;

  // What the snapshot has of one counter; what is past its time is not there. Any thread.
  virtual Found find(const request::Space& space, std::string_view key, const Visit& visit) = 0;
  // The next counters of the snapshot behind `position`, which is moved (0 at first, and again when
  // all were visited). False: the disk fails. One thread.
  virtual bool scan(uint64_t& position, const Visit& visit) = 0;

  // Visits the texts that were added so, in the order of their names. Before the first commit.
  virtual base::Done read_notes(const VisitText& visit) = 0;

  // Nothing is looked for, visited or replayed any more. From now on snapshots are written, of
  // `table`, which outlives the journal.
  virtual void all_is_loaded(Table /*table*/) {}

  // A copy that a server can be started on, of what is committed. `target` does not exist yet. Any
  // thread.
  virtual base::Done backup(const std::string& target) = 0;

  // What is kept beside the counters, as long as the journal, read in the order of the names; null:
  // such a journal has none. Any thread; each call waits for the disk and for the one before.
  virtual store::MetadataStore* metadata() { return nullptr; }

  virtual JournalStats stats() const = 0;
};

}  // namespace sluice::disk
