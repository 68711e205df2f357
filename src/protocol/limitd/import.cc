// limitd keeps its buckets in LevelDB: key U+00FF type U+00FF key, value a JSON object. Opening
// such a database writes to it, so a copy is opened.
#include "protocol/limitd/import.h"

#include <fcntl.h>
#include <leveldb/db.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "disk/importer.h"
#include "disk/layout.h"
#include "disk/owner.h"
#include "limit/fixed_bucket.h"
#include "limit/token_bucket.h"

namespace sluice::limitd {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = "\xc3\xbf";  // U+00FF

// Has a running limitd the database? LevelDB locks this file.
int holder_of(const std::string& dir) {
  const int fd = ::open((dir + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool told = ::fcntl(fd, F_GETLK, &lock) == 0;
  ::close(fd);
  return told && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

// The files of a LevelDB, and nothing else that lies there.
bool is_leveldbs(const std::string& name) {
  return name == "CURRENT" || name.starts_with("MANIFEST-") || name.ends_with(".ldb") ||
         name.ends_with(".sst") || name.ends_with(".log");
}

bool copy_database(const std::string& from, const std::string& to, std::string& problem) {
  std::error_code error;
  fs::remove_all(to, error);
  fs::create_directory(to, error);
  for (fs::directory_iterator at(from, error), end; !error && at != end;) {
    const std::string name = at->path().filename().string();
    if (is_leveldbs(name)) fs::copy_file(at->path(), to + "/" + name, error);
    if (!error) at.increment(error);
  }
  if (error)
    problem = "limitd's database in `" + base::printable(from, 512) +
              "` cannot be copied: " + error.message();
  return !error;
}

bool parse_bucket(std::string_view key, std::string_view value, StoredBucket& bucket) {
  if (!key.starts_with(mark)) return false;
  key.remove_prefix(mark.size());
  const size_t cut = key.find(mark);
  if (cut == std::string_view::npos) return false;
  bucket.type = key.substr(0, cut);
  bucket.key = key.substr(cut + mark.size());
  const auto json = nlohmann::json::parse(value, nullptr, false);
  if (!json.is_object()) return false;
  const auto content = json.find("content"), drip = json.find("lastDrip");
  if (content == json.end() || !content->is_number()) return false;
  bucket.content = content->get<double>();
  bucket.last_drip_us.reset();
  if (drip != json.end() && drip->is_number()) {
    const double ms = drip->get<double>();
    if (!(ms >= 0 && ms < 9e15)) return false;
    // Of a fraction of a millisecond nothing is known.
    bucket.last_drip_us = static_cast<int64_t>(ms) * 1000;
  }
  return std::isfinite(bucket.content);
}

}  // namespace

bool has_database(const std::string& dir) {
  // RocksDB's files are named alike, but ours are never in DIR itself, and its tables end in .sst.
  std::error_code error;
  if (!fs::exists(dir + "/CURRENT", error)) return false;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with("OPTIONS-")) return false;
  return !error;
}

limit::State state_of(const StoredBucket& bucket, const limit::Limit& limit, base::Time now) {
  const auto most = static_cast<double>(limit.burst);
  const double content = std::clamp(bucket.content, 0.0, most);
  const double whole = std::floor(content);
  base::Time then{std::min(bucket.last_drip_us.value_or(now.us), now.us)};
  // A part of a unit that has come back already is time that has passed already.
  if (limit.algorithm == limit::Algorithm::token_bucket)
    then.us -= static_cast<int64_t>((content - whole) * static_cast<double>(limit.window.us) /
                                    static_cast<double>(limit.quota));
  const int64_t missing = limit.burst - static_cast<int64_t>(whole);
  if (limit.algorithm == limit::Algorithm::fixed_bucket)
    return limit::fixed_bucket::decide({}, limit, missing, then).next;
  SLUICE_CHECK(limit.algorithm == limit::Algorithm::token_bucket);
  return limit::token_bucket::decide({}, limit, missing, then, limit.burst).next;
}

namespace {

bool import_into(const std::string& dir, base::Time now, request::Spaces& spaces,
                 const ToCounter& to_counter, ImportReport& report, std::string& problem) {
  const std::string shown = "`" + base::printable(dir, 512) + "`";
  if (!has_database(dir)) {
    problem = "there is no database of limitd in " + shown;
    return false;
  }
  if (const int pid = holder_of(dir); pid != 0) {
    problem = "limitd's database in " + shown + " is in use by process " + std::to_string(pid) +
              "; stop that first";
    return false;
  }
  const auto importer = disk::Importer::open(dir, now, spaces, problem);
  if (!importer) return false;

  const std::string copy = disk::store_of(dir) + "/limitd.tmp";
  const auto end_with = [&](bool done) {
    std::error_code ignored;
    fs::remove_all(copy, ignored);
    return done;
  };
  if (!copy_database(dir, copy, problem)) return end_with(false);
  leveldb::DB* opened = nullptr;
  leveldb::Options level;
  level.paranoid_checks = true;
  leveldb::Status status = leveldb::DB::Open(level, copy, &opened);
  const std::unique_ptr<leveldb::DB> db(opened);
  const auto unreadable = [&] {
    problem = "limitd's database in " + shown +
              " cannot be read: " + base::printable(status.ToString(), 512);
    return end_with(false);
  };
  if (!status.ok()) return unreadable();

  leveldb::ReadOptions reading;
  reading.verify_checksums = true;
  const std::unique_ptr<leveldb::Iterator> at(db->NewIterator(reading));
  StoredBucket bucket;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key(at->key().data(), at->key().size());
    const std::string_view value(at->value().data(), at->value().size());
    if (!parse_bucket(key, value, bucket)) {
      // Times to live lie beside the buckets, as if of this type. Nothing in them is needed.
      if (!key.starts_with("\xc3\xbf"
                           "ttl"
                           "\xc3\xbf"))
        ++report.unreadable;
      continue;
    }
    const auto counter = to_counter(bucket.type, bucket.key);
    if (!counter) {
      ++report.untyped;
      continue;
    }
    const limit::State state = limit::has_counter(counter->limit.algorithm)
                                   ? state_of(bucket, counter->limit, now)
                                   : limit::State{};
    if (state.fresh_at_us <= now.us) {
      ++report.full;
      continue;
    }
    using Added = disk::Importer::Added;
    const Added added =
        importer->add(*counter->space, counter->limits_id, counter->key, state, problem);
    if (added == Added::failed) return end_with(false);
    ++(added == Added::there ? report.there : report.imported);
  }
  status = at->status();
  if (!status.ok()) return unreadable();
  return end_with(importer->finish(problem));
}

}  // namespace

bool import_buckets(const std::string& dir, base::Time now, request::Spaces& spaces,
                    const ToCounter& to_counter, ImportReport& report, std::string& problem) {
  const bool done = import_into(dir, now, spaces, to_counter, report, problem);
  std::string unused;
  return disk::give_to_owner(dir, disk::store_of(dir), done ? problem : unused) && done;
}

}  // namespace sluice::limitd
