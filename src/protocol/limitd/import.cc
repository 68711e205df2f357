// limitd stores its buckets in LevelDB: the key is U+00FF type U+00FF key, the value a JSON object.
// Opening a LevelDB writes to it, so a copy is opened.
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
#include "base/clock.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "limit/fixed_bucket.h"
#include "limit/token_bucket.h"
#include "protocol/limitd/rules.h"
#include "protocol/protocol.h"
#include "store/log/folder.h"
#include "store/log/tools.h"

namespace sluice::limitd {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = "\xc3\xbf";  // U+00FF

// The process id of a limitd that has the database open, from LevelDB's lock; 0: no process does.
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

// Is it a file of a LevelDB? Other files in the directory are not copied.
bool is_leveldbs(const std::string& name) {
  return name == "CURRENT" || name.starts_with("MANIFEST-") || name.ends_with(".ldb") ||
         name.ends_with(".sst") || name.ends_with(".log");
}

base::Done copy_database(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::remove_all(to, error);
  fs::create_directory(to, error);
  for (fs::directory_iterator at(from, error), end; !error && at != end;) {
    const std::string name = at->path().filename().string();
    if (is_leveldbs(name)) fs::copy_file(at->path(), to + "/" + name, error);
    if (!error) at.increment(error);
  }
  if (error)
    return base::Problem{"limitd's database in `" + base::printable(from, 512) +
                         "` cannot be copied: " + error.message()};
  return {};
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
    // Fractions of a millisecond are dropped.
    bucket.last_drip_us = static_cast<int64_t>(ms) * 1000;
  }
  return std::isfinite(bucket.content);
}

}  // namespace

bool has_database(const std::string& dir) {
  // RocksDB's files have similar names, but our store never puts its files into DIR itself, and
  // RocksDB has OPTIONS files, which LevelDB does not have.
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
  // A fraction of a unit is converted to the time in which it came back.
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

// The copy of the database, which is removed when the import ends in any way.
struct Copy {
  ~Copy() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const std::string path;
};

base::Result<ImportReport> import_into(const std::string& dir, base::Time now,
                                       request::Spaces& spaces, const ToCounter& to_counter) {
  const std::string shown = "`" + base::printable(dir, 512) + "`";
  if (!has_database(dir)) return base::Problem{"there is no database of limitd in " + shown};
  if (const int pid = holder_of(dir); pid != 0)
    return base::Problem{"limitd's database in " + shown + " is in use by process " +
                         std::to_string(pid) + "; stop that first"};
  auto importer = disk::Importer::open(dir, now, spaces);
  if (!importer) return std::move(importer).problem();

  const Copy copy{disk::store_of(dir) + "/limitd.tmp"};
  if (base::Done copied = copy_database(dir, copy.path); !copied)
    return std::move(copied).problem();
  leveldb::DB* opened = nullptr;
  leveldb::Options level;
  level.paranoid_checks = true;
  leveldb::Status status = leveldb::DB::Open(level, copy.path, &opened);
  const std::unique_ptr<leveldb::DB> db(opened);
  const auto unreadable = [&] {
    return base::Problem{"limitd's database in " + shown +
                         " cannot be read: " + base::printable(status.ToString(), 512)};
  };
  if (!status.ok()) return unreadable();

  leveldb::ReadOptions reading;
  reading.verify_checksums = true;
  const std::unique_ptr<leveldb::Iterator> at(db->NewIterator(reading));
  ImportReport report;
  StoredBucket bucket;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key(at->key().data(), at->key().size());
    const std::string_view value(at->value().data(), at->value().size());
    if (!parse_bucket(key, value, bucket)) {
      // limitd stores times to live next to the buckets, under the type `ttl`. They are not needed.
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
    base::Result<Added> added =
        (*importer)->add(*counter->space, counter->limits_id, counter->key, state);
    if (!added) return std::move(added).problem();
    ++(*added == Added::there ? report.there : report.imported);
  }
  status = at->status();
  if (!status.ok()) return unreadable();
  if (base::Done done = (*importer)->finish(); !done) return std::move(done).problem();
  return report;
}

}  // namespace

base::Result<ImportReport> import_buckets(const std::string& dir, base::Time now,
                                          request::Spaces& spaces, const ToCounter& to_counter) {
  base::Result<ImportReport> report = import_into(dir, now, spaces, to_counter);
  base::Done given = disk::give_to_owner(dir, disk::store_of(dir));
  if (report && !given) return std::move(given).problem();
  return report;
}

// The command `sluice store import-limitd`, which imports limitd's buckets.

namespace {

int import_command(const protocol::StoreCall& call, config::CommandIo& io) {
  request::Spaces spaces;
  base::Diagnostics diagnostics;
  const auto rules =
      cli::inspect(*call.values[0], config::kind_named("limitd"), {}, spaces, diagnostics);
  tell(diagnostics, io);
  if (!rules) return config::exit_failure;
  const base::Time now = base::Clock().now();
  policy::Plan plan;
  const auto to_counter = [&](std::string_view type,
                              std::string_view key) -> std::optional<BucketCounter> {
    const request::Entry descriptor[] = {{"type", type}, {"key", key}};
    plan.clear();
    rules->match(&dialect, {.descriptor = descriptor, .now = now}, plan);
    const auto steps = plan.steps(plan.parts().front());
    if (steps.empty()) return std::nullopt;
    const policy::Rule& rule = *steps.back().rule;
    return BucketCounter{rule.space, rule.limits_id, rule.limits.front(),
                         plan.charge(steps.back()).key};
  };
  const base::Result<ImportReport> imported = import_buckets(call.dir, now, spaces, to_counter);
  if (!imported) return cli::fail(imported.problem().text, io);
  const ImportReport& r = *imported;
  if (call.json) {
    io.out << cli::to_text({{"imported", r.imported},
                            {"full", r.full},
                            {"there", r.there},
                            {"untyped", r.untyped},
                            {"unreadable", r.unreadable}})
           << std::flush;
    return config::exit_ok;
  }
  io.out << base::counted(r.imported, "bucket") << " imported\n";
  const auto also = [&](uint64_t count, const char* what) {
    if (count > 0) io.out << base::counted(count, "bucket") << ' ' << what << '\n';
  };
  also(r.full, "full, so there is nothing to keep of them");
  also(r.there, "skipped: the store has their counters already");
  also(r.untyped, "skipped: their types are not in the configuration");
  also(r.unreadable, "skipped: these entries are not buckets");
  io.out.flush();
  return config::exit_ok;
}

// Warns of a limitd database that has not been imported, because its buckets would start full.
void warn_of_database(const std::string& dir, const std::string& origin,
                      base::Diagnostics& diagnostics) {
  if (!has_database(dir) || disk::look(dir).condition != disk::Condition::absent) return;
  base::Diagnostic d;
  d.severity = base::Diagnostic::Severity::warning;
  d.subject = origin;
  d.message = "`" + base::printable(dir) +
              "` holds a database of limitd's, which is not read and not written; ours lies beside "
              "it, in its folder `sluice`, and begins empty";
  d.remedy = "to bring its buckets over, stop this server, run `sluice store import-limitd " +
             base::printable(dir) + " --config FILE` with limitd's configuration, and start again";
  diagnostics.push_back(std::move(d));
}

constexpr protocol::StoreOption import_options[] = {
    {"--config", "FILE", "limitd's configuration", "which names the types"}};

constexpr protocol::StoreTool tools[] = {
    {"import-limitd",
     "brings the buckets of limitd's own database in DIR into the store there;\n"
     "FILE is limitd's configuration, which names their types",
     import_options, import_command}};

}  // namespace

constinit const protocol::StoreTools store_tools = {tools, warn_of_database};

}  // namespace sluice::limitd
