// The directory of a store: who has it, what lies in it, and which format that has. Ours is in
// `DIR`/sluice, so that DIR may be limitd's own; the lock is beside it. Called by the server and
// the tools when they open a store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::disk {

// What this program writes and reads, and the first version of it that does.
inline constexpr uint32_t format_number = 3;
inline constexpr std::string_view format_since = "0.1.0";

// Where things lie.
std::string store_of(const std::string& dir);     // DIR/sluice
std::string counters_of(const std::string& dir);  // DIR/sluice/counters
std::string blocks_of(const std::string& dir);    // DIR/sluice/blocks
std::string texts_of(const std::string& dir);     // DIR/sluice/texts
std::string format_file_of(const std::string& dir);

// The path as a message shows it, in backticks.
std::string quoted(const std::string& path);
// "text: No such file or directory"
std::string with_errno(const std::string& text, int error);

// No other process has DIR while it lives.
class Lock {
 public:
  Lock() = default;
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // The problem names the process that has it. `make`: DIR is made if it is missing.
  base::Done take(const std::string& dir, bool make);
  // The process that has DIR, when that was why it could not be taken.
  int holder() const { return holder_; }

 private:
  int fd_ = -1;
  int holder_ = 0;
};

enum class Condition : uint8_t {
  absent,   // there never was a store
  whole,    // its parts are there, in the format that this program reads
  foreign,  // its format is another one, of an earlier or a later version
  damaged   // something is there, but not that
};

// What is in DIR/sluice. `problem` says why it cannot be used, and what to do.
struct Look {
  Condition condition = Condition::absent;
  base::Problem problem;  // of one that is foreign or damaged
};
// Changes nothing.
Look look(const std::string& dir);
// "the store in `DIR` is damaged: WHAT; look at it with ..."
std::string damaged(const std::string& dir, const std::string& what);

// In a store that is being made at `store`, last of all.
base::Done write_format(const std::string& store);

// The files DIR/sluice/LOGS and LOGS-texts: which marks a database holds (log_marks.h).
struct LogsFile {
  uint32_t first = 0, last = 0;  // 0: there is no such file
};
// `name`: of the file in the folder `store`. False: `wrong`.
base::Result<LogsFile> read_logs_file(const std::string& store, const std::string& name);
base::Done write_logs_file(const std::string& store, const std::string& name, const LogsFile& logs);

// The files DIR/sluice/SYNCED and SYNCED-texts: up to which byte each log was synced (log_marks.h).
// A line for each, all of one length, so that the last one can be written in place.
using SyncedLogs = std::map<uint64_t, uint64_t>;
std::string synced_line(uint64_t log, uint64_t bytes);
// Nothing is known of a store without the file. False: `wrong`.
base::Result<SyncedLogs> read_synced_file(const std::string& store, const std::string& name);
base::Done write_synced_file(const std::string& store, const std::string& name,
                             const SyncedLogs& logs);

// Makes what was written into a directory, names included, reach the medium.
base::Done sync_directory(const std::string& path);

}  // namespace sluice::disk
