// The latest state of every counter in some blocks, in the order of the stored keys: what a fold
// writes. Blocks are taken from the newest to the oldest, in small steps. One thread at a time;
// the blocks live as long as it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "disk/record.h"

namespace sluice::disk {

class Latest {
 public:
  explicit Latest(const base::Hash& hash) : hash_(hash) {}

  // The next block, once the one before is read.
  void open(std::string_view block);
  // Reads some records of it. True: there are more.
  bool step();
  // Were all blocks whole so far?
  bool sound() const { return sound_; }

  // When all are read.
  void sort();
  size_t size() const { return entries_.size(); }
  std::string_view key(size_t i) const;  // as append_key writes it
  bool forgotten(size_t i) const { return entries_[i].state_bytes == 0; }
  void append_value(size_t i, std::string& out) const;

  // Empty, with its memory kept for the next fold.
  void clear();

 private:
  struct Entry {
    uint64_t order;  // the part of the key that is being sorted by
    const char* state;
    uint32_t state_bytes;
    uint32_t block;
    uint32_t key_at, key_bytes;
  };
  struct Read {
    PackedCounter counter;
    uint64_t hash;
    size_t likely;  // where its entry probably is
  };
  void keep(const Read& read);
  void grow();
  std::string_view key_of(const Entry& entry) const {
    return {keys_.data() + entry.key_at, entry.key_bytes};
  }
  void sort(std::span<Entry> some, size_t depth);

  const base::Hash& hash_;
  std::vector<int64_t> bases_us_;  // of the blocks
  std::optional<BlockReader> reader_;
  bool sound_ = true;
  std::vector<Entry> entries_;
  std::string keys_;
  std::string key_;              // of the record that is looked up
  std::vector<uint64_t> slots_;  // upper half of the hash, and the entry's number from 1
};

}  // namespace sluice::disk
