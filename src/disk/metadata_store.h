// The metadata of a store on disk: small texts in a RocksDB of their own, so that nothing of the
// journal meets it. A write is one batch in its log; after `maybe` only a kill before the next one
// that succeeds may find it kept. Owned by the journal, whose lock on the directory holds for it
// too. Any thread; each call waits for the disk and for the one before.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <mutex>
#include <span>
#include <string>

#include "base/result.h"
#include "disk/journal.h"
#include "disk/log_marks.h"
#include "disk/rocks.h"

namespace sluice::disk {

// Of the database of texts; `visit` in the order of the names.
rocksdb::Status each_text(rocksdb::DB& db, const VisitText& visit);

class RocksMetadataStore final : public store::MetadataStore {
 public:
  // Of the store in `dir`. `sync`: a write reaches the medium, not only the system.
  RocksMetadataStore(const std::string& dir, bool sync);
  // What failed is taken back, if the disk lets it be.
  ~RocksMetadataStore() override;

  // Of a store that is whole. `wrong`: what is damaged. Before all else.
  rocksdb::Status open(std::string& wrong);

  base::Done read(const VisitText& visit) override;
  WriteResult write(std::span<const Change> changes) override;
  // A copy as part of the store that is being made in `dir`.
  base::Done copy_to(const std::string& dir);

 private:
  rocksdb::Status put(std::span<const Change> changes);
  rocksdb::Status put_again(std::span<const Change> changes);
  rocksdb::Status take_back();
  rocksdb::Status remember(std::span<const Change> changes, rocksdb::WriteBatch& undo);

  const std::string dir_;
  const bool sync_;
  std::mutex mutex_;
  Rocks rocks_;
  LogMarks marks_;
  // What failed may be in the log all the same: this takes it back, with the next that succeeds.
  rocksdb::WriteBatch undo_;
};

}  // namespace sluice::disk
