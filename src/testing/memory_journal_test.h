// A journal without a disk, for tests of the durable store. What a disk would hold is in a Disk,
// which outlives the journal; its calls can be made to fail or to wait. Any thread.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "store/log/journal.h"

namespace sluice::store::tests {

// A counter by names that are valid in any process.
struct Stored {
  std::vector<limit::Limit> limits;
  std::vector<limit::State> cells;
  int64_t forget_us = 0;
};
using StoredKey = std::tuple<std::string, std::string, std::string>;  // prefix, suffix, key
using StoredBlock = std::map<StoredKey, Stored>;
using StoredNotes = std::map<std::string, std::optional<std::string>>;

struct Disk {
  void set(bool Disk::*what, bool to) {
    const std::lock_guard lock(mutex);
    this->*what = to;
    changed.notify_all();
  }
  // Folds all blocks.
  void fold() {
    const std::lock_guard lock(mutex);
    for (auto& block : blocks) {
      for (auto& [key, stored] : block) {
        if (stored.cells.empty())
          folded.erase(key);
        else
          folded[key] = stored;
      }
    }
    blocks.clear();
    for (auto& block : notes)
      for (auto& [name, text] : block) folded_notes[name] = text;
    notes.clear();
  }
  size_t block_count() {
    const std::lock_guard lock(mutex);
    return blocks.size();
  }

  // What a kill after so many commits leaves.
  void copy_to(Disk& to, size_t commits) {
    const std::lock_guard lock(mutex);
    to.folded = folded;
    to.blocks.assign(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(commits));
    to.notes.assign(notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(commits));
    to.folded_notes = folded_notes;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<StoredBlock> blocks;
  StoredBlock folded;
  std::vector<StoredNotes> notes;  // of each block
  StoredNotes folded_notes;
  bool fails = false, holds_commits = false;
  bool fails_to_read = false, holds_finds = false, holds_scans = false;
};

class MemoryJournal final : public disk::Journal {
 public:
  // A space that is read gets the attributes that `like` has for its prefix.
  using Like = std::map<std::string, request::Space>;
  MemoryJournal(Disk& disk, request::Spaces& spaces, Like like, base::Time now)
      : disk_(disk), spaces_(spaces), like_(std::move(like)), now_(now) {}

  void add(const request::CounterRecord& record) override {
    Stored stored;
    if (record.limits_id != 0) {
      const auto limits = spaces_.limits(record.limits_id);
      stored.limits.assign(limits.begin(), limits.end());
    }
    stored.cells.assign(record.cells.begin(), record.cells.end());
    stored.forget_us = record.forget_us;
    block_[{record.space->prefix, record.space->suffix, std::string(record.key)}] = stored;
  }
  void add_note(std::string_view name, const std::string* text) override {
    notes_[std::string(name)] = text == nullptr ? std::nullopt : std::optional(*text);
  }
  size_t pending() const override { return block_.size() + notes_.size(); }
  base::Done commit() override {
    std::unique_lock lock(disk_.mutex);
    disk_.changed.wait(lock, [this] { return !disk_.holds_commits; });
    if (disk_.fails) return base::Problem{"the disk is full"};
    disk_.blocks.push_back(std::exchange(block_, {}));
    disk_.notes.push_back(std::exchange(notes_, {}));
    return {};
  }
  base::Done read_notes(const disk::VisitText& visit) override {
    StoredNotes all;
    {
      const std::lock_guard lock(disk_.mutex);
      all = disk_.folded_notes;
      for (const StoredNotes& block : disk_.notes)
        for (const auto& [name, text] : block) all[name] = text;
    }
    for (const auto& [name, text] : all)
      if (text) visit(name, *text);
    return {};
  }
  uint64_t counters_in_log() const override { return 100; }
  base::Done replay(const request::VisitCounter& visit) const override {
    for (const auto& block : disk_.blocks)
      for (const auto& [key, stored] : block) tell(key, stored, visit);
    return {};
  }
  Found find(const request::Space& space, std::string_view key,
             const request::VisitCounter& visit) override {
    std::unique_lock lock(disk_.mutex);
    disk_.changed.wait(lock, [this] { return !disk_.holds_finds; });
    if (disk_.fails_to_read) return Found::failed;
    const auto at = disk_.folded.find({space.prefix, space.suffix, std::string(key)});
    if (at == disk_.folded.end() || at->second.forget_us <= now_.us) return Found::no;
    tell(at->first, at->second, visit);
    return Found::yes;
  }
  bool scan(uint64_t& position, const request::VisitCounter& visit) override {
    std::unique_lock lock(disk_.mutex);
    disk_.changed.wait(lock, [this] { return !disk_.holds_scans; });
    if (disk_.fails_to_read) return false;
    auto at = position == 0 ? disk_.folded.begin() : disk_.folded.upper_bound(last_);
    for (size_t left = 64; at != disk_.folded.end() && left > 0; ++at, --left) {
      last_ = at->first;
      if (at->second.forget_us > now_.us) tell(at->first, at->second, visit);
    }
    position = at == disk_.folded.end() ? 0 : position + 1;
    return true;
  }
  base::Done backup(const std::string&) override { return base::Problem{"it is in memory"}; }
  disk::JournalStats stats() const override { return {}; }

 private:
  void tell(const StoredKey& key, const Stored& stored, const request::VisitCounter& visit) const {
    const auto& [prefix, suffix, name] = key;
    const auto like = like_.find(prefix);
    request::CounterRecord record;
    record.space =
        spaces_.intern(prefix, suffix, like == like_.end() ? request::Space{} : like->second);
    if (!stored.limits.empty()) record.limits_id = spaces_.intern_limits(stored.limits);
    record.key = name;
    record.cells = stored.cells;
    record.forget_us = stored.forget_us;
    visit(record);
  }

  Disk& disk_;
  request::Spaces& spaces_;
  const Like like_;
  const base::Time now_;
  StoredBlock block_;
  StoredNotes notes_;
  StoredKey last_;
};

}  // namespace sluice::store::tests
