#include "disk/metadata_store.h"

#include <rocksdb/utilities/checkpoint.h>

#include <filesystem>
#include <memory>
#include <set>

#include "base/printable.h"
#include "disk/layout.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

// Names have a letter in front of them, as the marks of the logs have theirs.
constexpr char text_kind = 't';

std::string key_of(std::string_view name) {
  std::string key(1, text_kind);
  key += name;
  return key;
}

}  // namespace

Status each_text(rocksdb::DB& db, const VisitText& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  options.readahead_size = size_t{2} << 20;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
  for (at->Seek({&text_kind, 1}); at->Valid() && at->key()[0] == text_kind; at->Next()) {
    std::string_view name = at->key().ToStringView();
    name.remove_prefix(1);
    visit(name, at->value().ToStringView());
  }
  return at->status();
}

RocksMetadataStore::RocksMetadataStore(const std::string& dir, bool sync)
    : dir_(dir),
      sync_(sync),
      rocks_(texts_of(dir), texts_options()),
      marks_(dir, LogMarks::Of::texts) {}

Status RocksMetadataStore::open(std::string& wrong) {
  const std::lock_guard lock(mutex_);
  const Status status = rocks_.open_or_read();
  if (!status.ok()) return status;
  return rocks_.use([&](rocksdb::DB& db) {
    const Status read = marks_.read(db, wrong);
    if (!read.ok() || !wrong.empty()) return read;
    // While the disk is full the next write does it.
    if (rocks_.has_failed()) return read;
    const Status marked = marks_.mark(db);
    return is_disk_trouble(marked) ? read : marked;
  });
}

base::Done RocksMetadataStore::read(const VisitText& visit) {
  const std::lock_guard lock(mutex_);
  const Status status = rocks_.use([&](rocksdb::DB& db) { return each_text(db, visit); });
  if (status.ok()) return {};
  return base::Problem{damaged(dir_, "texts: " + text_of(status))};
}

RocksMetadataStore::~RocksMetadataStore() {
  take_back().PermitUncheckedError();
}

store::MetadataStore::WriteResult RocksMetadataStore::write(std::span<const Change> changes) {
  const std::lock_guard lock(mutex_);
  const Status status = put_again(changes);
  if (status.ok()) return {};
  std::string problem = "`" + base::printable(rocks_.path(), 512) +
                        "` cannot be written: " + text_of(status) +
                        "; see to the disk, and try again";
  if (undo_.Count() == 0) return {Written::no, {std::move(problem)}};
  problem += "; a kill before the next one that succeeds may find it kept all the same";
  return {Written::maybe, {std::move(problem)}};
}

Status RocksMetadataStore::take_back() {
  return undo_.Count() > 0 ? put_again({}) : Status::OK();
}

Status RocksMetadataStore::put_again(std::span<const Change> changes) {
  Status status = put(changes);
  // There may be space again since the last one.
  if (!status.ok() && rocks_.recover().ok()) status = put(changes);
  return status;
}

Status RocksMetadataStore::put(std::span<const Change> changes) {
  rocksdb::WriteBatch batch = undo_, undo = undo_;
  // Before anything is written: what cannot be read could not be taken back.
  if (Status read = remember(changes, undo); !read.ok()) return read;
  for (const Change& change : changes) {
    if (change.text)
      batch.Put(key_of(change.name), *change.text);
    else
      batch.Delete(key_of(change.name));
  }
  rocksdb::WriteOptions options;
  options.sync = sync_;
  const Status status = rocks_.use([&](rocksdb::DB& db) {
    const Status done = db.Write(options, &batch);
    // A full memory table has begun another log. The next write does it if this one cannot.
    if (done.ok() && sync_)
      marks_.synced(db);
    else if (done.ok())
      marks_.mark(db).PermitUncheckedError();
    return done;
  });
  if (status.ok())
    undo_.Clear();
  else
    undo_ = std::move(undo);
  return status;
}

// What is under those names, once: after a failure it may be what that one wrote.
Status RocksMetadataStore::remember(std::span<const Change> changes, rocksdb::WriteBatch& undo) {
  struct Names : rocksdb::WriteBatch::Handler {
    std::set<std::string> all;
    Status PutCF(uint32_t, const rocksdb::Slice& key, const rocksdb::Slice&) override {
      all.insert(key.ToString());
      return Status::OK();
    }
    Status DeleteCF(uint32_t, const rocksdb::Slice& key) override {
      all.insert(key.ToString());
      return Status::OK();
    }
  } known;
  if (Status status = undo.Iterate(&known); !status.ok()) return status;
  return rocks_.use([&](rocksdb::DB& db) {
    std::string value;
    for (const Change& change : changes) {
      const std::string key = key_of(change.name);
      if (!known.all.insert(key).second) continue;
      Status found = db.Get({}, key, &value);
      if (!found.ok() && !found.IsNotFound()) return found;
      found = found.ok() ? undo.Put(key, value) : undo.Delete(key);
      if (!found.ok()) return found;
    }
    return Status::OK();
  });
}

base::Done RocksMetadataStore::copy_to(const std::string& dir) {
  const std::lock_guard lock(mutex_);
  // What failed is not to be in a copy either.
  Status status = take_back();
  if (status.ok())
    status = rocks_.use([&](rocksdb::DB& db) {
      rocksdb::Checkpoint* made = nullptr;
      Status copied = rocksdb::Checkpoint::Create(&db, &made);
      const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
      // The log as it is, without a flush.
      if (copied.ok()) copied = checkpoint->CreateCheckpoint(texts_of(dir), UINT64_MAX);
      return copied;
    });
  if (!status.ok()) return base::Problem{text_of(status)};
  return marks_.write_for(store_of(dir));
}

}  // namespace sluice::disk
