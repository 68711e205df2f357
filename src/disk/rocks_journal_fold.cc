// The folding side of the journal: a thread that takes only the time that nobody else wants, and
// one that takes the fold over when that is not enough, and does for it whatever commits wait for.
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
constexpr auto look_again_after = std::chrono::milliseconds(20);
// Folds that no compaction has got to. With more of them a start would take longer.
constexpr size_t folded_files_max = 48;
// How long merging may keep a fold waiting before that counts as a failure.
constexpr auto merging_max = std::chrono::seconds(5);
constexpr size_t deleted_per_write = 64;
constexpr auto between_deletes = std::chrono::microseconds(100);
// Memory that is kept for the blocks to come.
constexpr size_t spares_max = 16, spare_bytes_min = size_t{64} << 10;

}  // namespace

void RocksJournal::start_folding() {
  SLUICE_CHECK(replayed_ && !slow_.joinable());
  {
    const std::lock_guard lock(mutex_);
    folding_ = true;
  }
  slow_ = std::thread([this] { fold_slowly(); });
  fast_ = std::thread([this] { fold_fast(); });
}

bool RocksJournal::wants_fold() const {
  return unfolded_bytes_ >= when_.bytes || unfolded_.size() >= when_.blocks ||
         (urgent_ && !unfolded_.empty());
}

void RocksJournal::fold_slowly() {
  ::pthread_setname_np(::pthread_self(), "sluice-fold");
  // Whoever else wakes takes the processor from it at once, so it need not rest between its steps;
  // where a system does not let it, it is at least nice. (Linux knows the niceness of a thread.)
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!wants_fold()) {
      wanted_.wait(lock);
      continue;
    }
    lock.unlock();
    const Status status = fold_once();
    lock.lock();
    if (status.ok() || stopping_) continue;
    ++stats_.failures;
    fold_problem_ = "a fold of the store failed: " + text_of(status);
    folded_.notify_all();
    wanted_.wait_for(lock, retry_after, [this] { return stopping_.load(); });
    lock.unlock();
    counters_.mend();
    blocks_.mend();
    lock.lock();
  }
}

void RocksJournal::fold_fast() {
  std::unique_lock lock(mutex_);
  for (;;) {
    handed_.wait(lock, [this] { return handed_work_ || stopping_; });
    if (!handed_work_) return;
    lock.unlock();
    handed_work_();
    lock.lock();
    handed_work_ = nullptr;
    handed_.notify_all();
  }
}

// Has the fast thread do it, and waits. False: the store is being closed, and nobody does.
bool RocksJournal::hand_over(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  if (stopping_) return false;
  handed_work_ = std::move(work);
  handed_.notify_all();
  handed_.wait(lock, [this] { return !handed_work_; });
  return true;
}

// To the end, or until it is urgent.
void RocksJournal::run_steps(bool slowly) {
  while (!stopping_ && !(slowly && urgent_)) {
    if (!fold_->step(fold_status_)) return;
  }
  if (stopping_ || !hand_over([this] { run_steps(false); }))
    fold_status_ = Status::Aborted("the store is being closed");
}

Status RocksJournal::fold_once() {
  const auto patient_until = std::chrono::steady_clock::now() + merging_max;
  while (folded_files() >= folded_files_max) {
    if (stopping_) return Status::Aborted("the store is being closed");
    if (std::chrono::steady_clock::now() >= patient_until)
      return Status::IOError("what was folded cannot be merged; is the disk full?");
    std::this_thread::sleep_for(look_again_after);
  }
  std::vector<std::string_view> blocks;
  uint64_t last_number = 0;
  // Who gets the processor last is not to hold a lock that a commit needs, here and below.
  const bool taken = hand_over([&] {
    // Their bytes stay where they are: others only append to the queue.
    const std::lock_guard lock(mutex_);
    for (const Block& block : unfolded_) blocks.emplace_back(block.bytes);
    last_number = unfolded_.back().number;
  });
  if (!taken) return Status::Aborted("the store is being closed");
  const size_t count = blocks.size();
  fold_status_ = Status::OK();
  fold_ =
      std::make_unique<Fold>(counters_, latest_, std::move(blocks),
                             store_of(options_.path) + "/fold.sst", last_number, options_.now().us);
  run_steps(true);
  Status status = fold_status_;
  if (status.ok()) {
    const std::lock_guard lock(finishing_);
    status = fold_->ingest();
    // Should this fail they are folded once more, which changes nothing.
    if (status.ok() && !hand_over([&] { status = drop(count); }))
      status = Status::Aborted("the store is being closed");
  }
  fold_.reset();
  return status;
}

// A few at a time: a commit waits for a write that is under way.
Status RocksJournal::delete_blocks(std::span<const uint64_t> numbers) {
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < numbers.size(); i += deleted_per_write) {
    batch.Clear();
    for (const uint64_t number :
         numbers.subspan(i, std::min(deleted_per_write, numbers.size() - i)))
      batch.SingleDelete(BlockKey(number));
    Status status = blocks_.use([&](rocksdb::DB& db) { return db.Write({}, &batch); });
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
      if (spares_.size() < spares_max && block.size() >= spare_bytes_min)
        spares_.push_back(std::move(block));
      else
        old.push_back(std::move(block));
      unfolded_.pop_front();
    }
    unfolded_bytes_ -= bytes;
    ++stats_.folds;
    fold_problem_.clear();
    urgent_ = unfolded_bytes_ >= when_.urgent_bytes;
  }
  folded_.notify_all();
  return status;
}

size_t RocksJournal::folded_files() {
  uint64_t files = 0;
  counters_.use([&](rocksdb::DB& db) {
    db.GetIntProperty("rocksdb.num-files-at-level0", &files);
    return Status::OK();
  });
  return files;
}

}  // namespace sluice::disk
