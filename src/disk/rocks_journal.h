// The journal in two RocksDB databases: one for the blocks and the dictionary, one for the folded
// counters, so that taking in a fold never holds up a commit. The latest blocks are in memory too,
// until they are folded; what is on the disk of them is only read at a start.
#pragma once

#include <rocksdb/sst_file_writer.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bounds.h"
#include "base/result.h"
#include "disk/dictionary.h"
#include "disk/journal.h"
#include "disk/latest.h"
#include "disk/layout.h"
#include "disk/log_marks.h"
#include "disk/metadata_store.h"
#include "disk/record.h"
#include "disk/rocks.h"

namespace sluice::disk {

// Where a copy of a store is made: in TARGET.new, for its owner alone, which becomes TARGET when it
// is whole and on the medium. One thread.

class CopyPlace {
 public:
  explicit CopyPlace(const std::string& target) : target_(target), fresh_(target + ".new") {}
  // What is not finished is removed.
  ~CopyPlace();
  CopyPlace(const CopyPlace&) = delete;
  CopyPlace& operator=(const CopyPlace&) = delete;

  // Makes it, empty, with its folder for the store. `dir`: of the store, in which it may not lie.
  // What is there of an earlier copy that was not finished is removed, and nothing else.
  base::Done make(const std::string& dir);
  const std::string& path() const { return fresh_; }
  base::Done finish();

 private:
  const std::string target_, fresh_;
  bool made_ = false;
};

// One fold: blocks become a sorted table file with the latest state of each of their counters,
// which RocksDB then takes among the folded ones. In small steps, so that its thread can rest,
// stop, or hand it to another thread in between; one thread at a time.

class Fold {
 public:
  // `blocks`, oldest first and the last of them with that number, and all else outlive it. `latest`
  // is empty.
  Fold(Rocks& counters, Latest& latest, std::vector<std::string_view> blocks, std::string file,
       uint64_t last_number, int64_t now_us);
  ~Fold();
  Fold(const Fold&) = delete;
  Fold& operator=(const Fold&) = delete;

  // True: there is more to do. False: the table file is written, or `status` says why not.
  bool step(rocksdb::Status& status);
  // Behind the last step: gives the file to RocksDB, at once.
  rocksdb::Status ingest();

 private:
  rocksdb::Status write_some();

  Rocks& counters_;
  Latest& latest_;
  std::vector<std::string_view> blocks_;  // those that are not read yet, and the one that is
  bool reading_ = false, sorted_ = false;
  const std::string file_;
  const uint64_t last_number_;
  const int64_t now_us_;
  size_t written_ = 0;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
  std::string value_;
};

// When blocks are folded: from so many bytes or blocks on, and by a thread that gets more than what
// is left over when they are urgent. Tests have smaller numbers.
struct Folding {
  size_t bytes = base::bounds::unfolded_bytes_max / 2;
  size_t blocks = 16'384;
  size_t urgent_bytes = base::bounds::unfolded_bytes_max / 4 * 3;
  size_t bytes_max = base::bounds::unfolded_bytes_max;
  size_t flush_bytes = base::bounds::unfolded_bytes_max;  // dropped ones, until they are flushed
  size_t numbers_min = 1024;  // Dictionary: so many more, and a round is needed
};

// Each group of members says which
// thread it belongs to, or what guards it.
class RocksJournal final : public Journal {
 public:
  RocksJournal(JournalOptions options, request::Spaces& spaces, const Folding& folding = {});
  ~RocksJournal() override;

  base::Done open();

  void add(const Record& record) override;
  size_t pending() const override { return full_count_ + writer_.count(); }
  base::Done commit() override;
  base::Done try_to_write() override;
  base::Done read_blocks() override;
  uint64_t counters_in_blocks() const override;
  base::Done replay(const Visit& visit) const override;
  void start_folding() override;
  Found find(const request::Space& space, std::string_view key, const Visit& visit) override;
  bool scan(std::string& position, size_t max, const Visit& visit) override;
  void all_is_loaded() override;
  base::Done backup(const std::string& target) override;
  store::MetadataStore* metadata() override { return &metadata_; }
  JournalStats stats() const override;

 private:
  struct Block {
    uint64_t number;
    std::string bytes;
  };

  rocksdb::Status cut_ends(LogMarks::Of of, std::string& wrong);
  // The committing thread's.
  void close_block();
  void shrink();
  base::Done wait_for_room(size_t bytes);
  void note_cause(const rocksdb::Status& status);
  template <class Call>
  base::Done attempt(Call&& call);
  rocksdb::Status begin();
  rocksdb::Status write(size_t blocks);
  void committed(size_t blocks);
  // The folding threads' (rocks_journal_fold.cc).
  // A fold under way, and what it reads.
  struct Job {
    std::unique_ptr<Fold> fold;
    rocksdb::Status status;
    bool done = false;              // all steps, or `status` says why not
    std::vector<std::string> held;  // blocks that were dropped since it was given up
  };
  bool wants_fold() const;
  void call();
  void fold_all();
  void work_idly();
  rocksdb::Status fold_once();
  std::unique_ptr<Job> make_job(bool lent, const std::vector<std::string_view>& blocks,
                                uint64_t last_number);
  bool lend(std::unique_ptr<Job>& job);
  void take_back();
  rocksdb::Status delete_blocks(std::span<const uint64_t> numbers);
  rocksdb::Status drop(size_t blocks);
  bool meet_some();
  rocksdb::Status meet(std::string& position, size_t max);

  const JournalOptions options_;
  const Folding when_;
  Dictionary dictionary_;
  Lock lock_;
  Rocks blocks_, counters_;
  RocksMetadataStore metadata_;
  const base::Hash hash_;

  // The committing thread's.
  BlockWriter writer_;
  std::vector<std::string> full_;  // blocks that are done and not committed
  size_t full_count_ = 0, full_bytes_ = 0;
  size_t shrunk_bytes_ = 0;  // what was left of them after the last shrink()
  // From here to next_number_ blocks were not committed, and may be on the disk all the same.
  std::optional<uint64_t> failed_from_;
  uint64_t epoch_ = 0;
  bool begun_ = false;  // the epoch is stored; before that nothing is committed
  uint64_t next_number_ = 0;
  int64_t mended_us_ = 0;
  std::string cause_;  // of the failures since a commit
  rocksdb::WriteBatch batch_;
  bool replayed_ = false;
  uint64_t folded_number_ = 0;  // of the last block that was folded before the start

  mutable std::mutex mutex_;  // of all that follows, but for what is atomic
  std::condition_variable stopped_, folded_;
  std::deque<Block> unfolded_;
  std::atomic<size_t> unfolded_bytes_{0};  // may be read without the mutex
  std::vector<std::string> spares_;        // memory of blocks that are folded
  std::string fold_problem_;               // why the last one failed
  bool folding_ = false;
  std::atomic<uint64_t> blocks_count_{0}, counters_count_{0}, bytes_count_{0}, folds_count_{0},
      failures_count_{0};  // JournalStats, since the start

  std::atomic<bool> urgent_{false}, stopping_{false};
  std::mutex finishing_;  // a fold comes to its end, or a backup is made
  LogMarks marks_;
  std::mutex appending_;         // what a synced commit has written ends where the log does
  std::vector<uint64_t> stale_;  // blocks that were folded before the start, and not dropped
  size_t unflushed_bytes_ = 0;   // of dropped blocks; the folding thread's

  // Rounds of the dictionary (begin_round): the committing thread begins one when it has committed
  // all there is; what was committed until then is folded, and then the folding thread meets it.
  enum class Round : uint8_t { none, folding, meeting, given_up };
  void begin_round();
  std::atomic<Round> round_{Round::none};
  std::atomic<bool> loaded_{false};
  uint64_t round_end_ = 0;  // blocks with smaller numbers must be folded; guarded by mutex_
  std::string met_;         // the folding thread's: the last key that it has met

  // The folding thread sleeps until this changes: there is more to do, or less to wait for.
  std::atomic<uint32_t> called_{0};
  // Whose turn it is with `lent_`. The idle thread takes no lock but, for moments, the allocator's,
  // so whatever it is kept from its processor in, no thread waits for it.
  enum class Turn : int { nobody, idle, recalled, returned, ended };
  std::atomic<Turn> turn_{Turn::nobody};
  // Each thread's own, as is the memory that it allocates for it. A job has one of them.
  Latest idle_latest_, latest_;
  std::unique_ptr<Job> lent_;
  bool given_up_ = false;  // another thread does what was lent
  std::thread idle_, folder_;
};

}  // namespace sluice::disk
