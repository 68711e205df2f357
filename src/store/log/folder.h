// The folder of a store: its lock, its files, their owner, and where a copy of it is made.
// Ours is in `DIR`/sluice, so that DIR may be limitd's own; the lock is beside it. Called by the
// server and the tools when they open a store.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "store/log/files.h"

namespace sluice::disk {

// What this program writes and reads, and the first version of it that does.
inline constexpr uint32_t format_number = 5;
inline constexpr std::string_view format_since = "0.2.0";

std::string store_of(const std::string& dir);  // DIR/sluice
std::string current_of(const std::string& dir);
std::string log_of(const std::string& dir, uint64_t number);
std::string snapshot_of(const std::string& dir, uint64_t number);

// No other process has DIR while it lives.
class Lock {
 public:
  Lock() = default;
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // The problem names the process that has it. `make`: DIR is made if it is missing. `wait`: how
  // long it may take until that process lets go; `on_wait` is told that process when that begins.
  base::Done take(const std::string& dir, bool make, base::Duration wait = {},
                  const std::function<void(const std::string& holder)>& on_wait = {});

 private:
  int fd_ = -1;
};

// The file CURRENT: which of the files count. It is replaced as a whole.
struct Current {
  std::string reader;          // the first version that reads the store
  uint64_t store = 0;          // the store's id, at random; each of its files has it
  uint64_t snapshot = 0;       // the number of the snapshot; 0: there is none yet
  uint64_t directory = 0;      // the byte of the snapshot at which its directory begins
  uint32_t directory_crc = 0;  // of that block
  uint64_t log = 0;            // the number of the first log
};
std::string text_of(const Current& current);

// The file SYNCED: which logs there must be, and up to where they are on the medium. Written in
// place after each commit that was synced, to one of its two sectors in turn, so that one is whole;
// not synced itself, so it may name less than is there.
struct Synced {
  uint64_t store = 0;
  uint64_t log = 0;       // the number of the last log
  uint64_t position = 0;  // all before it is on the medium
};
inline constexpr std::string_view synced_name = "SYNCED";
inline constexpr uint64_t synced_sector = 512;
std::string text_of(const Synced& synced);
// Empty: the file does not exist.
base::Result<std::optional<Synced>> read_synced(Files& files, const std::string& dir);

enum class Condition : uint8_t {
  absent,   // there never was a store
  whole,    // CURRENT is there, in the format that this program reads
  foreign,  // its format is another one, of an earlier or a later version
  damaged   // something is there, but not that
};

// What is in DIR/sluice. `problem` says why it cannot be used, and what to do.
struct Look {
  Condition condition = Condition::absent;
  base::Problem problem;  // of one that is foreign or damaged
  Current current;        // of one that is whole
};
// Changes nothing.
Look look(const std::string& dir, Files& files = system_files());
// "the store in `DIR` is damaged: WHAT; look at it with ..."
std::string damaged(const std::string& dir, const std::string& what);

// The numbers of the logs, or snapshots, that are there, rising. The problem: it cannot be listed.
base::Result<std::vector<uint64_t>> numbers_of(const std::string& dir, std::string_view kind);
inline constexpr std::string_view log_kind = "log-", snapshot_kind = "snapshot-";

// Removes the files that a start would not read, as they are older or unfinished. What fails is
// left to the next time.
void remove_unread(Files& files, const std::string& dir, const Current& current);

// Makes an empty store where there is none, whole or not at all.
base::Done make_store(Files& files, const std::string& dir);

// Gives what is root's at `path`, and below it, to the owner of `dir`: what root makes with a tool
// the server that serves the store could not open. Links are not followed. Nothing happens unless
// this process is root.
base::Done give_to_owner(const std::string& dir, const std::string& path);

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
  // A file that is not written to any more, as a link where the file system is the same; or the
  // first `bytes` of one.
  base::Done take_whole(const std::string& from, const std::string& to);
  base::Done take(const std::string& from, const std::string& to, uint64_t bytes);
  base::Done finish();

 private:
  const std::string target_, fresh_;
  bool made_ = false;
};

}  // namespace sluice::disk
