#include "disk/rocks_journal.h"

#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "disk/copy_place.h"
#include "disk/keys.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

// A block that is larger is committed in parts, as are many blocks that have piled up.
constexpr size_t open_block_bytes = size_t{2} << 20;
constexpr size_t batch_bytes = size_t{8} << 20;

constexpr int64_t mend_interval_us = 500'000;

int64_t monotonic_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string why_not_open(const std::string& dir, const Status& status) {
  if (!status.IsCorruption() && !status.IsNotFound() && !status.IsInvalidArgument())
    return "the store in " + quoted(dir) + " cannot be opened: " + text_of(status);
  return damaged(dir, text_of(status));
}

// Of a database whose log nothing is put into: each opening leaves one.
void remove_empty_logs(const std::string& path) {
  std::error_code error, left;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".log" && at->is_regular_file(left) && at->file_size(left) == 0)
      fs::remove(at->path(), left);
}

size_t count_logs(const std::string& path) {
  std::error_code error;
  size_t logs = 0;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".log") ++logs;
  return logs;
}

// Makes an empty store: elsewhere, so that one that is there is whole.
base::Done make_store(const std::string& dir) {
  const std::string fresh = dir + "/sluice.new";
  std::error_code error;
  fs::remove_all(fresh, error);
  if (!error) fs::create_directory(fresh, error);
  if (error)
    return base::Problem{"the directory " + quoted(fresh) + " cannot be made: " + error.message()};
  fs::permissions(fresh, fs::perms::owner_all, error);
  Rocks counters(fresh + "/counters", counters_options({})),
      blocks(fresh + "/blocks", blocks_options()), texts(fresh + "/texts", texts_options());
  Status status = counters.open(true);
  if (status.ok()) status = blocks.open(true);
  if (status.ok()) status = texts.open(true);
  if (!status.ok())
    return base::Problem{"a store cannot be made in " + quoted(dir) + ": " + text_of(status)};
  return write_format(fresh);
}

}  // namespace

base::Result<std::unique_ptr<Journal>> Journal::open(JournalOptions options,
                                                     request::Spaces& spaces) {
  SLUICE_CHECK(options.now != nullptr);
  auto journal = std::make_unique<RocksJournal>(std::move(options), spaces);
  if (base::Done done = journal->open(); !done) return std::move(done).problem();
  return std::unique_ptr<Journal>(std::move(journal));
}

RocksJournal::RocksJournal(JournalOptions options, request::Spaces& spaces, const Folding& folding)
    : options_(std::move(options)),
      when_(folding),
      dictionary_(spaces, folding.numbers_min),
      blocks_(blocks_of(options_.path), blocks_options()),
      counters_(counters_of(options_.path), counters_options(options_.now)),
      metadata_(options_.path, options_.sync),
      marks_(options_.path),
      idle_latest_(hash_),
      latest_(hash_) {}

base::Done RocksJournal::open() {
  const std::string& dir = options_.path;
  if (base::Done taken = lock_.take(dir, true); !taken) return taken;
  Look found = look(dir);
  if (found.condition == Condition::foreign || found.condition == Condition::damaged)
    return std::move(found.problem);
  if (found.condition == Condition::absent) {
    if (base::Done made = make_store(dir); !made) return made;
    std::error_code error;
    fs::rename(dir + "/sluice.new", store_of(dir), error);
    if (error) return base::Problem{quoted(store_of(dir)) + " cannot be made: " + error.message()};
    if (base::Done synced = sync_directory(dir); !synced) return synced;
  }

  std::string wrong;
  Status status = cut_ends(LogMarks::Of::blocks, wrong);
  if (status.ok() && wrong.empty()) status = cut_ends(LogMarks::Of::texts, wrong);
  if (status.ok() && wrong.empty()) {
    remove_empty_logs(counters_.path());
    status = counters_.open_or_read();
  }
  if (status.ok() && wrong.empty()) status = blocks_.open_or_read();
  if (status.ok() && wrong.empty())
    status = counters_.use([&](rocksdb::DB& db) { return read_folded(db, folded_number_); });
  if (status.ok() && wrong.empty()) {
    status = blocks_.use([&](rocksdb::DB& db) {
      // First, as what is missing is why other things are not understood.
      Status read = marks_.read(db, wrong);
      if (read.ok() && wrong.empty()) read = read_dictionary(db, dictionary_, wrong);
      if (read.ok() && wrong.empty()) read = read_epoch(db, epoch_);
      uint64_t last = 0;
      if (read.ok() && wrong.empty()) read = read_last_block(db, last);
      // What was repaired may have lost it, and no block may be taken for one that is folded.
      epoch_ = std::max({epoch_, epoch_of(folded_number_), epoch_of(last)}) + 1;
      return read;
    });
  }
  if (status.ok() && wrong.empty()) status = metadata_.open(wrong);
  // Each start begins a log. What many of them hold goes to one table; not before it is known that
  // nothing is damaged, as a start on what is damaged changes nothing.
  if (status.ok() && wrong.empty() && !blocks_.has_failed() &&
      count_logs(blocks_.path()) > base::bounds::block_logs_max)
    status = blocks_.shed_logs();
  if (status.ok() && wrong.empty()) status = begin();
  if (!wrong.empty()) status = Status::Corruption(wrong);
  if (!status.ok() && !(begun_ || is_disk_trouble(status)))
    return base::Problem{why_not_open(dir, status)};
  next_number_ = first_number(epoch_);
  return {};
}

// What a power cut, a kill or a full disk left at the ends of the logs.
Status RocksJournal::cut_ends(LogMarks::Of of, std::string& wrong) {
  LogMarks marks(options_.path, of);
  std::vector<TornLog> torn;
  int error = marks.look_at_ends(torn, wrong);
  if (error == 0 && wrong.empty()) error = marks.cut(torn);
  if (error != 0) return Status::IOError(with_errno("the logs of " + options_.path, error));
  if (!wrong.empty() || !options_.tell) return Status::OK();
  for (const TornLog& log : torn) options_.tell(marks.message_for(log));
  return Status::OK();
}

// What is written before the first commit; while the disk is full it waits for that.
Status RocksJournal::begin() {
  const Status status = blocks_.use([&](rocksdb::DB& db) {
    const Status put = db.Put({}, epoch_key, epoch_value(epoch_));
    return put.ok() ? marks_.mark(db) : put;
  });
  begun_ = status.ok();
  return status;
}

void RocksJournal::add(const Record& record) {
  writer_.add(dictionary_.number_of(*record.space), dictionary_.number_of_limits(record.limits_id),
              record.key, record.cells, record.forget_us);
  if (writer_.bytes() >= open_block_bytes) [[unlikely]]
    close_block();
}

void RocksJournal::close_block() {
  // Without memory for it the block goes on.
  if (full_.size() == full_.capacity()) full_.reserve(2 * full_.size() + 1);
  const auto count = writer_.count();
  full_.push_back(writer_.take());
  full_count_ += count;
  full_bytes_ += full_.back().size();
  std::string spare;
  {
    const std::lock_guard lock(mutex_);
    if (!spares_.empty()) {
      spare = std::move(spares_.back());
      spares_.pop_back();
    }
  }
  writer_.give(std::move(spare));
  // What cannot be committed is kept, each counter once.
  if (full_bytes_ >= 2 * (shrunk_bytes_ + 4 * batch_bytes)) shrink();
}

void RocksJournal::shrink() {
  Latest latest(hash_);
  for (auto at = full_.rbegin(); at != full_.rend(); ++at) {
    latest.open(*at);
    while (latest.step()) {
    }
  }
  SLUICE_CHECK(latest.sound());
  std::vector<std::string> full;
  BlockWriter writer;
  std::string value;
  StoredCounter counter;
  full_count_ = latest.size();
  full_bytes_ = 0;
  const auto close = [&] {
    full.push_back(writer.take());
    full_bytes_ += full.back().size();
  };
  for (size_t i = 0; i < latest.size(); ++i) {
    SLUICE_CHECK(parse_key(latest.key(i), counter.space, counter.key));
    counter.cell_count = 0;
    value.clear();
    if (!latest.forgotten(i)) {
      latest.append_value(i, value);
      SLUICE_CHECK(parse_value(value, counter));
    }
    writer.add(counter.space, counter.limits, counter.key, counter.state(), counter.forget_us);
    if (writer.bytes() >= open_block_bytes) close();
  }
  if (writer.count() > 0) close();
  full_.swap(full);
  shrunk_bytes_ = full_bytes_;
}

base::Done RocksJournal::commit() {
  if (writer_.count() > 0) close_block();
  while (!full_.empty()) {
    size_t blocks = 0, bytes = 0;
    while (blocks < full_.size() && bytes + full_[blocks].size() <= batch_bytes)
      bytes += full_[blocks++].size();
    if (blocks == 0) bytes = full_[blocks++].size();  // of one enormous key
    if (base::Done room = wait_for_room(bytes); !room) return room;
    if (base::Done done = attempt([&] { return write(blocks); }); !done) return done;
    committed(blocks);
  }
  shrunk_bytes_ = 0;
  begin_round();
  return {};
}

// If it is worth its time.
void RocksJournal::begin_round() {
  Round round = round_.load();
  if (round == Round::given_up) {
    dictionary_.put_off_round();
    round_.store(round = Round::none);
  }
  if (round != Round::none || !loaded_.load() || !dictionary_.wants_round()) return;
  dictionary_.begin_round();
  {
    const std::lock_guard lock(mutex_);
    round_end_ = next_number_;
    round_.store(Round::folding);
  }
  call();
}

void RocksJournal::all_is_loaded() {
  dictionary_.all_is_loaded();
  loaded_.store(true);
}

base::Done RocksJournal::try_to_write() {
  if (begun_) return {};
  return attempt([this] { return begin(); });
}

void RocksJournal::note_cause(const Status& status) {
  if (status.ok())
    cause_.clear();
  else if (cause_.empty() || names_cause(status))
    cause_ = text_of(status);
}

// Once more, if it fails and what has failed can be recovered.
template <class Call>
base::Done RocksJournal::attempt(Call&& call) {
  Status status = call();
  note_cause(status);
  if (!status.ok() && monotonic_us() - mended_us_ >= mend_interval_us) {
    mended_us_ = monotonic_us();
    if (blocks_.recover().ok()) status = call();
    note_cause(status);
  }
  if (status.ok()) return {};
  ++failures_count_;
  return base::Problem{"a commit to the store in " + quoted(options_.path) + " failed: " + cause_};
}

base::Done RocksJournal::wait_for_room(size_t bytes) {
  std::unique_lock lock(mutex_);
  while (folding_ && !unfolded_.empty() && unfolded_bytes_ + bytes > when_.bytes_max) {
    if (!fold_problem_.empty()) return base::Problem{fold_problem_};
    urgent_ = true;
    call();
    folded_.wait(lock);
  }
  return {};
}

Status RocksJournal::write(size_t blocks) {
  if (!begun_) {
    if (Status status = begin(); !status.ok()) return status;
  }
  batch_.Clear();
  for (const auto& entry : dictionary_.fresh())
    batch_.Put(dictionary_key(entry.is_space, entry.number), entry.value);
  if (failed_from_) batch_.DeleteRange(BlockKey(*failed_from_), BlockKey(next_number_));
  for (size_t i = 0; i < blocks; ++i) batch_.Put(BlockKey(next_number_ + i), full_[i]);
  rocksdb::WriteOptions options;
  // Folded counters are on the medium soon, so what their numbers mean has to be as well.
  options.sync = options_.sync || !dictionary_.fresh().empty();
  const Status status = blocks_.use([&](rocksdb::DB& db) {
    if (!options.sync) return db.Write(options, &batch_);
    const std::lock_guard lock(appending_);
    const Status written = db.Write(options, &batch_);
    if (written.ok()) marks_.synced(db);
    return written;
  });
  if (!status.ok()) {
    // It may be there all the same, and come back at a start: then what replaces it removes it.
    if (!failed_from_) failed_from_ = next_number_;
    next_number_ += blocks;
  }
  return status;
}

void RocksJournal::committed(size_t blocks) {
  dictionary_.all_are_committed();
  failed_from_.reset();
  bool wanted;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < blocks; ++i) {
      const size_t bytes = full_[i].size();
      const size_t count = BlockReader(full_[i]).count();
      ++blocks_count_;
      counters_count_ += count;
      bytes_count_ += bytes;
      unfolded_bytes_ += bytes;
      full_bytes_ -= bytes;
      full_count_ -= count;
      unfolded_.push_back({next_number_++, std::move(full_[i])});
    }
    if (unfolded_bytes_ >= when_.urgent_bytes) urgent_ = true;
    wanted = wants_fold();
  }
  full_.erase(full_.begin(), full_.begin() + static_cast<ptrdiff_t>(blocks));
  if (wanted) call();
}

base::Done RocksJournal::read_blocks() {
  SLUICE_CHECK(!replayed_ && !folding_);
  const Status status = blocks_.use([&](rocksdb::DB& db) {
    return each_block(db, [&](uint64_t number, std::string_view bytes) {
      if (number <= folded_number_) {
        stale_.push_back(number);
        return Status::OK();
      }
      unfolded_bytes_ += bytes.size();
      unfolded_.push_back({number, std::string(bytes)});
      return Status::OK();
    });
  });
  if (!status.ok()) return base::Problem{why_not_open(options_.path, status)};
  replayed_ = true;
  return {};
}

uint64_t RocksJournal::counters_in_blocks() const {
  uint64_t count = 0;
  for (const auto& block : unfolded_) count += BlockReader(block.bytes).count();
  return count;
}

base::Done RocksJournal::replay(const Visit& visit) const {
  SLUICE_CHECK(replayed_ && !folding_);
  StoredCounter stored;
  Record record;
  for (const auto& [number, bytes] : unfolded_) {
    BlockReader reader(bytes);
    const char* wrong = nullptr;
    while (wrong == nullptr && reader.next(stored)) {
      if (dictionary_.resolve(stored, record))
        visit(record);
      else
        wrong = " names what the store does not know";
    }
    if (wrong == nullptr && !reader.sound()) wrong = " cannot be read";
    if (wrong == nullptr) continue;
    return base::Problem{
        why_not_open(options_.path, Status::Corruption("block " + std::to_string(number) + wrong))};
  }
  return {};
}

Journal::Found RocksJournal::find(const request::Space& space, std::string_view key,
                                  const Visit& visit) {
  const uint32_t number = dictionary_.find(space);
  if (number == 0) return Found::no;
  thread_local std::string bytes;
  bytes.clear();
  append_key(bytes, number, key);
  rocksdb::PinnableSlice value;
  const Status status = counters_.use(
      [&](rocksdb::DB& db) { return db.Get({}, db.DefaultColumnFamily(), bytes, &value); });
  if (status.IsNotFound()) return Found::no;
  if (!status.ok()) return Found::failed;
  if (is_forgotten(value.ToStringView())) return Found::no;
  StoredCounter stored;
  stored.space = number;
  stored.key = key;
  Record record;
  if (!parse_value(value.ToStringView(), stored)) return Found::failed;
  if (stored.forget_us <= options_.now().us)
    return dictionary_.is_known(stored) ? Found::no : Found::failed;
  if (!dictionary_.resolve(stored, record)) return Found::failed;
  visit(record);
  return Found::yes;
}

bool RocksJournal::scan(std::string& position, size_t max, const Visit& visit) {
  const int64_t now_us = options_.now().us;
  StoredCounter stored;
  Record record;
  return counters_
      .use([&](rocksdb::DB& db) {
        const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
        if (position.empty())
          at->Seek(first_counter_key);
        else
          at->Seek(position + '\0');
        std::string last;
        for (size_t seen = 0; seen < max && at->Valid(); at->Next(), ++seen) {
          last.assign(at->key().data(), at->key().size());
          if (is_forgotten(at->value().ToStringView())) continue;
          if (!parse_key(last, stored.space, stored.key) ||
              !parse_value(at->value().ToStringView(), stored))
            return Status::Corruption("a counter cannot be read");
          const bool counts = stored.forget_us > now_us;
          if (!(counts ? dictionary_.resolve(stored, record) : dictionary_.is_known(stored)))
            return Status::Corruption("a counter cannot be read");
          if (counts) visit(record);
        }
        position = at->Valid() ? last : "";
        if (position.empty() && at->status().ok()) dictionary_.all_are_met();
        return at->status();
      })
      .ok();
}

base::Done RocksJournal::backup(const std::string& target) {
  CopyPlace place(target);
  if (base::Done made = place.make(options_.path); !made) return made;
  const std::string& fresh = place.path();
  const std::string failed = "the backup to " + quoted(target) + " failed";
  const auto copy = [](Rocks& rocks, const std::string& to) {
    return rocks.use([&](rocksdb::DB& db) {
      rocksdb::Checkpoint* made = nullptr;
      Status status = rocksdb::Checkpoint::Create(&db, &made);
      const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
      if (status.ok()) status = checkpoint->CreateCheckpoint(to, UINT64_MAX);
      return status;
    });
  };
  {
    // Between the two copies no block may become a counter.
    const std::lock_guard lock(finishing_);
    Status status = copy(counters_, counters_of(fresh));
    if (status.ok()) status = copy(blocks_, blocks_of(fresh));
    if (!status.ok()) return base::Problem{failed + ": " + text_of(status)};
    base::Done written = marks_.write_for(store_of(fresh));
    if (!written) return std::move(written).problem().within(failed);
  }
  base::Done done = metadata_.copy_to(fresh);
  if (done) done = write_format(store_of(fresh));
  if (done) done = place.finish();
  if (!done) return std::move(done).problem().within(failed);
  return {};
}

JournalStats RocksJournal::stats() const {
  JournalStats stats;
  stats.blocks = blocks_count_;
  stats.counters = counters_count_;
  stats.bytes = bytes_count_;
  stats.unfolded_bytes = unfolded_bytes_;
  stats.folds = folds_count_;
  stats.failures = failures_count_;
  return stats;
}

}  // namespace sluice::disk
