// One fold: blocks become a sorted table file with the latest state of each of their counters,
// which RocksDB then takes among the folded ones. In small steps, so that its thread can rest,
// stop, or hand it to another thread in between; one thread at a time.
#pragma once

#include <rocksdb/sst_file_writer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "disk/latest.h"
#include "disk/rocks.h"

namespace sluice::disk {

class Fold {
 public:
  // `blocks`, oldest first and the last of them with that number, and all else outlive it. `latest`
  // is empty.
  Fold(Rocks& counters, Latest& latest, std::vector<std::string_view> blocks, std::string file,
       uint64_t last_number, int64_t now_us);
  ~Fold();
  Fold(const Fold&) = delete;
  Fold& operator=(const Fold&) = delete;

  // True: there is more to do. False: the table file is written, or `status` says why not.
  bool step(rocksdb::Status& status);
  // Behind the last step: gives the file to RocksDB, at once.
  rocksdb::Status ingest();

 private:
  rocksdb::Status write_some();

  Rocks& counters_;
  Latest& latest_;
  std::vector<std::string_view> blocks_;  // those that are not read yet, and the one that is
  bool reading_ = false, sorted_ = false;
  const std::string file_;
  const uint64_t last_number_;
  const int64_t now_us_;
  size_t written_ = 0;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
  std::string value_;
};

}  // namespace sluice::disk
