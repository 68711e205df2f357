#include "disk/rocks_journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <rocksdb/utilities/checkpoint.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/check.h"
#include "disk/keys.h"
#include "disk/layout.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;

// Says that what it lies in is a copy that is being made.
constexpr const char* marker = "/UNFINISHED";

fs::path folder_of(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  // Of "a/b/" as of "a/b".
  return absolute.has_filename() ? absolute.parent_path() : absolute.parent_path().parent_path();
}

bool lies_in(const fs::path& folder, const std::string& dir) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(folder, error), outer = fs::canonical(dir, error);
  if (error) return false;
  const fs::path from = inner.lexically_relative(outer);
  return !from.empty() && *from.begin() != "..";
}

bool is_there(const std::string& path) {
  struct stat unused;
  return ::lstat(path.c_str(), &unused) == 0;
}

// A copy that was not finished, or a folder with nothing in it.
bool may_be_removed(const std::string& path) {
  struct stat its;
  if (::lstat(path.c_str(), &its) != 0 || !S_ISDIR(its.st_mode)) return false;
  std::error_code error;
  return is_there(path + marker) || (fs::is_empty(path, error) && !error);
}

// Who may read it, and that it is on the medium. 0, or why not.
int settle(const fs::path& path, mode_t mode) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  const int error = ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

CopyPlace::~CopyPlace() {
  std::error_code ignored;
  if (made_) fs::remove_all(fresh_, ignored);
}

base::Done CopyPlace::make(const std::string& dir) {
  if (is_there(target_))
    return base::Problem{quoted(target_) + " is there already; name a directory that is not"};
  const fs::path folder = folder_of(target_);
  if (lies_in(folder, dir))
    return base::Problem{quoted(target_) + " lies in " + quoted(dir) +
                         ", of which it must be a copy; name a directory outside of it"};
  std::error_code error;
  fs::create_directories(folder, error);
  if (is_there(fresh_)) {
    if (!may_be_removed(fresh_))
      return base::Problem{quoted(fresh_) +
                           " is there already, and is not a copy that was left unfinished; move it "
                           "away, or name another directory"};
    fs::remove_all(fresh_, error);
  }
  const int fd =
      ::mkdir(fresh_.c_str(), 0700) != 0
          ? -1
          : ::open((fresh_ + marker).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  made_ = fd >= 0;
  if (made_) ::close(fd);
  if (made_ && ::mkdir(store_of(fresh_).c_str(), 0700) == 0) return {};
  return base::Problem{with_errno(
      "the backup to " + quoted(target_) + " failed: " + quoted(fresh_) + " cannot be made",
      errno)};
}

base::Done CopyPlace::finish() {
  std::error_code error;
  int failed = 0;
  for (fs::recursive_directory_iterator at(fresh_, error), end; !error && failed == 0 && at != end;
       at.increment(error))
    failed = settle(at->path(), at->is_directory() ? 0700 : 0600);
  if (failed == 0 && error) failed = error.value();
  if (failed == 0 && ::unlink((fresh_ + marker).c_str()) != 0) failed = errno;
  if (failed == 0) failed = settle(fresh_, 0700);
  if (failed == 0 && ::rename(fresh_.c_str(), target_.c_str()) != 0) failed = errno;
  if (failed != 0) return base::Problem{with_errno(quoted(fresh_), failed)};
  made_ = false;
  // Else a power cut could take the name away again.
  return sync_directory(folder_of(target_).string());
}

namespace {

constexpr size_t step_counters = 256;

}  // namespace

Fold::Fold(Rocks& counters, Latest& latest, std::vector<std::string_view> blocks, std::string file,
           uint64_t last_number, int64_t now_us)
    : counters_(counters),
      latest_(latest),
      blocks_(std::move(blocks)),
      file_(std::move(file)),
      last_number_(last_number),
      now_us_(now_us) {}

Fold::~Fold() {
  writer_.reset();
  if (written_ > 0) ::unlink(file_.c_str());
  latest_.clear();
}

bool Fold::step(rocksdb::Status& status) {
  if (reading_ || !blocks_.empty()) {
    if (!reading_) latest_.open(blocks_.back());
    reading_ = latest_.step();
    if (!reading_) blocks_.pop_back();
    if (!latest_.sound()) status = rocksdb::Status::Corruption("a block cannot be read");
    return status.ok();
  }
  if (!sorted_) {
    latest_.sort();
    sorted_ = true;
    return true;
  }
  status = write_some();
  return status.ok() && writer_;
}

rocksdb::Status Fold::write_some() {
  rocksdb::Status status;
  if (!writer_) {
    writer_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), counters_.options());
    // One that was left behind may be RocksDB's by now, under another name: it is not to be
    // written.
    ::unlink(file_.c_str());
    status = writer_->Open(file_);
    if (status.ok()) status = writer_->Put(folded_key, folded_value(last_number_));
    written_ = 0;
  }
  const size_t end = std::min(latest_.size(), written_ + step_counters);
  for (size_t i = written_; status.ok() && i < end; ++i) {
    value_.clear();
    if (!latest_.forgotten(i)) latest_.append_value(i, value_);
    if (latest_.forgotten(i) || forget_us_of(value_) <= now_us_) value_ = forgotten_value;
    status = writer_->Put(latest_.key(i), value_);
  }
  written_ = std::max<size_t>(end, 1);  // the file is there
  if (!status.ok() || end < latest_.size()) return status;
  status = writer_->Finish();
  writer_.reset();
  return status;
}

rocksdb::Status Fold::ingest() {
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.snapshot_consistency = false;
  options.verify_file_checksum = false;
  return counters_.use([&](rocksdb::DB& db) { return db.IngestExternalFile({file_}, options); });
}

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

// The folding side of the journal: a thread that does whatever a commit may have to wait for, and
// one that takes only the time that no other thread needs, to which the first lends the work
// between.

namespace {

using rocksdb::Status;

constexpr auto retry_after = std::chrono::milliseconds(500);
// How long the idle thread is given to return what is urgent, and how often it is looked for.
constexpr auto recall_max = std::chrono::milliseconds(10);
constexpr auto recall_step = std::chrono::microseconds(200);
constexpr size_t deleted_per_write = 64;
constexpr auto between_deletes = std::chrono::microseconds(100);
// Counters that a round of the dictionary meets before it looks whether there is something to fold.
constexpr size_t met_at_once = 1000;
constexpr auto between_meetings = std::chrono::milliseconds(2);
// Memory that is kept for the blocks to come.
constexpr size_t spares_max = 16, spare_bytes_min = size_t{64} << 10;

}  // namespace

RocksJournal::~RocksJournal() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  call();
  stopped_.notify_all();
  if (folder_.joinable()) folder_.join();
  turn_ = Turn::ended;
  turn_.notify_all();
  if (idle_.joinable()) idle_.join();
}

void RocksJournal::start_folding() {
  SLUICE_CHECK(replayed_ && !folder_.joinable());
  {
    const std::lock_guard lock(mutex_);
    folding_ = true;
  }
  idle_ = std::thread([this] { work_idly(); });
  folder_ = std::thread([this] { fold_all(); });
}

// Wakes the folding thread. Any thread; takes no lock.
void RocksJournal::call() {
  called_.fetch_add(1);
  called_.notify_one();
}

bool RocksJournal::wants_fold() const {
  return unfolded_bytes_ >= when_.bytes || unfolded_.size() >= when_.blocks ||
         (urgent_ && !unfolded_.empty()) ||
         (round_.load() == Round::folding && !unfolded_.empty() &&
          unfolded_.front().number < round_end_);
}

// Of what is folded, for a round of the dictionary. False: there is none, or it has reached its
// end.
bool RocksJournal::meet_some() {
  if (round_.load() == Round::folding) {
    const std::lock_guard lock(mutex_);
    if (wants_fold()) return false;
    met_.clear();
    round_.store(Round::meeting);
  }
  if (round_.load() != Round::meeting) return false;
  if (!meet(met_, met_at_once).ok()) {
    round_.store(Round::given_up);
    return false;
  }
  if (!met_.empty()) return true;
  dictionary_.all_are_met();
  round_.store(Round::none);
  return false;
}

// The next behind `position`, which is moved; empty again when all were met.
Status RocksJournal::meet(std::string& position, size_t max) {
  return counters_.use([&](rocksdb::DB& db) {
    const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
    at->Seek(position.empty() ? std::string(first_counter_key) : position + '\0');
    StoredCounter stored;
    std::string last;
    for (size_t seen = 0; seen < max && at->Valid(); at->Next(), ++seen) {
      last.assign(at->key().data(), at->key().size());
      if (is_forgotten(at->value().ToStringView())) continue;
      if (!parse_key(last, stored.space, stored.key) ||
          !parse_value(at->value().ToStringView(), stored) || !dictionary_.is_known(stored))
        return Status::Corruption("a counter cannot be read");
    }
    position = at->Valid() ? last : "";
    return at->status();
  });
}

// The folding thread's: it waits for the other, and does all that a commit may have to wait for.
void RocksJournal::fold_all() {
  while (!stopping_) {
    const uint32_t called = called_.load();
    bool wanted;
    {
      const std::lock_guard lock(mutex_);
      wanted = wants_fold();
    }
    if (!wanted) {
      if (!stopping_ && meet_some())
        std::this_thread::sleep_for(between_meetings);
      else if (!stopping_ && round_.load() != Round::folding)
        called_.wait(called);
      continue;
    }
    const Status status = fold_once();
    if (status.ok() || stopping_) continue;
    ++failures_count_;
    std::unique_lock lock(mutex_);
    fold_problem_ = "a fold of the store failed: " + text_of(status);
    folded_.notify_all();
    stopped_.wait_for(lock, retry_after, [this] { return stopping_.load(); });
    lock.unlock();
    counters_.recover();
    blocks_.recover();
  }
}

// The idle thread's: steps of what is lent to it, and nothing else.
void RocksJournal::work_idly() {
  ::pthread_setname_np(::pthread_self(), "sluice-fold");
  // Any other thread that wakes preempts it at once, so it need not rest between its steps;
  // where a system does not let it, it is at least nice. (Linux knows the niceness of a thread.)
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
  for (;;) {
    Turn turn = turn_.load();
    if (turn == Turn::ended) return;
    if (turn != Turn::idle && turn != Turn::recalled) {
      turn_.wait(turn);
      continue;
    }
    while (turn_.load() == Turn::idle && !lent_->done)
      lent_->done = !lent_->fold->step(lent_->status);
    turn = turn_.load();
    while (turn != Turn::ended && !turn_.compare_exchange_weak(turn, Turn::returned)) {
    }
    call();
  }
}

std::unique_ptr<RocksJournal::Job> RocksJournal::make_job(
    bool lent, const std::vector<std::string_view>& blocks, uint64_t last_number) {
  auto job = std::make_unique<Job>();
  job->fold = std::make_unique<Fold>(counters_, lent ? idle_latest_ : latest_, blocks,
                                     store_of(options_.path) + (lent ? "/fold.sst" : "/fold-2.sst"),
                                     last_number, options_.now().us);
  return job;
}

// What was given up comes back in the end.
void RocksJournal::take_back() {
  if (turn_.load() != Turn::returned) return;
  lent_.reset();
  given_up_ = false;
  turn_ = Turn::nobody;
}

// The idle thread works on it, until it is done or urgent. False: it does not give it back, as it
// has no processor; then it keeps it.
bool RocksJournal::lend(std::unique_ptr<Job>& job) {
  lent_ = std::move(job);
  turn_ = Turn::idle;
  turn_.notify_one();
  for (;;) {
    const uint32_t called = called_.load();
    if (turn_.load() == Turn::returned || urgent_ || stopping_) break;
    called_.wait(called);
  }
  Turn turn = Turn::idle;
  if (turn_.compare_exchange_strong(turn, Turn::recalled)) {
    const auto until = std::chrono::steady_clock::now() + recall_max;
    while (turn_.load() != Turn::returned && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(recall_step);
  }
  if (turn_.load() != Turn::returned) {
    given_up_ = true;
    return false;
  }
  job = std::move(lent_);
  turn_ = Turn::nobody;
  return true;
}

// It does not wait for RocksDB to merge what was folded before, which a busy machine may hold up
// for long: a commit may wait for this.
Status RocksJournal::fold_once() {
  std::vector<std::string_view> blocks;
  uint64_t last_number = 0;
  {
    // Their bytes stay where they are: others only append to the queue.
    const std::lock_guard lock(mutex_);
    for (const Block& block : unfolded_) blocks.emplace_back(block.bytes);
    last_number = unfolded_.back().number;
  }
  take_back();
  std::unique_ptr<Job> job;
  // Not the first of all: RocksDB makes its function-local statics in it, under locks that the idle
  // thread could keep for as long as it gets no processor.
  if (!given_up_ && !urgent_ && folds_count_ > 0) {
    job = make_job(true, blocks, last_number);
    lend(job);
  }
  if (!job) job = make_job(false, blocks, last_number);
  while (!stopping_ && !job->done) job->done = !job->fold->step(job->status);
  if (!job->done) return Status::Aborted("the store is being closed");
  if (!job->status.ok()) return job->status;
  const std::lock_guard lock(finishing_);
  const Status status = job->fold->ingest();
  // Should this fail they are folded once more, which changes nothing.
  return status.ok() ? drop(blocks.size()) : status;
}

// A few at a time: a commit waits for a write that is under way.
Status RocksJournal::delete_blocks(std::span<const uint64_t> numbers) {
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < numbers.size(); i += deleted_per_write) {
    batch.Clear();
    for (const uint64_t number :
         numbers.subspan(i, std::min(deleted_per_write, numbers.size() - i)))
      batch.SingleDelete(BlockKey(number));
    Status status = blocks_.use([&](rocksdb::DB& db) {
      const std::lock_guard lock(appending_);
      return db.Write({}, &batch);
    });
    if (!status.ok()) return status;
    if (!stopping_) std::this_thread::sleep_for(between_deletes);
  }
  return Status::OK();
}

Status RocksJournal::drop(size_t blocks) {
  std::vector<uint64_t> numbers = stale_;
  numbers.reserve(numbers.size() + blocks);
  size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < blocks; ++i) {
      numbers.push_back(unfolded_[i].number);
      bytes += unfolded_[i].bytes.size();
    }
  }
  unflushed_bytes_ += bytes;
  Status status = delete_blocks(numbers);
  if (!status.ok()) return status;
  status = blocks_.use([&](rocksdb::DB& db) {
    // Dropped blocks take memory and log until they are flushed, and leave nothing behind then.
    if (unflushed_bytes_ >= when_.flush_bytes) {
      rocksdb::FlushOptions flush;
      flush.wait = false;
      flush.allow_write_stall = true;
      // RocksDB does it sooner or later even if it refuses now.
      if (db.Flush(flush).ok()) unflushed_bytes_ = 0;
    }
    // A flush, or opening it again after an error, has begun another log. The next fold does it
    // if this one cannot.
    marks_.mark(db).PermitUncheckedError();
    return Status::OK();
  });
  if (!status.ok()) return status;
  stale_.clear();
  std::vector<std::string> old;  // given back to the system without the lock
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < blocks; ++i) {
      std::string& block = unfolded_.front().bytes;
      if (given_up_)
        lent_->held.push_back(std::move(block));
      else if (spares_.size() < spares_max && block.size() >= spare_bytes_min)
        spares_.push_back(std::move(block));
      else
        old.push_back(std::move(block));
      unfolded_.pop_front();
    }
    unfolded_bytes_ -= bytes;
    ++folds_count_;
    fold_problem_.clear();
    urgent_ = unfolded_bytes_ >= when_.urgent_bytes;
  }
  folded_.notify_all();
  return status;
}

}  // namespace sluice::disk
