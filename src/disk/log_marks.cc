#include "disk/log_marks.h"

#include <fcntl.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/printable.h"
#include "base/units.h"
#include "disk/keys.h"
#include "disk/log_scan.h"
#include "disk/varint.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

constexpr char mark_kind = 'm';
constexpr std::string_view prefix(&mark_kind, 1);

std::string key_of(uint32_t number) {
  std::string key(1, mark_kind);
  for (int shift = 24; shift >= 0; shift -= 8) key += static_cast<char>(number >> shift);
  return key;
}

std::string value_of(uint64_t log) {
  char bytes[varint_bytes_max];
  return {bytes, put_varint(bytes, log)};
}

// 0, or why not. `bytes`: that many of it are on the medium then.
int sync_file(const std::string& path, uint64_t& bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  struct stat its;
  // What is written meanwhile may or may not be.
  const int error = ::fstat(fd, &its) == 0 && ::fsync(fd) == 0 ? 0 : errno;
  if (error == 0) bytes = static_cast<uint64_t>(its.st_size);
  ::close(fd);
  return error;
}

// Of the files of a folder that are logs, by RocksDB's numbers.
std::map<uint64_t, std::string> logs_in(const std::string& path) {
  std::map<uint64_t, std::string> logs;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    uint64_t number = 0;
    const char* const last = name.data() + name.size();
    const auto read = std::from_chars(name.data(), last, number);
    if (read.ec == std::errc() && std::string_view(read.ptr, last) == ".log")
      logs.emplace(number, name);
  }
  return logs;
}

}  // namespace

LogMarks::LogMarks(const std::string& dir, Of of)
    : path_(of == Of::blocks ? blocks_of(dir) : texts_of(dir)),
      store_path_(store_of(dir)),
      file_(of == Of::blocks ? "LOGS" : "LOGS-texts"),
      synced_file_(of == Of::blocks ? "SYNCED" : "SYNCED-texts") {}

LogMarks::~LogMarks() {
  if (synced_fd_ >= 0) ::close(synced_fd_);
}

std::string LogMarks::missing_words() const {
  return "a log (.log) is missing from " + path_.substr(path_.rfind('/') + 1) +
         ", or the beginning of one, and what it held";
}

int LogMarks::look_at_ends(std::vector<TornLog>& torn, std::string& wrong) {
  const std::lock_guard lock(mutex_);
  base::Result<SyncedLogs> all_synced = read_synced_file(store_path_, synced_file_);
  if (!all_synced) {
    synced_.clear();
    wrong = all_synced.problem().text;
    return 0;
  }
  synced_ = *std::move(all_synced);
  const std::string part = path_.substr(path_.rfind('/') + 1);
  for (const auto& [number, name] : logs_in(path_)) {
    LogScan scan;
    if (const int error = scan_log(path_ + "/" + name, scan)) return error;
    const auto at = synced_.find(number);
    const uint64_t synced = at == synced_.end() ? 0 : at->second;
    const std::string where = "the log " + part + "/" + name + " cannot be read behind byte " +
                              std::to_string(scan.whole_bytes);
    if (scan.bytes == 0 && synced > 0)
      wrong = missing_words();  // RocksDB makes a new one where the last one was taken away
    else if (scan.whole_bytes < synced)
      wrong = where + ", and was synced up to byte " + std::to_string(synced);
    else if (scan.end == LogScan::End::garbled)
      wrong = where + " (Corruption: a checksum or the order of its records is wrong)";
    else if (scan.end != LogScan::End::whole)
      torn.push_back({name, number, scan.bytes, scan.whole_bytes, scan.records});
    if (!wrong.empty()) return 0;
  }
  return 0;
}

int LogMarks::cut(const std::vector<TornLog>& torn) const {
  for (const TornLog& log : torn) {
    const std::string path = path_ + "/" + log.name;
    uint64_t unused;
    if (::truncate(path.c_str(), static_cast<off_t>(log.whole_bytes)) != 0) return errno;
    if (const int error = sync_file(path, unused)) return error;
  }
  return 0;
}

std::string LogMarks::message_for(const TornLog& torn) const {
  return "`" + base::printable(path_ + "/" + torn.name, 512) +
         "` ends in something that was never written to its end nor synced, as a kill, a full disk "
         "or a power cut leaves it: its last " +
         base::counted(torn.bytes - torn.whole_bytes, "byte") + " of " +
         std::to_string(torn.bytes) + " do not count, and are cut off";
}

std::string LogMarks::path_of(uint64_t log) const {
  char name[32];
  std::snprintf(name, sizeof name, "/%06llu.log", static_cast<unsigned long long>(log));
  return path_ + name;
}

Status LogMarks::read(rocksdb::DB& db, std::string& wrong) {
  const std::lock_guard lock(mutex_);
  marks_.clear();
  gone_.clear();
  written_ = false;
  const base::Result<LogsFile> logs = read_logs_file(store_path_, file_);
  if (!logs) {
    wrong = logs.problem().text;
    return Status::OK();
  }
  const LogsFile& asked = *logs;
  std::map<uint32_t, uint64_t> found;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    uint64_t log = 0;
    Input input(at->value().ToStringView());
    const uint32_t number = dictionary_number(at->key().ToStringView());
    if (number == 0 || !input.varint(log) || !input.done()) {
      wrong = "the mark of a log cannot be read";
      return at->status();
    }
    found.emplace(number, log);
  }
  if (!at->status().ok()) return at->status();
  // Without gaps, even where there is no file.
  const uint32_t first = asked.first != 0 || found.empty() ? asked.first : found.begin()->first;
  const uint32_t last = found.empty() ? asked.last : std::max(asked.last, found.rbegin()->first);
  for (uint64_t number = first; number != 0 && number <= last; ++number) {
    if (found.contains(static_cast<uint32_t>(number))) continue;
    wrong = missing_words();
    return Status::OK();
  }
  for (const auto& [number, log] : found) {
    if (number < first)
      gone_.push_back(number);
    else
      marks_.push_back({number, log, number <= asked.last});
  }
  return Status::OK();
}

Status LogMarks::mark(rocksdb::DB& db) {
  const std::lock_guard lock(mutex_);
  return mark_locked(db);
}

Status LogMarks::mark_locked(rocksdb::DB& db) {
  std::unique_ptr<rocksdb::LogFile> current;
  Status status = db.GetCurrentWalFile(&current);
  // A write may begin another log itself, and be in that one: then that one is marked too, as a
  // mark is only asked for once it is on the medium.
  while (status.ok() && (strays_ || marks_.empty() || marks_.back().log != current->LogNumber())) {
    if (strays_) {
      status = flush_strays(db);
      if (status.ok()) status = db.GetCurrentWalFile(&current);
      continue;
    }
    const uint32_t number = marks_.empty() ? 1 : marks_.back().number + 1;
    rocksdb::WriteBatch batch;
    // The file has not asked for these since before.
    if (written_) {
      for (const uint32_t old : gone_) batch.Delete(key_of(old));
    }
    batch.Put(key_of(number), value_of(current->LogNumber()));
    status = db.Write({}, &batch);
    if (!status.ok()) return status;
    if (written_) gone_.clear();
    marks_.push_back({number, current->LogNumber(), false});
    written_ = false;
    status = db.GetCurrentWalFile(&current);
    strays_ = !status.ok() || current->LogNumber() != marks_.back().log;
  }
  if (!status.ok() || written_) return status;

  if (const int error = sync_logs()) return Status::IOError(path_, with_errno("", error));
  while (marks_.size() > 1 && ::access(path_of(marks_.front().log).c_str(), F_OK) != 0 &&
         errno == ENOENT) {
    gone_.push_back(marks_.front().number);
    marks_.pop_front();
  }
  base::Done done = sync_directory(path_);
  if (done)
    done = write_logs_file(store_path_, file_, {marks_.front().number, marks_.back().number});
  if (done) done = write_synced();
  if (!done) return Status::IOError(done.problem().text);
  written_ = true;
  return Status::OK();
}

// The mark of the log before lies in the one that it began, where it says nothing of the other:
// that one must not be needed any more. It is being flushed, as a new one was begun.
Status LogMarks::flush_strays(rocksdb::DB& db) {
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  const Status status = db.Flush(flush);
  strays_ = !status.ok();
  return status;
}

// All of them, so that what is missing in one behind which there is another is damage. Not by
// RocksDB, which would let commits wait for it. 0, or why not.
int LogMarks::sync_logs() {
  SyncedLogs synced;
  const uint64_t current = marks_.back().log;
  for (const auto& [number, name] : logs_in(path_)) {
    // What was synced while it was not the last one is whole.
    const auto at = synced_.find(number);
    if (at != synced_.end() && at->first != synced_.rbegin()->first) {
      synced.insert(*at);
      continue;
    }
    // The one that is written now may end in a part of a record, whose rest comes or not: only up
    // to the last one that is whole now it must be there.
    LogScan whole;
    int error = number < current ? 0 : scan_log(path_ + "/" + name, whole);
    uint64_t bytes = 0;
    if (error == 0) error = sync_file(path_ + "/" + name, bytes);
    // What is gone is in a table.
    if (error == ENOENT) continue;
    if (error != 0) return error;
    if (number == current) bytes = whole.whole_bytes;
    if (number <= current) synced.emplace(number, bytes);
  }
  synced_ = std::move(synced);
  for (Mark& mark : marks_) mark.synced = true;
  return 0;
}

base::Done LogMarks::write_synced() {
  if (synced_fd_ >= 0) ::close(synced_fd_);
  synced_fd_ = -1;
  if (base::Done done = write_synced_file(store_path_, synced_file_, synced_); !done) return done;
  const std::string path = store_path_ + "/" + synced_file_;
  synced_fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return {};
}

void LogMarks::synced(rocksdb::DB& db) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<rocksdb::LogFile> current;
  if (!mark_locked(db).ok() || !db.GetCurrentWalFile(&current).ok()) return;
  if (synced_fd_ < 0 || synced_.empty()) return;
  auto& [number, bytes] = *synced_.rbegin();
  if (number != current->LogNumber()) return;
  bytes = current->SizeFileBytes();
  // In place, and not synced itself: it says less than holds, and never more.
  const std::string line = synced_line(number, bytes);
  if (::pwrite(synced_fd_, line.data(), line.size(),
               static_cast<off_t>((synced_.size() - 1) * line.size())) < 0) {
    return;
  }
}

Status LogMarks::restart(rocksdb::DB& db) {
  const std::lock_guard lock(mutex_);
  marks_.clear();
  gone_.clear();
  synced_.clear();
  written_ = false;
  const std::string end(1, mark_kind + 1);
  const Status status = db.DeleteRange({}, db.DefaultColumnFamily(), prefix, end);
  return status.ok() ? mark_locked(db) : status;
}

base::Done LogMarks::write_for(const std::string& store) {
  const std::lock_guard lock(mutex_);
  if (marks_.empty()) return {};
  return write_logs_file(store, file_, {marks_.front().number, marks_.back().number});
}

}  // namespace sluice::disk
