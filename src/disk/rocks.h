// One RocksDB database of a store, with the settings that its part wants. Other threads use it
// while one recovers it: after an error that RocksDB does not recover from it is closed and opened
// again. Owned by the journal or a tool.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "base/time.h"
#include "disk/log_marks.h"

namespace sluice::disk {

// The dictionary and the blocks, most of which are dropped before they would reach a table file.
rocksdb::Options blocks_options();
// The folded counters. What is past its time by `now` is dropped; without a clock nothing is.
rocksdb::Options counters_options(std::function<base::Time()> now);

// What is kept beside them: little, and seldom written.
rocksdb::Options texts_options();

// For people.
std::string text_of(const rocksdb::Status& status);
// A write to a log behind one that failed says only that there was one ("Seen error").
bool names_cause(const rocksdb::Status& status);
// Is the disk full, or failing? Then it may be written again, without anything being recovered by
// hand.
bool is_disk_trouble(const rocksdb::Status& status);

class Rocks {
 public:
  Rocks(std::string path, rocksdb::Options options)
      : path_(std::move(path)), options_(std::move(options)) {}

  rocksdb::Status open(bool make);
  // As open(false). Where only writing fails, as on a full disk, it can be read and counts as
  // failed, so that `recover` opens it to be written.
  rocksdb::Status open_or_read();
  // Opens it again, and what its logs hold becomes a table, if there is room. By this thread:
  // RocksDB's own may wait for a processor.
  rocksdb::Status shed_logs();
  // Nothing is written; what its logs hold is read into memory, of those that are torn as many
  // records as are whole.
  rocksdb::Status open_to_read(const std::vector<TornLog>& torn = {});
  void close();
  // `call(rocksdb::DB&)`, whose Status it returns.
  template <class Call>
  rocksdb::Status use(Call&& call) {
    const std::shared_lock lock(mutex_);
    if (!db_) return closed_;
    const rocksdb::Status status = call(*db_);
    return read_only_ && status.IsNotSupported() ? closed_ : status;
  }
  // After an error, if it is one that RocksDB does not get over. Not ok: it is as bad as before,
  // and what can be read of it still can.
  rocksdb::Status recover();

  // It cannot be written until `recover` has been at it.
  bool has_failed() const { return failed_; }
  const std::string& path() const { return path_; }
  const rocksdb::Options& options() const { return options_; }

 private:
  rocksdb::Status probe() const;
  rocksdb::Status open_locked(bool make, bool flush = false);
  rocksdb::Status open_or_read_locked();
  rocksdb::Status open_to_read_locked();

  const std::string path_;
  const rocksdb::Options options_;
  std::mutex mending_;
  std::atomic<bool> failed_{false};  // outlives the database, which sets it
  std::shared_mutex mutex_;
  std::unique_ptr<rocksdb::DB> db_;
  bool read_only_ = false;
  // Why there is none, or none that can be written; never ok.
  rocksdb::Status closed_ = rocksdb::Status::IOError("it is not open");
};

}  // namespace sluice::disk
