// The folding side of the journal: a thread that does whatever a commit may have to wait for, and
// one that takes only the time that no other thread needs, to which the first lends the work
// between.
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "disk/keys.h"
#include "disk/rocks_journal.h"

namespace sluice::disk {

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
