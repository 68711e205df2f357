// Whether a log of a database is missing. RocksDB does not miss one that was taken away whole, so
// each log holds a mark, under a number that rises by one, and the file DIR/sluice/LOGS, or
// LOGS-texts, says which marks there are. A mark outlives its log, in a table, once what the log
// held is in one. Used by the journal, one thread at a time, and by the tools.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace sluice::disk {

class LogMarks {
 public:
  enum class Of : uint8_t { blocks, texts };
  explicit LogMarks(const std::string& dir, Of of = Of::blocks);

  // The marks in the database, and what the file asks for. `wrong`: what is missing. A store
  // without the file is taken as it is.
  rocksdb::Status read(rocksdb::DB& db, std::string& wrong);
  // Marks the log that is written now, if it has no mark; what fails is done by the next call. The
  // file is written last, when what it asks for is on the medium.
  rocksdb::Status mark(rocksdb::DB& db);
  // The marks begin anew, whatever there was. To be flushed by the caller.
  rocksdb::Status restart(rocksdb::DB& db);
  // Of a copy of the database: the same file for the store at `store`.
  bool write_for(const std::string& store, std::string& problem) const;

 private:
  struct Mark {
    uint32_t number;
    uint64_t log;  // RocksDB's number of it
    bool synced;
  };
  std::string path_of(uint64_t log) const;

  const std::string path_, store_path_;
  const char* const file_;      // its name in the store
  std::deque<Mark> marks_;      // of the logs that may be there, oldest first
  std::vector<uint32_t> gone_;  // of those that are not, to be removed
  bool written_ = false;        // the file says what marks_ does
};

}  // namespace sluice::disk
