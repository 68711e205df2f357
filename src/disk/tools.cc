#include "disk/tools.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/printable.h"
#include "disk/keys.h"
#include "disk/latest.h"
#include "disk/layout.h"
#include "disk/log_marks.h"
#include "disk/metadata_store.h"
#include "disk/offline.h"
#include "disk/owner.h"
#include "disk/rocks.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

void note(std::vector<std::string>& damages, std::string what) {
  if (damages.size() < damages_max) damages.push_back(std::move(what));
}

base::Problem unreadable(const std::string& dir, const Status& status) {
  return {"the store in `" + base::printable(dir, 512) + "` cannot be read: " + text_of(status) +
          "; look at it with `sluice store check DIR`"};
}

base::Problem no_store(const std::string& dir) {
  return {"there is no store in `" + base::printable(dir, 512) + "`"};
}

// "counters: counter 10.0.0.7"
std::string named(std::string_view part, std::string_view key) {
  return std::string(part) + ": counter `" + base::printable(key, 64) + "`";
}

}  // namespace

base::Done Offline::open(bool to_write) {
  if (base::Done taken = lock.take(dir, false); !taken) return taken;
  Look found = look(dir);
  if (found.condition == Condition::absent) return no_store(dir);
  if (found.condition != Condition::whole) return std::move(found.problem);
  std::string wrong;
  Status status = to_write ? counters.open(false) : counters.open_to_read();
  if (status.ok()) status = open_logged(blocks, LogMarks::Of::blocks, to_write, wrong);
  if (status.ok() && wrong.empty())
    status = blocks.use([&](rocksdb::DB& db) {
      const Status read = LogMarks(dir).read(db, wrong);
      return read.ok() && wrong.empty() ? read_dictionary(db, dictionary, wrong) : read;
    });
  if (status.ok() && !wrong.empty()) status = Status::Corruption(wrong);
  if (!status.ok()) return unreadable(dir, status);
  return {};
}

Status Offline::open_logged(Rocks& part, LogMarks::Of of, bool to_write, std::string& wrong) {
  LogMarks marks(dir, of);
  std::vector<TornLog> ends;
  int error = marks.look_at_ends(ends, wrong);
  if (!wrong.empty()) return Status::OK();
  for (const TornLog& log : ends) torn.push_back(marks.message_for(log));
  if (error == 0 && to_write) error = marks.cut(ends);
  if (error != 0) return Status::IOError(with_errno(part.path(), error));
  return to_write ? part.open(false) : part.open_to_read(ends);
}

Status Offline::open_texts(std::string& wrong) {
  const Status status = open_logged(texts, LogMarks::Of::texts, false, wrong);
  if (!status.ok() || !wrong.empty()) return status;
  return texts.use(
      [&](rocksdb::DB& db) { return LogMarks(dir, LogMarks::Of::texts).read(db, wrong); });
}

namespace {

// All of them, or why not.
Status read_texts(Offline& store, const VisitText& visit) {
  std::string wrong;
  const Status status = store.open_texts(wrong);
  if (!status.ok()) return status;
  if (!wrong.empty()) return Status::Corruption(wrong);
  return store.texts.use([&](rocksdb::DB& db) { return each_text(db, visit); });
}

}  // namespace

base::Result<StoreStats> stats(const std::string& dir) {
  request::Spaces spaces;
  Offline store(dir, spaces);
  if (base::Done opened = store.open(false); !opened) return std::move(opened).problem();
  StoreStats stats;
  stats.format = format_number;
  Status status = store.counters.use([&](rocksdb::DB& db) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = size_t{2} << 20;
    const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
    for (at->Seek(first_counter_key); at->Valid(); at->Next())
      if (!is_forgotten(at->value().ToStringView())) ++stats.folded;
    return at->status();
  });
  if (status.ok())
    status = store.each_block([&](uint64_t, std::string_view bytes) {
      ++stats.blocks;
      stats.block_counters += BlockReader(bytes).count();
      stats.block_bytes += bytes.size();
      return Status::OK();
    });
  if (status.ok())
    status = read_texts(store, [&](std::string_view, std::string_view) { ++stats.texts; });
  stats.spaces = store.dictionary.spaces();
  stats.limits = store.dictionary.lists();
  std::error_code error;
  for (fs::recursive_directory_iterator at(store_of(dir), error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (const auto bytes = at->file_size(gone); !gone) stats.bytes += bytes;
  }
  if (!status.ok()) return unreadable(dir, status);
  return stats;
}

base::Done dump(const std::string& dir, request::Spaces& spaces, const Visit& visit,
                const VisitText& visit_text) {
  Offline store(dir, spaces);
  if (base::Done opened = store.open(false); !opened) return opened;
  const base::Hash hash;
  Latest latest(hash);
  std::vector<std::string> blocks;
  Status status = store.each_block([&](uint64_t, std::string_view bytes) {
    blocks.emplace_back(bytes);
    return Status::OK();
  });
  if (!status.ok()) return unreadable(dir, status);
  for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
    latest.open(*at);
    while (latest.step()) {
    }
  }
  if (!latest.sound()) return unreadable(dir, Status::Corruption("a block cannot be read"));
  latest.sort();

  StoredCounter stored;
  Record record;
  const auto tell = [&](std::string_view key, std::string_view value) {
    if (!parse_key(key, stored.space, stored.key) || !parse_value(value, stored) ||
        !store.dictionary.resolve(stored, record))
      return Status::Corruption(named("counters", key) + " cannot be read");
    visit(record);
    return Status::OK();
  };
  size_t next = 0;
  std::string value;
  // Those of the blocks that come before `key`, or all.
  const auto visit_latest = [&](const std::string_view* key) {
    Status told;
    for (; told.ok() && next < latest.size() && (!key || latest.key(next) <= *key); ++next) {
      if (latest.forgotten(next)) continue;
      value.clear();
      latest.append_value(next, value);
      told = tell(latest.key(next), value);
    }
    return told;
  };
  status = store.counters.use([&](rocksdb::DB& db) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = size_t{2} << 20;
    const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
    for (at->Seek(first_counter_key); at->Valid(); at->Next()) {
      const std::string_view key = at->key().ToStringView();
      Status told = visit_latest(&key);
      if (!told.ok()) return told;
      if (next > 0 && latest.key(next - 1) == key) continue;
      if (is_forgotten(at->value().ToStringView())) continue;
      told = tell(key, at->value().ToStringView());
      if (!told.ok()) return told;
    }
    return at->status();
  });
  if (status.ok()) status = visit_latest(nullptr);
  if (status.ok() && visit_text) status = read_texts(store, visit_text);
  if (!status.ok()) return unreadable(dir, status);
  return {};
}

base::Result<CheckReport> check(const std::string& dir) {
  request::Spaces spaces;
  Offline store(dir, spaces);
  if (base::Done taken = store.lock.take(dir, false); !taken) return std::move(taken).problem();
  CheckReport report;
  Look found = look(dir);
  switch (found.condition) {
    case Condition::absent:
      return no_store(dir);
    case Condition::foreign:
      return std::move(found.problem);
    case Condition::damaged:
      note(report.damages, std::move(found.problem.text));
      return report;
    case Condition::whole:
      break;
  }
  std::string wrong;
  const auto is_open = [&](const Status& status, const char* name) {
    if (!status.ok()) note(report.damages, std::string(name) + ": " + text_of(status));
    if (!wrong.empty()) note(report.damages, std::string(name) + ": " + wrong);
    return status.ok() && std::exchange(wrong, {}).empty();
  };
  const bool has_counters = is_open(store.counters.open_to_read(), "counters");
  const bool has_blocks =
      is_open(store.open_logged(store.blocks, LogMarks::Of::blocks, false, wrong), "blocks");
  const Status texts = store.open_texts(wrong);
  const bool has_texts = is_open(texts, "texts");
  const auto look_through = [&](Rocks& part, const char* name, auto&& records) {
    for (const auto& step :
         {std::function<Status(rocksdb::DB&)>([](rocksdb::DB& db) { return db.VerifyChecksum(); }),
          std::function<Status(rocksdb::DB&)>(records)}) {
      const Status status = part.use(step);
      if (!status.ok()) note(report.damages, std::string(name) + ": " + text_of(status));
    }
  };
  StoredCounter stored;
  Record record;
  if (has_blocks) {
    look_through(store.blocks, "blocks", [&](rocksdb::DB& db) {
      wrong.clear();
      Status status = LogMarks(dir).read(db, wrong);
      if (!wrong.empty()) note(report.damages, "blocks: " + wrong);
      if (!status.ok()) return status;
      wrong.clear();
      status = read_dictionary(db, store.dictionary, wrong);
      if (!wrong.empty()) note(report.damages, "blocks: " + wrong);
      if (!status.ok()) return status;
      return each_block(db, [&](uint64_t number, std::string_view bytes) {
        ++report.blocks;
        BlockReader reader(bytes);
        while (reader.next(stored)) {
          ++report.block_counters;
          if (store.dictionary.resolve(stored, record)) continue;
          ++report.unreadable;
          note(report.damages, named("blocks", stored.key) + " does not fit what it names");
        }
        if (!reader.sound()) {
          ++report.unreadable;
          note(report.damages, "blocks: block " + std::to_string(number) + " cannot be read");
        }
        return Status::OK();
      });
    });
  }
  if (has_counters) {
    look_through(store.counters, "counters", [&](rocksdb::DB& db) {
      rocksdb::ReadOptions options;
      options.fill_cache = false;
      options.readahead_size = size_t{2} << 20;
      const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
      for (at->Seek(first_counter_key); at->Valid(); at->Next()) {
        if (is_forgotten(at->value().ToStringView())) continue;
        ++report.counters;
        if (parse_key(at->key().ToStringView(), stored.space, stored.key) &&
            parse_value(at->value().ToStringView(), stored) &&
            (!has_blocks || store.dictionary.resolve(stored, record)))
          continue;
        ++report.unreadable;
        note(report.damages, named("counters", at->key().ToStringView()) + " cannot be read");
      }
      return at->status();
    });
  }
  report.torn = store.torn;
  if (has_texts) {
    look_through(store.texts, "texts", [&](rocksdb::DB& db) {
      return each_text(db, [&](std::string_view, std::string_view) { ++report.texts; });
    });
  }
  return report;
}

base::Done backup(const std::string& dir, const std::string& target) {
  {
    // Opening would make a store where there is none.
    Lock lock;
    if (base::Done taken = lock.take(dir, false); !taken) return taken;
    Look found = look(dir);
    if (found.condition == Condition::absent) return no_store(dir);
    if (found.condition != Condition::whole) return std::move(found.problem);
  }
  base::Done done;
  {
    request::Spaces spaces;
    JournalOptions options;
    options.path = dir;
    options.now = [] { return base::Time{INT64_MIN}; };  // nothing is past its time
    auto journal = Journal::open(std::move(options), spaces);
    done = journal ? (*journal)->backup(target) : std::move(journal).problem();
  }
  base::Done given = give_to_owner(dir, store_of(dir));
  if (!done) return done;
  return given ? give_to_owner(dir, target) : given;
}

}  // namespace sluice::disk
