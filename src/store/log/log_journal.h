// The journal as a log and a snapshot. Each group of members says which thread it belongs to, or
// what guards it.
//
//   order   A commit is one write behind the last one, and counts from then on; with `sync` once it
//           is on the medium. After a write that failed the next one is tried at the same place;
//           after a sync that failed in a new log, as a later success on the old one proves
//           nothing: the new one says up to where the old one counts. docs/store-format.md has the
//           table of steps and of what a crash after each leaves.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "store/log/folder.h"
#include "store/log/format.h"
#include "store/log/journal.h"
#include "store/log/reading.h"
#include "store/log/snapshot.h"

namespace sluice::disk {

class LogJournal final : public Journal, public store::MetadataStore {
 public:
  // `spaces` and `files` outlive it.
  LogJournal(JournalOptions options, request::Spaces& spaces, const LogSizes& sizes = {},
             Files& files = system_files());
  // Closes the log, so that the next start finds it whole.
  ~LogJournal() override;

  base::Done open();

  void add(const Record& record) override;
  void add_note(std::string_view name, const std::string* text) override;
  size_t pending() const override { return counters_pending() + notes_.size(); }
  base::Done commit() override;
  bool is_late() const override;
  base::Done try_to_write() override;
  uint64_t counters_in_log() const override { return found_.counters; }
  base::Done replay(const Visit& visit) const override;
  Found find(const request::Space& space, std::string_view key, const Visit& visit) override;
  bool scan(uint64_t& position, const Visit& visit) override;
  base::Done read_notes(const VisitText& visit) override;
  void all_is_loaded(Table table) override;
  base::Done backup(const std::string& target) override;
  store::MetadataStore* metadata() override { return this; }
  JournalStats stats() const override;

  // The texts, as store::MetadataStore.
  base::Done read(const VisitText& visit) override;
  WriteResult write(std::span<const Change> changes) override;

 private:
  void close_block();
  size_t counters_pending() const { return full_count_ + writer_.count(); }
  static std::vector<WrittenBlock> blocks_of(const Texts& texts);
  // With mutex_.
  base::Done begin_log();
  base::Done append(std::span<WrittenBlock> blocks);
  void write_synced(uint64_t log);
  uint64_t end() const { return position_ + bytes_; }
  uint64_t log_bytes() const { return end() - first_position_; }
  uint64_t due_bytes() const;
  bool is_due() const;
  bool is_twice_due() const { return log_bytes() > 2 * due_bytes(); }
  base::Done visit_texts(const Texts& later, const VisitText& visit) const;
  base::Done read_all(bool notes, const VisitText& visit);
  void start_thread();
  // The journal's thread.
  void work();
  void sync_sealed(std::unique_lock<std::mutex>& lock);
  base::Done write_snapshot(bool gently);
  base::Done give_up(base::Done why);
  base::Done sync_logs(uint64_t first);
  base::Done sync_log(uint64_t number);
  void remove_others(const Current& current);

  const JournalOptions options_;
  const LogSizes sizes_;
  Files& files_;
  request::Spaces& spaces_;
  mutable Names names_;
  Lock lock_;
  Logs found_;  // at the start

  // The committing thread's.
  CountersWriter writer_;
  std::vector<WrittenBlock> full_;  // blocks that are done and not committed
  size_t full_count_ = 0;           // counters in them
  Texts notes_;                     // not committed

  mutable std::mutex mutex_;  // of all that follows, but for what is atomic
  Current current_;
  std::shared_ptr<SnapshotReader> snapshot_;  // null: there is none
  int fd_ = -1, synced_fd_ = -1;              // the log, and SYNCED; -1: not open
  bool synced_second_ = false;                // the sector of it that was written last
  bool begun_ = false;                        // a log of this start is there
  bool broken_ = false;                       // nothing may be written behind its end
  bool rolls_ = false;                        // the next commit begins another
  uint64_t log_counters_ = 0;                 // behind the snapshot
  int begin_error_ = 0;                       // why the last one could not be made
  uint64_t log_ = 0, last_log_ = 0;           // its number, and the last that was used
  uint64_t last_snapshot_ = 0;                // number that was used
  uint64_t position_ = 0, bytes_ = 0;         // where its first byte stands; that count
  uint64_t reserved_ = 0;                     // bytes of it that have room
  uint64_t first_position_ = 0;               // of the first log behind the snapshot
  size_t logs_ = 0;                           // behind the snapshot
  uint64_t synced_ = 0;                       // the position up to which all is on the medium
  struct Sealed {
    int fd;
    uint64_t number, end;  // end: a position
  };
  std::vector<Sealed> sealed_;  // logs that wait for a sync
  uint64_t unsure_log_ = 0;     // of this and those before it a sync failed; 0: of none
  Texts changed_;               // texts, since the snapshot
  Texts later_;                 // since that which is being written was begun
  bool writes_snapshot_ = false;
  std::string why_no_snapshot_;  // the last one could not be written
  std::optional<Table> table_;   // once all is loaded
  bool stops_ = false;
  std::condition_variable called_;
  std::mutex copying_;  // no file is removed; taken before mutex_

  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> commits_count_{0}, counters_count_{0}, bytes_count_{0}, snapshots_count_{0},
      failures_count_{0}, log_bytes_told_{0};
  std::thread thread_;
};

}  // namespace sluice::disk
