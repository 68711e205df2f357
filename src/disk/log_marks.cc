#include "disk/log_marks.h"

#include <fcntl.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>

#include "disk/keys.h"
#include "disk/layout.h"
#include "disk/varint.h"

namespace sluice::disk {

namespace {

using rocksdb::Status;

constexpr char kind = 'm';
constexpr std::string_view prefix(&kind, 1);

std::string key_of(uint32_t number) {
  std::string key(1, kind);
  for (int shift = 24; shift >= 0; shift -= 8) key += static_cast<char>(number >> shift);
  return key;
}

std::string value_of(uint64_t log) {
  char bytes[varint_bytes_max];
  return {bytes, put_varint(bytes, log)};
}

// 0, or why not.
int sync_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

LogMarks::LogMarks(const std::string& dir, Of of)
    : path_(of == Of::blocks ? blocks_of(dir) : texts_of(dir)),
      store_path_(store_of(dir)),
      file_(of == Of::blocks ? "LOGS" : "LOGS-texts") {}

std::string LogMarks::path_of(uint64_t log) const {
  char name[32];
  std::snprintf(name, sizeof name, "/%06llu.log", static_cast<unsigned long long>(log));
  return path_ + name;
}

Status LogMarks::read(rocksdb::DB& db, std::string& wrong) {
  marks_.clear();
  gone_.clear();
  written_ = false;
  LogsFile asked;
  if (!read_logs_file(store_path_, file_, asked, wrong)) return Status::OK();
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
    wrong = "a log (.log) is missing from " + path_.substr(path_.rfind('/') + 1) +
            ", or the beginning of one, and what it held";
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
  std::unique_ptr<rocksdb::LogFile> current;
  Status status = db.GetCurrentWalFile(&current);
  if (!status.ok()) return status;
  if (marks_.empty() || marks_.back().log != current->LogNumber()) {
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
  }
  if (written_) return Status::OK();

  // Not by RocksDB, which would sync all other logs as well, and let commits wait for it.
  for (Mark& mark : marks_) {
    if (mark.synced) continue;
    const int error = sync_file(path_of(mark.log));
    // What is gone is in a table.
    if (error != 0 && error != ENOENT)
      return Status::IOError(path_of(mark.log), with_errno("", error));
    mark.synced = true;
  }
  while (marks_.size() > 1 && ::access(path_of(marks_.front().log).c_str(), F_OK) != 0 &&
         errno == ENOENT) {
    gone_.push_back(marks_.front().number);
    marks_.pop_front();
  }
  std::string problem;
  if (!sync_directory(path_, problem) || !write_for(store_path_, problem))
    return Status::IOError(problem);
  written_ = true;
  return Status::OK();
}

Status LogMarks::restart(rocksdb::DB& db) {
  marks_.clear();
  gone_.clear();
  written_ = false;
  const std::string end(1, kind + 1);
  const Status status = db.DeleteRange({}, db.DefaultColumnFamily(), prefix, end);
  return status.ok() ? mark(db) : status;
}

bool LogMarks::write_for(const std::string& store, std::string& problem) const {
  if (marks_.empty()) return true;
  return write_logs_file(store, file_, {marks_.front().number, marks_.back().number}, problem);
}

}  // namespace sluice::disk
