// Whether a log of a database is missing, or the end of one. RocksDB does not miss a log that was
// taken away whole, so each log holds a mark, under a number that rises by one, and the file
// DIR/sluice/LOGS, or LOGS-texts, says which marks there are. A mark outlives its log, in a table,
// once what the log held is in one. The file SYNCED, or SYNCED-texts, says up to which byte each
// log was synced: what is missing before that is damage, what is missing behind it was never
// promised. Used by the journal, on any thread, and by the tools.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "disk/layout.h"

namespace sluice::disk {

// A log that ends in something that was never written to its end.
struct TornLog {
  std::string name;  // of its file
  uint64_t number = 0;
  uint64_t bytes = 0, whole_bytes = 0;  // of the file, and up to the end of the last whole record
  uint64_t records = 0;                 // up to there
};

class LogMarks {
 public:
  enum class Of : uint8_t { blocks, texts };
  explicit LogMarks(const std::string& dir, Of of = Of::blocks);
  ~LogMarks();
  LogMarks(const LogMarks&) = delete;
  LogMarks& operator=(const LogMarks&) = delete;

  // Before the database is opened: the logs whose ends are torn behind what was synced. `wrong`:
  // what is damaged. 0, or why they cannot be read (errno).
  int look_at_ends(std::vector<TornLog>& torn, std::string& wrong);
  // Takes the torn ends away, for good. 0, or why it cannot.
  int cut(const std::vector<TornLog>& torn) const;
  // For people.
  std::string message_for(const TornLog& torn) const;

  // The marks in the database, and what the file asks for. `wrong`: what is missing. A store
  // without the file is taken as it is.
  rocksdb::Status read(rocksdb::DB& db, std::string& wrong);
  // Marks the log that is written now, if it has no mark; what fails is done by the next call. The
  // files are written last, when what they ask for is on the medium. Where the mark itself begins
  // another log, which is rare, this waits until what the one before holds is in a table.
  rocksdb::Status mark(rocksdb::DB& db);
  // All that was written so far is on the medium; the caller lets no thread write meanwhile. What
  // fails is made up for by the next call.
  void synced(rocksdb::DB& db);
  // The marks begin again, whatever there was. To be flushed by the caller.
  rocksdb::Status restart(rocksdb::DB& db);
  // Of a copy of the database: the same file for the store at `store`.
  base::Done write_for(const std::string& store);

 private:
  struct Mark {
    uint32_t number;
    uint64_t log;  // RocksDB's number of it
    bool synced;
  };
  rocksdb::Status flush_strays(rocksdb::DB& db);
  std::string path_of(uint64_t log) const;
  std::string missing_words() const;
  rocksdb::Status mark_locked(rocksdb::DB& db);
  int sync_logs();
  base::Done write_synced();

  const std::string path_, store_path_;
  const char* const file_;         // its name in the store
  const char* const synced_file_;  // likewise
  std::mutex mutex_;               // of all that follows
  std::deque<Mark> marks_;         // of the logs that may be there, oldest first
  std::vector<uint32_t> gone_;     // of those that are not, to be removed
  bool strays_ = false;            // there may be a mark that is not in its own log
  bool written_ = false;           // the files say what marks_ and synced_ do
  SyncedLogs synced_;              // up to which byte each log is on the medium
  int synced_fd_ = -1;             // of the file that says so, to write its last line
};

}  // namespace sluice::disk
