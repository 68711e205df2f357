#include "store/log/tools.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/printable.h"
#include "store/log/folder.h"
#include "store/log/log_journal.h"
#include "store/log/reading.h"
#include "store/log/snapshot.h"

namespace sluice::disk {

uint64_t pass_bytes = uint64_t{16} << 20;

namespace {

namespace fs = std::filesystem;

constexpr size_t import_commit_every = 100'000;
constexpr uint64_t import_log_bytes = uint64_t{16} << 20;

void note(std::vector<std::string>& damages, std::string what) {
  if (damages.size() < damages_max) damages.push_back(std::move(what));
}

base::Problem no_store(const std::string& dir) {
  return {"there is no store in " + quoted(dir)};
}

std::string name_of(const Record& record) {
  std::string name = record.space->prefix + '\0' + record.space->suffix + '\0';
  return name.append(record.key);
}

// A store as it is read as a whole: every block of counters, the oldest first, and the texts.
struct Source {
  explicit Source(std::string its_dir, request::Spaces& spaces)
      : dir(std::move(its_dir)), names(spaces) {}
  virtual ~Source() = default;

  using VisitCounters = std::function<base::Done(BlockCounters&, const std::string& place)>;
  // Of those of a snapshot only part `part` of `of` equal parts of the hashes need be visited.
  virtual base::Done each(size_t part, size_t of, const VisitCounters& visit) = 0;
  virtual base::Done each_text(const VisitText& visit) = 0;
  virtual uint64_t bytes() const = 0;

  const std::string dir;
  Names names;
};

// One that is whole.
struct SoundSource final : Source {
  using Source::Source;

  base::Done open(const Current& its_current) {
    current = its_current;
    if (current.snapshot != 0) {
      auto opened = SnapshotReader::open(system_files(), dir, current, names);
      if (!opened) return std::move(opened).problem();
      snapshot = *std::move(opened);
    }
    BlockCounters counters(names);
    uint64_t count = 0;
    auto read = read_logs(
        system_files(), dir, current, [&](const BlockFile& file, const Block& block) -> base::Done {
          if (block.type != BlockType::counters) return {};
          if (!counters.open(block.body) || !counters.knows_spaces())
            return base::Problem{damaged(dir, place_of(file, block.at) + " cannot be read")};
          count += counters.count();
          return {};
        });
    if (!read) return std::move(read).problem();
    logs = *std::move(read);
    logs.counters = count;
    return {};
  }

  base::Done each(size_t part, size_t of, const VisitCounters& visit) override {
    for (size_t i = 0; snapshot != nullptr && i < snapshot->blocks(); ++i) {
      if (!snapshot->may_have(i, part, of)) continue;
      base::Done done = snapshot->block(
          i, [&](BlockCounters& counters) { return visit(counters, "the snapshot"); });
      if (!done) return base::Problem{damaged(dir, done.problem().text)};
    }
    BlockCounters counters(names);
    return each_block(
        system_files(), dir, logs, [&](const BlockFile& file, const Block& block) -> base::Done {
          if (block.type != BlockType::counters) return {};
          if (!counters.open(block.body))
            return base::Problem{damaged(dir, place_of(file, block.at) + " cannot be read")};
          return visit(counters, place_of(file, block.at));
        });
  }

  base::Done each_text(const VisitText& visit) override {
    Texts texts;
    if (snapshot != nullptr)
      if (base::Done read = snapshot->texts([&](std::string_view name, std::string_view text) {
            texts.insert_or_assign(std::string(name), std::string(text));
          });
          !read)
        return base::Problem{damaged(dir, read.problem().text)};
    base::Done read = each_block(
        system_files(), dir, logs, [&](const BlockFile& file, const Block& block) -> base::Done {
          if (block.type != BlockType::texts || read_texts(block.body, texts)) return {};
          return base::Problem{damaged(dir, place_of(file, block.at) + " cannot be read")};
        });
    if (!read) return read;
    for (const auto& [name, text] : texts)
      if (text) visit(name, *text);
    return {};
  }

  uint64_t bytes() const override {
    return logs.bytes() + (snapshot != nullptr ? snapshot->bytes() : 0);
  }

  Current current;
  std::unique_ptr<SnapshotReader> snapshot;
  Logs logs;
};

// Calls `visit` with the latest state of each counter.
base::Done each_counter(Source& source, const Visit& visit,
                        const std::function<void(const std::string&)>& unreadable) {
  struct Latest {
    const request::Space* space;
    uint32_t limits_id;
    int64_t forget_us;
    std::vector<limit::State> cells;
  };
  const size_t passes = std::bit_ceil(static_cast<size_t>(source.bytes() / pass_bytes + 1));
  for (size_t pass = 0; pass < passes; ++pass) {
    std::unordered_map<std::string, Latest> latest;
    std::unordered_map<const request::Space*, uint64_t> hashes;
    base::Done read =
        source.each(pass, passes, [&](BlockCounters& counters, const std::string& place) {
          Record record;
          while (counters.next()) {
            if (!counters.resolve(record)) {
              if (pass == 0)
                unreadable(place + ": counter `" + base::printable(counters.stored().key, 64) +
                           "` does not fit what it names");
              continue;
            }
            const auto [hash, is_new] = hashes.try_emplace(record.space);
            if (is_new) hash->second = hash_of(*record.space);
            const uint64_t its = hash_of(hash->second, base::digest(record.key));
            if (passes > 1 && its >> (64 - std::countr_zero(passes)) != pass) continue;
            latest.insert_or_assign(name_of(record),
                                    Latest{record.space,
                                           record.limits_id,
                                           record.forget_us,
                                           {record.cells.begin(), record.cells.end()}});
          }
          if (!counters.sound() && pass == 0) unreadable(place + " cannot be read to its end");
          return base::Done();
        });
    if (!read) return read;
    for (const auto& [name, its] : latest) {
      const size_t before = its.space->prefix.size() + its.space->suffix.size() + 2;
      if (its.cells.empty()) continue;
      visit({.space = its.space,
             .limits_id = its.limits_id,
             .key = std::string_view(name).substr(before),
             .cells = its.cells,
             .forget_us = its.forget_us});
    }
  }
  return {};
}

// Opens a store that is whole, or says why it is not.
base::Result<std::unique_ptr<SoundSource>> open_sound(const std::string& dir,
                                                      request::Spaces& spaces, Lock& lock) {
  if (base::Done taken = lock.take(dir, false); !taken) return std::move(taken).problem();
  Look found = look(dir);
  if (found.condition == Condition::absent) return no_store(dir);
  if (found.condition != Condition::whole) return std::move(found.problem);
  auto source = std::make_unique<SoundSource>(dir, spaces);
  if (base::Done opened = source->open(found.current); !opened) return std::move(opened).problem();
  return source;
}

uint64_t bytes_of(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code error, gone;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    if (const auto its = at->file_size(gone); !gone) bytes += its;
  return bytes;
}

// Leaves in place of all that the source has one snapshot and an empty log. `next`: with what stays
// of CURRENT. Counts the counters and texts that it wrote.
base::Done rewrite(Source& source, request::Spaces& spaces, Current next, uint64_t snapshot,
                   uint64_t log, uint64_t position, uint64_t& counters, uint64_t& texts,
                   const std::function<void(const std::string&)>& unreadable) {
  Files& files = system_files();
  SnapshotWriter writer(files, spaces, source.dir, next.store, snapshot, source.bytes() / 32,
                        false);
  if (base::Done read = source.each_text([&](std::string_view name, std::string_view text) {
        writer.add_text(name, text);
        ++texts;
      });
      !read)
    return read;
  base::Done read = each_counter(
      source,
      [&](const Record& record) {
        writer.add(record);
        ++counters;
      },
      unreadable);
  if (!read) return read;
  if (base::Done finished = writer.finish(next); !finished) return finished;
  next.reader = std::string(format_since);
  next.log = log;
  WrittenBlock block(BlockType::begin);
  block.body += text_of(FileBegin{.store = next.store, .previous = 0, .position = position});
  block.seal(mark_of(next.store, log), position);
  const std::string store = store_of(source.dir);
  const std::string name = fs::path(log_of(source.dir, log)).filename().string();
  if (base::Done done = write_whole(files, store, name, block.body); !done) return done;
  const Synced synced{next.store, log, position + block.body.size()};
  // In this order: until CURRENT is there, SYNCED of the old logs must not ask for the new one.
  if (base::Done done = write_whole(files, store, "CURRENT", text_of(next)); !done) return done;
  if (base::Done done = write_whole(files, store, std::string(synced_name), text_of(synced)); !done)
    return done;
  remove_unread(files, source.dir, next);
  return give_to_owner(source.dir, store);
}

uint64_t last_of(const base::Result<std::vector<uint64_t>>& numbers, uint64_t least) {
  return numbers && !numbers->empty() ? std::max(least, numbers->back()) : least;
}

// What can be read of one that is damaged: each block of each file that checks.
struct DamagedSource final : Source {
  using Source::Source;

  // Chooses the files. `its`: what is known of CURRENT.
  void open(const std::optional<Current>& its, std::vector<std::string>& damages) {
    const auto all_logs = numbers_of(dir, log_kind), all_snapshots = numbers_of(dir, snapshot_kind);
    if (all_logs) logs = *all_logs;
    if (all_snapshots) snapshots = *all_snapshots;
    if (its) {
      std::erase_if(logs, [&](uint64_t number) { return number < its->log; });
      std::erase_if(snapshots, [&](uint64_t number) { return number != its->snapshot; });
      if (its->snapshot != 0 && snapshots.empty())
        note(damages, quoted(snapshot_of(dir, its->snapshot)) +
                          " is missing: the counters that it had are lost");
    }
    if (its) store = its->store;
    for (size_t i = 0; store == 0 && i < snapshots.size(); ++i)
      find_store(snapshot_of(dir, snapshots[i]), snapshots[i]);
    for (size_t i = 0; store == 0 && i < logs.size(); ++i)
      find_store(log_of(dir, logs[i]), logs[i]);
    if (store == 0)
      if (const auto synced = read_synced(system_files(), dir); synced && *synced)
        store = (*synced)->store;
    told = &damages;
  }

  // Of which store a file is, as its first block says.
  void find_store(const std::string& path, uint64_t number) {
    BlockFile file(system_files(), path, 0, number);
    Block block;
    FileBegin begin;
    if (file.open() == 0 && file.read_begin(block, begin) == BlockFile::Read::block)
      store = begin.store;
  }

  base::Done each(size_t part, size_t, const VisitCounters& visit) override {
    return each_good([&](const BlockFile& file, const Block& block) -> base::Done {
      if (block.type != BlockType::counters) return {};
      BlockCounters counters(names);
      if (counters.open(block.body)) return visit(counters, place_of(file, block.at));
      if (part == 0) note(*told, place_of(file, block.at) + " cannot be read");
      return {};
    });
  }

  base::Done each_text(const VisitText& visit) override {
    Texts texts;
    tells = true;
    base::Done read = each_good([&](const BlockFile&, const Block& block) -> base::Done {
      // As far as it can be read.
      if (block.type == BlockType::texts) read_texts(block.body, texts);
      return {};
    });
    tells = false;
    for (const auto& [name, text] : texts)
      if (text) visit(name, *text);
    return read;
  }

  uint64_t bytes() const override { return bytes_of(store_of(dir)); }

  base::Done each_good(const std::function<base::Done(const BlockFile&, const Block&)>& visit) {
    for (const uint64_t number : snapshots)
      if (base::Done done = good_of(snapshot_of(dir, number), number, UINT64_MAX, visit); !done)
        return done;
    for (size_t i = 0; i < logs.size(); ++i)
      if (base::Done done = good_of(log_of(dir, logs[i]), logs[i], stop_of(i), visit); !done)
        return done;
    return {};
  }

  // Where a log ends, as the next one says.
  uint64_t stop_of(size_t i) {
    FileBegin its, next;
    if (i + 1 < logs.size() && begin_of(logs[i], its) && begin_of(logs[i + 1], next) &&
        next.previous == logs[i] && next.position > its.position)
      return next.position - its.position;
    return UINT64_MAX;
  }
  bool begin_of(uint64_t number, FileBegin& begin) {
    BlockFile file(system_files(), log_of(dir, number), store, number);
    Block block;
    return file.open() == 0 && file.read_begin(block, begin) == BlockFile::Read::block &&
           begin.store == store;
  }

  base::Done good_of(const std::string& path, uint64_t number, uint64_t stop,
                     const std::function<base::Done(const BlockFile&, const Block&)>& visit) {
    BlockFile file(system_files(), path, store, number);
    if (const int error = file.open(); error != 0) {
      if (tells) note(*told, with_errno(quoted(path) + " cannot be read", error));
      return {};
    }
    Block block;
    stop = std::min(stop, file.size());
    for (uint64_t at = 0; at < stop; at = block.next) {
      const auto read = file.read(at, block, stop);
      if (read == BlockFile::Read::failed) {
        if (tells) note(*told, with_errno(place_of(file, at) + " cannot be read", file.error()));
        return {};
      }
      if (read != BlockFile::Read::block) {
        const uint64_t next = file.find(at + 1, block);
        if (tells)
          note(*told, place_of(file, at) + ": " + std::to_string(next - at) +
                          " bytes are not as they were written, and are lost");
        at = next;
        if (at >= stop || file.read(at, block, stop) != BlockFile::Read::block) return {};
      }
      if (base::Done done = visit(file, block); !done) return done;
    }
    return {};
  }

  uint64_t store = 0;  // its id
  std::vector<uint64_t> logs, snapshots;
  std::vector<std::string>* told = nullptr;
  bool tells = false;
};

}  // namespace

base::Result<StoreStats> stats(const std::string& dir) {
  request::Spaces spaces;
  Lock lock;
  auto opened = open_sound(dir, spaces, lock);
  if (!opened) return std::move(opened).problem();
  SoundSource& source = **opened;
  StoreStats stats{.format = format_number,
                   .log_blocks = source.logs.blocks,
                   .log_counters = source.logs.counters,
                   .log_bytes = source.logs.bytes(),
                   .bytes = bytes_of(store_of(dir))};
  if (source.snapshot != nullptr) {
    stats.snapshot_counters = source.snapshot->counters();
    stats.snapshot_bytes = source.snapshot->bytes();
  }
  base::Done read = source.each_text([&](std::string_view, std::string_view) { ++stats.texts; });
  if (!read) return std::move(read).problem();
  return stats;
}

base::Done dump(const std::string& dir, request::Spaces& spaces, const Visit& visit,
                const VisitText& visit_text) {
  Lock lock;
  auto opened = open_sound(dir, spaces, lock);
  if (!opened) return std::move(opened).problem();
  std::string wrong;
  base::Done read = each_counter(**opened, visit, [&](const std::string& what) { wrong = what; });
  if (read && !wrong.empty()) return base::Problem{damaged(dir, wrong)};
  if (read && visit_text) read = (*opened)->each_text(visit_text);
  return read;
}

base::Result<CheckReport> check(const std::string& dir) {
  request::Spaces spaces;
  Lock lock;
  if (base::Done taken = lock.take(dir, false); !taken) return std::move(taken).problem();
  CheckReport report;
  Look found = look(dir);
  if (found.condition == Condition::absent) return no_store(dir);
  if (found.condition == Condition::foreign) return std::move(found.problem);
  if (found.condition == Condition::damaged) {
    note(report.damages, std::move(found.problem.text));
    return report;
  }
  SoundSource source(dir, spaces);
  if (base::Done opened = source.open(found.current); !opened) {
    note(report.damages, std::move(opened).problem().text);
    return report;
  }
  report.blocks = source.logs.blocks;
  report.block_counters = source.logs.counters;
  report.torn = source.logs.torn;
  const auto look_at = [&](BlockCounters& counters, const std::string& place) {
    Record record;
    while (counters.next()) {
      if (counters.resolve(record)) continue;
      ++report.unreadable;
      note(report.damages, place + ": counter `" + base::printable(counters.stored().key, 64) +
                               "` does not fit what it names");
    }
    if (!counters.sound()) {
      ++report.unreadable;
      note(report.damages, place + " cannot be read to its end");
    }
    return base::Done();
  };
  if (source.snapshot != nullptr) {
    report.counters = source.snapshot->counters();
    for (size_t i = 0; i < source.snapshot->blocks(); ++i) {
      base::Done read = source.snapshot->block(
          i, [&](BlockCounters& counters) { return look_at(counters, "the snapshot"); });
      if (!read) note(report.damages, std::move(read).problem().text);
    }
  }
  BlockCounters counters(source.names);
  base::Done read = each_block(system_files(), dir, source.logs,
                               [&](const BlockFile& file, const Block& block) -> base::Done {
                                 if (block.type != BlockType::counters) return {};
                                 counters.open(block.body);
                                 return look_at(counters, place_of(file, block.at));
                               });
  if (read) read = source.each_text([&](std::string_view, std::string_view) { ++report.texts; });
  if (!read) note(report.damages, std::move(read).problem().text);
  return report;
}

base::Result<RepairReport> repair(const std::string& dir) {
  request::Spaces spaces;
  Lock lock;
  if (base::Done taken = lock.take(dir, false); !taken) return std::move(taken).problem();
  RepairReport report;
  Look found = look(dir);
  if (found.condition == Condition::absent) return no_store(dir);
  if (found.condition == Condition::foreign) return std::move(found.problem);
  const auto unreadable = [&](const std::string& what) { note(report.damages, what); };
  std::optional<Current> current;
  if (found.condition == Condition::whole) {
    current = found.current;
    SoundSource source(dir, spaces);
    base::Done opened = source.open(*current);
    if (opened)
      opened = source.each(0, 1, [](BlockCounters& counters, const std::string& place) {
        Record record;
        while (counters.next())
          if (!counters.resolve(record)) return base::Done(base::Problem{place + " has damage"});
        return counters.sound() ? base::Done() : base::Problem{place + " cannot be read"};
      });
    if (opened) opened = source.each_text([](std::string_view, std::string_view) {});
    report.torn = source.logs.torn;
    if (opened) {
      base::Done done = rewrite(source, spaces, *current,
                                last_of(numbers_of(dir, snapshot_kind), current->snapshot) + 1,
                                last_of(numbers_of(dir, log_kind), current->log) + 1,
                                source.logs.end(), report.counters, report.texts, unreadable);
      if (!done) return std::move(done).problem();
      return report;
    }
    note(report.damages, std::move(opened).problem().text);
  } else {
    note(report.damages, std::move(found.problem.text));
    if (!fs::is_directory(store_of(dir))) return base::Problem{report.damages.front()};
  }
  // The damaged files stay, as links, until somebody removes them.
  std::string aside = store_of(dir) + ".damaged";
  std::error_code error;
  for (int n = 2; fs::exists(aside, error); ++n)
    aside = store_of(dir) + ".damaged." + std::to_string(n);
  const std::string unfinished = store_of(dir) + ".damaged.new";
  fs::remove_all(unfinished, error);
  fs::copy(store_of(dir), unfinished,
           fs::copy_options::recursive | fs::copy_options::create_hard_links, error);
  if (!error) fs::rename(unfinished, aside, error);
  if (error)
    return base::Problem{"the damaged store cannot be put aside as " + disk::quoted(aside) + ": " +
                         error.message()};
  DamagedSource source(dir, spaces);
  source.open(current, report.damages);
  if (!current) {
    current.emplace();
    if (::getrandom(&current->store, sizeof current->store, 0) != sizeof current->store)
      return base::Problem{with_errno("no random number for a new store", errno)};
  }
  // A position that is behind all that the logs of before could have been.
  const uint64_t position = uint64_t{1} << 62;
  base::Done done = rewrite(source, spaces, *current,
                            last_of(numbers_of(dir, snapshot_kind), current->snapshot) + 1,
                            last_of(numbers_of(dir, log_kind), current->log) + 1, position,
                            report.counters, report.texts, unreadable);
  if (!done) return std::move(done).problem();
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

Importer::~Importer() = default;

base::Result<std::unique_ptr<Importer>> Importer::open(const std::string& dir, base::Time now,
                                                       request::Spaces& spaces) {
  JournalOptions options;
  options.path = dir;
  options.sync = true;
  options.offline = true;
  options.now = [now] { return now; };
  auto journal = Journal::open(std::move(options), spaces);
  if (!journal) return std::move(journal).problem();
  std::unique_ptr<Importer> importer(new Importer(*std::move(journal), dir, spaces));
  base::Done read = importer->journal_->replay([&](const Record& record) {
    importer->logged_[name_of(record)] = !record.cells.empty() && record.forget_us > now.us;
  });
  if (!read) return std::move(read).problem();
  return importer;
}

base::Result<Importer::Added> Importer::add(const request::Space& space, uint32_t limits_id,
                                            std::string_view key, const limit::State& state) {
  const int64_t keep_us = space.keep_fresh_for.us;
  const Record record{
      &space,
      limits_id,
      key,
      {&state, 1},
      state.fresh_at_us > INT64_MAX - keep_us ? INT64_MAX : state.fresh_at_us + keep_us};
  const auto logged = logged_.find(name_of(record));
  if (logged == logged_.end()) {
    const auto found = journal_->find(space, key, [](const Record&) {});
    if (found == Journal::Found::failed)
      return base::Problem{"the store in " + quoted(dir_) + " cannot be read"};
    if (found == Journal::Found::yes) return Added::there;
  } else if (logged->second) {
    return Added::there;
  }
  journal_->add(record);
  if (journal_->pending() >= import_commit_every)
    if (base::Done done = journal_->commit(); !done) return std::move(done).problem();
  return Added::yes;
}

base::Done Importer::finish() {
  if (base::Done done = journal_->commit(); !done) return done;
  const bool is_large = journal_->stats().log_bytes > import_log_bytes;
  journal_.reset();
  if (!is_large) return {};
  Lock lock;
  auto opened = open_sound(dir_, spaces_, lock);
  if (!opened) return std::move(opened).problem();
  SoundSource& source = **opened;
  uint64_t counters = 0, texts = 0;
  return rewrite(source, spaces_, source.current,
                 last_of(numbers_of(dir_, snapshot_kind), source.current.snapshot) + 1,
                 last_of(numbers_of(dir_, log_kind), source.current.log) + 1, source.logs.end(),
                 counters, texts, [](const std::string&) {});
}

}  // namespace sluice::disk
