#include <rocksdb/db.h>
#include <rocksdb/sst_file_reader.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/printable.h"
#include "disk/keys.h"
#include "disk/latest.h"
#include "disk/layout.h"
#include "disk/log_marks.h"
#include "disk/log_scan.h"
#include "disk/metadata_store.h"
#include "disk/offline.h"
#include "disk/owner.h"
#include "disk/tools.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

constexpr size_t repair_batch_bytes = size_t{1} << 20;

class Repair {
 public:
  explicit Repair(const std::string& dir) : store_(dir, spaces_) {}

  base::Result<RepairReport> run() {
    if (base::Done taken = store_.lock.take(store_.dir, false); !taken)
      return std::move(taken).problem();
    Look found = look(store_.dir);
    if (found.condition == Condition::absent || !fs::is_directory(store_of(store_.dir)))
      return base::Problem{"there is no store in `" + base::printable(store_.dir, 512) + "`"};
    if (found.condition == Condition::foreign) return std::move(found.problem);
    if (found.condition == Condition::damaged) note(std::move(found.problem.text));
    if (base::Done has = find_counters(); !has) return std::move(has).problem();
    Status status = mend_texts();
    if (status.ok()) status = mend_by_rocks(store_.blocks, "blocks", LogMarks::Of::blocks);
    if (status.ok()) status = mend_counters();
    if (status.ok())
      status = store_.blocks.use([&](rocksdb::DB& db) {
        std::string missing;
        const Status read = LogMarks(store_.dir).read(db, missing);
        if (!missing.empty()) note("blocks: " + missing);
        return read.ok() ? read_dictionary(db) : read;
      });
    if (status.ok())
      status = store_.counters.use([&](rocksdb::DB& db) { return drop_unreadable(db); });
    if (status.ok()) status = fold();
    if (!status.ok())
      return base::Problem{"the store in `" + base::printable(store_.dir, 512) +
                           "` cannot be repaired: " + text_of(status) + "; start on a backup"};
    report_.torn = store_.torn;
    if (base::Done done = write_format(store_of(store_.dir)); !done)
      return std::move(done).problem();
    return std::move(report_);
  }

 private:
  void note(std::string what) {
    if (report_.damages.size() < damages_max) report_.damages.push_back(std::move(what));
  }

  // Is it as it should be? Otherwise it is closed. One that is gone is made, empty.
  bool is_sound(Rocks& part, const std::string& name, std::optional<LogMarks::Of> logs) {
    std::error_code error;
    if (!fs::exists(part.path(), error)) {
      note(name + ": were gone, and are empty now");
      return part.open(true).ok();
    }
    std::string wrong;
    Status status = logs ? store_.open_logged(part, *logs, true, wrong) : part.open(false);
    if (!wrong.empty()) {
      note(name + ": " + wrong);
      return false;
    }
    if (status.ok()) status = part.use([](rocksdb::DB& db) { return db.VerifyChecksum(); });
    if (status.ok()) return true;
    part.close();
    note(name + ": " + text_of(status));
    return false;
  }

  // Of a part whose tables say which is the newer one.
  Status mend_by_rocks(Rocks& part, const std::string& name, LogMarks::Of logs) {
    if (is_sound(part, name, logs)) return Status::OK();
    const std::set<std::string> before = put_aside(part);
    const Status repaired = rocksdb::RepairDB(part.path(), part.options());
    if (!repaired.ok()) return repaired;
    for (const std::string& path : put_aside(part)) {
      if (!before.contains(path) && holds_lost(path))
        note(name + ": lost what " + fs::path(path).filename().string() + " held, or part of it");
    }
    return part.open(false);
  }

  // What RocksDB's repair has not left in its place.
  static std::set<std::string> put_aside(const Rocks& part) {
    std::set<std::string> all;
    std::error_code error;
    for (fs::directory_iterator at(part.path() + "/lost", error), end; !error && at != end;
         at.increment(error))
      all.insert(at->path().string());
    return all;
  }

  // Those are not only what it could not read: also every log, whose records are in a table then,
  // and what only names other files.
  static bool holds_lost(const std::string& path) {
    if (path.ends_with(".sst")) return true;
    LogScan scan;
    return path.ends_with(".log") && (scan_log(path, scan) != 0 || scan.end != LogScan::End::whole);
  }

  Status mend_texts() {
    Rocks& part = store_.texts;
    Status status = mend_by_rocks(part, "texts", LogMarks::Of::texts);
    if (!status.ok()) return status;
    status = part.use([&](rocksdb::DB& db) {
      LogMarks marks(store_.dir, LogMarks::Of::texts);
      std::string missing;
      Status step = marks.read(db, missing);
      if (!missing.empty()) note("texts: " + missing);
      if (step.ok())
        step = each_text(db, [&](std::string_view, std::string_view) { ++report_.texts; });
      if (step.ok()) step = marks.restart(db);
      return step.ok() ? db.Flush({}) : step;
    });
    part.close();
    return status;
  }

  // A repair may have been stopped between its two renames. A problem: only people can say which
  // counters are meant.
  base::Done find_counters() {
    std::error_code error;
    const std::string path = store_.counters.path(), fresh = path + ".new", old = path + ".lost";
    const bool has_fresh = fs::exists(fresh, error), has_old = fs::exists(old, error);
    if (fs::exists(path, error) || (!has_fresh && !has_old)) return {};
    // The old ones went there when the new ones were whole.
    if (has_fresh && has_old) {
      fs::rename(fresh, path, error);
      if (error)
        return base::Problem{"`" + base::printable(fresh, 512) +
                             "` cannot be renamed: " + error.message()};
      found_ = true;
      note(
          "counters: a repair was stopped before its end; what it had made of them is in place, "
          "the old ones are in " +
          old);
      return {};
    }
    return base::Problem{
        "`" + base::printable(path, 512) + "` is gone, and `" +
        base::printable(has_fresh ? fresh : old, 512) +
        (has_fresh ? "` holds what a repair had copied of it, or a part of that"
                   : "` holds what it was before a repair") +
        ": rename that to go on with it, or move it away to begin without counters"};
  }

  // RepairDB would not know which of two tables is the newer one, as ingested tables do not say.
  Status mend_counters() {
    Rocks& part = store_.counters;
    if (is_sound(part, "counters", std::nullopt)) return Status::OK();
    // Making new ones would remove the old ones.
    if (found_)
      return Status::Corruption(part.path() + ", as a repair has made it, is damaged",
                                "put the old one, " + part.path() + ".lost, in its place");
    std::multimap<uint64_t, std::string> tables;  // by the last block in them
    std::error_code error;
    for (fs::directory_iterator at(part.path(), error), end; !error && at != end;
         at.increment(error)) {
      const std::string path = at->path().string();
      if (path.ends_with(".sst")) tables.emplace(newest_in(path), path);
    }
    if (error) return Status::IOError(part.path(), error.message());
    const std::string fresh = part.path() + ".new", old = part.path() + ".lost";
    fs::remove_all(fresh, error);
    Rocks made(fresh, counters_options({}));
    Status status = made.open(true);
    for (const auto& [number, path] : tables) {
      if (!status.ok()) return status;
      status = made.use([&, &table = path](rocksdb::DB& db) { return copy_table(table, db); });
    }
    if (status.ok()) status = made.use([](rocksdb::DB& db) { return db.Flush({}); });
    made.close();
    if (!status.ok()) return status;
    fs::remove_all(old, error);
    fs::rename(part.path(), old, error);
    if (!error) fs::rename(fresh, part.path(), error);
    if (error) return Status::IOError(part.path(), error.message());
    if (const base::Done synced = sync_directory(store_of(store_.dir)); !synced)
      return Status::IOError(synced.problem().text);
    note("counters: rebuilt from " + std::to_string(tables.size()) +
         " tables; the old ones are in " + old);
    return part.open(false);
  }

  // 0: it does not say.
  uint64_t newest_in(const std::string& table) const {
    rocksdb::SstFileReader reader(store_.counters.options());
    if (!reader.Open(table).ok()) return 0;
    const std::unique_ptr<rocksdb::Iterator> at(reader.NewIterator({}));
    at->SeekToFirst();
    uint64_t number = 0;
    if (!at->Valid() || at->key() != folded_key) return 0;
    Input input(at->value().ToStringView());
    return input.varint(number) && input.done() ? number : 0;
  }

  // From both ends to where it is damaged.
  Status copy_table(const std::string& table, rocksdb::DB& db) {
    const std::string name = fs::path(table).filename().string();
    rocksdb::SstFileReader reader(store_.counters.options());
    Status status = reader.Open(table);
    if (!status.ok()) {
      note("counters: lost what " + name + " held: " + text_of(status));
      return Status::OK();
    }
    rocksdb::WriteOptions unlogged;
    unlogged.disableWAL = true;
    rocksdb::WriteBatch batch;
    const auto put = [&](const rocksdb::Iterator& at) {
      batch.Put(at.key(), at.value());
      if (batch.GetDataSize() < repair_batch_bytes) return Status::OK();
      const Status done = db.Write(unlogged, &batch);
      batch.Clear();
      return done;
    };
    const std::unique_ptr<rocksdb::Iterator> at(reader.NewIterator({}));
    std::string reached;
    for (at->SeekToFirst(); status.ok() && at->Valid(); at->Next()) {
      reached = at->key().ToString();
      status = put(*at);
    }
    if (status.ok() && !at->status().ok()) {
      note("counters: lost a part of what " + name + " held: " + text_of(at->status()));
      for (at->SeekToLast(); status.ok() && at->Valid() && at->key().ToStringView() > reached;
           at->Prev())
        status = put(*at);
    }
    return status.ok() ? db.Write(unlogged, &batch) : status;
  }

  // Numbers stay what they are: an entry that is lost has a stand-in, and what names it goes.
  Status read_dictionary(rocksdb::DB& db) {
    rocksdb::WriteBatch stand_ins;
    for (const bool is_space : {true, false}) {
      uint32_t last = 0;
      const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
      const std::string prefix = dictionary_key(is_space, 0).substr(0, 1);
      for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
        const uint32_t number = dictionary_number(at->key().ToStringView());
        if (number == 0 || number > last + 1'000'000) {
          stand_ins.Delete(at->key());
          note("blocks: an entry of the dictionary has no number");
          continue;
        }
        while (++last < number) stand_in(is_space, last, stand_ins);
        const std::string_view value = at->value().ToStringView();
        if (!(is_space ? store_.dictionary.load_space(number, value)
                       : store_.dictionary.load_limits(number, value)))
          stand_in(is_space, number, stand_ins);
      }
      if (!at->status().ok()) return at->status();
    }
    return db.Write(synced(), &stand_ins);
  }

  void stand_in(bool is_space, uint32_t number, rocksdb::WriteBatch& batch) {
    note("blocks: entry " + std::to_string(number) + " of the " + (is_space ? "spaces" : "limits") +
         " is lost, and the counters that name it");
    std::string value;
    if (is_space) {
      lost_spaces_.insert(number);
      request::Space space;
      space.prefix = "lost:" + std::to_string(number) + ":";
      append_space(value, space);
      SLUICE_CHECK(store_.dictionary.load_space(number, value));
    } else {
      // A limit without cells, which no counter's state fits.
      append_limits(value, std::vector<limit::Limit>(1));
      SLUICE_CHECK(store_.dictionary.load_limits(number, value));
    }
    batch.Put(dictionary_key(is_space, number), value);
  }

  bool readable(std::string_view key, std::string_view value) {
    Record record;
    return parse_key(key, stored_.space, stored_.key) && !lost_spaces_.contains(stored_.space) &&
           parse_value(value, stored_) && store_.dictionary.resolve(stored_, record);
  }

  Status drop_unreadable(rocksdb::DB& db) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
    uint64_t dropped = 0;
    Status status;
    for (at->Seek(first_counter_key); status.ok() && at->Valid(); at->Next()) {
      if (is_forgotten(at->value().ToStringView())) continue;
      if (readable(at->key().ToStringView(), at->value().ToStringView())) {
        ++report_.counters;
        continue;
      }
      ++dropped;
      status = db.Put({}, at->key(), forgotten_value);
    }
    if (dropped > 0) note("counters: dropped " + std::to_string(dropped) + " that cannot be read");
    return status.ok() ? at->status() : status;
  }

  // What the blocks say goes to the counters, as far as it can be read; then they go.
  Status fold() {
    const base::Hash hash;
    std::vector<std::string> blocks;
    Status status = store_.each_block([&](uint64_t number, std::string_view bytes) {
      blocks.push_back(readable_part(number, bytes));
      return Status::OK();
    });
    if (!status.ok()) return status;
    Latest latest(hash);
    for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
      if (at->empty()) continue;
      latest.open(*at);
      while (latest.step()) {
      }
    }
    latest.sort();
    uint64_t dropped = 0;
    status = store_.counters.use([&](rocksdb::DB& db) {
      rocksdb::WriteBatch batch;
      std::string value, old;
      Status put;
      for (size_t i = 0; put.ok() && i < latest.size(); ++i) {
        value.clear();
        const bool was = db.Get({}, latest.key(i), &old).ok() && !is_forgotten(old);
        if (latest.forgotten(i)) {
          batch.Put(latest.key(i), forgotten_value);
          if (was) --report_.counters;
        } else {
          latest.append_value(i, value);
          if (!readable(latest.key(i), value)) {
            ++dropped;
            continue;
          }
          batch.Put(latest.key(i), value);
          if (!was) ++report_.counters;
        }
        if (batch.GetDataSize() < repair_batch_bytes) continue;
        put = db.Write({}, &batch);
        batch.Clear();
      }
      if (put.ok()) put = db.Write(synced(), &batch);
      return put.ok() ? db.Flush({}) : put;
    });
    if (dropped > 0) note("blocks: dropped " + std::to_string(dropped) + " that cannot be read");
    if (!status.ok()) return status;
    return store_.blocks.use([&](rocksdb::DB& db) {
      Status gone = db.DeleteRange(synced(), db.DefaultColumnFamily(), "b", "c");
      if (gone.ok()) gone = LogMarks(store_.dir).restart(db);
      return gone.ok() ? db.Flush({}) : gone;
    });
  }

  std::string readable_part(uint64_t number, std::string_view bytes) {
    BlockReader reader(bytes);
    BlockWriter writer;
    while (reader.next(stored_))
      writer.add(stored_.space, stored_.limits, stored_.key, stored_.state(), stored_.forget_us);
    if (reader.sound()) return std::string(bytes);
    note("blocks: the end of block " + std::to_string(number) + " cannot be read and is lost");
    return writer.count() > 0 ? writer.take() : std::string();
  }

  static rocksdb::WriteOptions synced() {
    rocksdb::WriteOptions options;
    options.sync = true;
    return options;
  }

  RepairReport report_;
  request::Spaces spaces_;
  Offline store_;
  bool found_ = false;  // the counters are what another repair has made
  std::set<uint32_t> lost_spaces_;
  StoredCounter stored_;
};

}  // namespace

base::Result<RepairReport> repair(const std::string& dir) {
  base::Result<RepairReport> report = Repair(dir).run();
  base::Done given = give_to_owner(dir, store_of(dir));
  if (report && !given) return std::move(given).problem();
  return report;
}

}  // namespace sluice::disk
