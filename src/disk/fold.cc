#include "disk/fold.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "disk/keys.h"

namespace sluice::disk {

namespace {

constexpr size_t step_counters = 256;

}  // namespace

Fold::Fold(Rocks& counters, Latest& latest, std::vector<std::string_view> blocks, std::string file,
           uint64_t last_number, int64_t now_us)
    : counters_(counters),
      latest_(latest),
      blocks_(std::move(blocks)),
      file_(std::move(file)),
      last_number_(last_number),
      now_us_(now_us) {}

Fold::~Fold() {
  writer_.reset();
  if (written_ > 0) ::unlink(file_.c_str());
  latest_.clear();
}

bool Fold::step(rocksdb::Status& status) {
  if (reading_ || !blocks_.empty()) {
    if (!reading_) latest_.open(blocks_.back());
    reading_ = latest_.step();
    if (!reading_) blocks_.pop_back();
    if (!latest_.sound()) status = rocksdb::Status::Corruption("a block cannot be read");
    return status.ok();
  }
  if (!sorted_) {
    latest_.sort();
    sorted_ = true;
    return true;
  }
  status = write_some();
  return status.ok() && writer_;
}

rocksdb::Status Fold::write_some() {
  rocksdb::Status status;
  if (!writer_) {
    writer_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), counters_.options());
    // One that was left behind may be RocksDB's by now, under another name: it is not to be
    // written.
    ::unlink(file_.c_str());
    status = writer_->Open(file_);
    if (status.ok()) status = writer_->Put(folded_key, folded_value(last_number_));
    written_ = 0;
  }
  const size_t end = std::min(latest_.size(), written_ + step_counters);
  for (size_t i = written_; status.ok() && i < end; ++i) {
    value_.clear();
    if (!latest_.forgotten(i)) latest_.append_value(i, value_);
    if (latest_.forgotten(i) || forget_us_of(value_) <= now_us_) value_ = forgotten_value;
    status = writer_->Put(latest_.key(i), value_);
  }
  written_ = std::max<size_t>(end, 1);  // the file is there
  if (!status.ok() || end < latest_.size()) return status;
  status = writer_->Finish();
  writer_.reset();
  return status;
}

rocksdb::Status Fold::ingest() {
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.snapshot_consistency = false;
  options.verify_file_checksum = false;
  return counters_.use([&](rocksdb::DB& db) { return db.IngestExternalFile({file_}, options); });
}

}  // namespace sluice::disk
