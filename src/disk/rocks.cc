#include "disk/rocks.h"

#include <fcntl.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/table.h>
#include <rocksdb/wal_filter.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/bounds.h"
#include "base/machine.h"
#include "base/printable.h"
#include "disk/keys.h"
#include "disk/record.h"

namespace sluice::disk {

namespace {

class Forgetting : public rocksdb::CompactionFilter {
 public:
  Forgetting(std::function<base::Time()> now, bool all) : now_(std::move(now)), all_(all) {}
  const char* Name() const override { return "sluice.forget"; }
  Decision FilterV2(int, const rocksdb::Slice& key, ValueType type, const rocksdb::Slice& old,
                    std::string* value, std::string*) const override {
    const std::string_view its = old.ToStringView();
    if (type != ValueType::kValue || key == folded_key) return Decision::kKeep;
    if (is_forgotten(its)) return all_ ? Decision::kRemove : Decision::kKeep;
    if (forget_us_of(its) > now_us()) return Decision::kKeep;
    if (all_) return Decision::kRemove;
    // Not a deletion of RocksDB's, which a repair could not see.
    *value = forgotten_value;
    return Decision::kChangeValue;
  }

 private:
  // The clock is looked at now and then: what is past its time a moment ago is past it now.
  int64_t now_us() const {
    if (looked_++ % 256 == 0) now_us_ = now_().us;
    return now_us_;
  }
  const std::function<base::Time()> now_;
  const bool all_;  // of all tables: there are no older ones
  mutable uint32_t looked_ = 0;
  mutable int64_t now_us_ = 0;
};

class ForgettingFactory : public rocksdb::CompactionFilterFactory {
 public:
  explicit ForgettingFactory(std::function<base::Time()> now) : now_(std::move(now)) {}
  const char* Name() const override { return "sluice.forget"; }
  // Each compaction has one of its own, and is one thread.
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override {
    return std::make_unique<Forgetting>(now_, context.is_full_compaction);
  }

 private:
  const std::function<base::Time()> now_;
};

// RocksDB's own log is not kept: what is wrong is in a Status, and its logger ends the process when
// the disk is full (an assertion of the packaged library).
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// Takes note of errors, and keeps RocksDB from recovering from one by itself: it would go on with
// the log file that failed, which that same assertion forbids.
class Watch : public rocksdb::EventListener {
 public:
  explicit Watch(std::atomic<bool>& failed) : failed_(failed) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status*) override {
    failed_ = true;
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }

 private:
  std::atomic<bool>& failed_;
};

// Of each torn log the records that are whole.
class UpToTheirEnds : public rocksdb::WalFilter {
 public:
  explicit UpToTheirEnds(const std::vector<TornLog>& torn) {
    for (const TornLog& log : torn) left_[log.number] = log.records;
  }
  const char* Name() const override { return "sluice.ends"; }
  WalProcessingOption LogRecordFound(unsigned long long log, const std::string&,
                                     const rocksdb::WriteBatch&, rocksdb::WriteBatch*,
                                     bool*) override {
    const auto at = left_.find(log);
    if (at == left_.end()) return WalProcessingOption::kContinueProcessing;
    if (at->second == 0) return WalProcessingOption::kIgnoreCurrentRecord;
    --at->second;
    return WalProcessingOption::kContinueProcessing;
  }

 private:
  std::map<uint64_t, uint64_t> left_;
};

rocksdb::Options common() {
  // RocksDB's threads belong to the process.
  static std::once_flag once;
  std::call_once(once, [] {
    rocksdb::Env* const env = rocksdb::Env::Default();
    for (const auto pool : {rocksdb::Env::LOW, rocksdb::Env::HIGH, rocksdb::Env::BOTTOM})
      env->LowerThreadPoolCPUPriority(pool, rocksdb::CpuPriority::kLow);
  });

  rocksdb::Options options;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;
  options.info_log = std::make_shared<NoLog>();
  options.max_manifest_file_size = uint64_t{4} << 20;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.skip_stats_update_on_db_open = true;
  options.enable_write_thread_adaptive_yield = false;
  options.allow_concurrent_memtable_write = false;
  options.max_bgerror_resume_count = 0;  // Rocks::recover does it
  options.max_open_files = static_cast<int>(base::database_tables_max());
  // A writer is never stalled: the journal itself waits where folding is behind.
  options.level0_slowdown_writes_trigger = 1 << 20;
  options.level0_stop_writes_trigger = 1 << 20;
  options.soft_pending_compaction_bytes_limit = 0;
  options.hard_pending_compaction_bytes_limit = 0;
  return options;
}

}  // namespace

rocksdb::Options blocks_options() {
  rocksdb::Options options = common();
  // Room for all blocks that there may be, so that they are flushed when most are dropped.
  options.write_buffer_size = 2 * base::bounds::unfolded_bytes_max;
  options.max_write_buffer_number = 3;
  // The end of the last write of a killed process may be missing. Anything else is damage.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.avoid_flush_during_recovery = true;
  options.avoid_flush_during_shutdown = true;
  return options;
}

rocksdb::Options counters_options(std::function<base::Time()> now) {
  rocksdb::Options options = common();
  options.write_buffer_size = size_t{1} << 20;  // nothing is put there
  options.compaction_style = rocksdb::kCompactionStyleUniversal;
  options.level0_file_num_compaction_trigger = 8;
  // Each run of counters is one table, so that each says by its folded_key how new it is: a repair
  // may have nothing else to go by.
  options.target_file_size_base = uint64_t{1} << 40;
  options.target_file_size_multiplier = 1;
  options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(int64_t{64} << 20));
  options.bytes_per_sync = uint64_t{1} << 20;
  if (now) {
    options.compaction_filter_factory = std::make_shared<ForgettingFactory>(std::move(now));
    options.periodic_compaction_seconds = 6 * 3600;  // so that what is never written goes too
  }

  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_size = 16 << 10;
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  table.block_cache = rocksdb::NewLRUCache(size_t{32} << 20);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::Options texts_options() {
  rocksdb::Options options = common();
  // A start reads what is in the log of it, and begins another.
  options.write_buffer_size = size_t{4} << 20;
  options.max_write_buffer_number = 3;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.bytes_per_sync = uint64_t{1} << 20;

  rocksdb::BlockBasedTableOptions table;
  table.block_size = 16 << 10;
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  table.no_block_cache = true;  // they are read once, in order
  // But for what is about to be written: mostly it is not there.
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

std::string text_of(const rocksdb::Status& status) {
  return base::printable(status.ToString(), 512);
}

bool names_cause(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const auto says = [&](const char* words) { return text.find(words) != text.npos; };
  return !says("Seen error") && !says("Seen Error") && !says("has previous error");
}

bool is_disk_trouble(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return true;
  if (!status.IsIOError()) return false;
  const std::string text = status.ToString();
  const auto says = [&](int error) { return text.find(std::strerror(error)) != text.npos; };
  return says(ENOSPC) || says(EFBIG) || says(EDQUOT) || says(EIO);
}

rocksdb::Status Rocks::open(bool make) {
  const std::unique_lock lock(mutex_);
  return open_locked(make);
}

rocksdb::Status Rocks::open_locked(bool make, bool flush) {
  rocksdb::Options options = options_;
  if (flush) options.avoid_flush_during_recovery = false;
  options.listeners.push_back(std::make_shared<Watch>(failed_));
  options.create_if_missing = make;
  options.error_if_exists = make;
  rocksdb::DB* db = nullptr;
  failed_ = false;
  const rocksdb::Status status = rocksdb::DB::Open(options, path_, &db);
  db_.reset(db);
  read_only_ = false;
  if (!status.ok()) {
    failed_ = true;
    closed_ = status;
  }
  return status;
}

rocksdb::Status Rocks::open_or_read() {
  const std::unique_lock lock(mutex_);
  return open_or_read_locked();
}

rocksdb::Status Rocks::shed_logs() {
  const std::unique_lock lock(mutex_);
  db_.reset();
  const rocksdb::Status status = open_locked(false, true);
  return is_disk_trouble(status) ? open_or_read_locked() : status;
}

rocksdb::Status Rocks::open_or_read_locked() {
  const rocksdb::Status status = open_locked(false);
  // It is `closed_` that says why it cannot be written.
  if (!is_disk_trouble(status) || !open_to_read_locked().ok()) return status;
  return rocksdb::Status::OK();
}

rocksdb::Status Rocks::open_to_read(const std::vector<TornLog>& torn) {
  const std::unique_lock lock(mutex_);
  UpToTheirEnds filter(torn);
  rocksdb::Options options = options_;
  if (!torn.empty()) {
    options.wal_filter = &filter;
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  }
  rocksdb::DB* db = nullptr;
  // All logs are read before it returns.
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path_, &db);
  db_.reset(db);
  read_only_ = status.ok();
  if (!status.ok()) closed_ = status;
  return status;
}

rocksdb::Status Rocks::open_to_read_locked() {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options_, path_, &db);
  db_.reset(db);
  read_only_ = status.ok();
  return status;
}

void Rocks::close() {
  const std::unique_lock lock(mutex_);
  db_.reset();
}

rocksdb::Status Rocks::probe() const {
  // Opening it while there is no space would leave it closed, and it can still be read.
  const std::string path = path_ + "/probe.tmp";
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return rocksdb::Status::IOError(path, std::strerror(errno));
  const std::vector<char> bytes(size_t{1} << 20);
  const bool done = ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(fd);
  ::unlink(path.c_str());
  return done ? rocksdb::Status::OK() : rocksdb::Status::NoSpace(path_);
}

rocksdb::Status Rocks::recover() {
  const std::lock_guard turn(mending_);
  if (!failed_) return rocksdb::Status::OK();
  if (const rocksdb::Status space = probe(); !space.ok()) return space;
  // No thread may find it closed.
  const std::unique_lock lock(mutex_);
  db_.reset();
  const rocksdb::Status status = open_locked(false);
  // The space may be gone again, but not what is there.
  if (!status.ok()) open_to_read_locked().PermitUncheckedError();
  return status;
}

}  // namespace sluice::disk
