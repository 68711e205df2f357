// The stored format (docs/store-format.md): blocks, the values of folded counters, and the
// dictionary's spaces and lists of limits, as pure readers and writers of bytes. Numbers name
// spaces and lists here; what they stand for is the dictionary's. Any thread; views live as long as
// the bytes that were read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "disk/varint.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::disk {

// The first byte of a block.
inline constexpr uint8_t block_format = 1;

inline constexpr size_t block_head_bytes = 13;

// A counter as it is stored: in a block, or folded. Worth keeping between reads, for its size.
struct StoredCounter {
  uint32_t space = 0;  // from 1
  std::string_view key;
  uint32_t limits = 0;    // from 1; 0: the counter keeps its limits
  size_t cell_count = 0;  // none: it is forgotten
  std::array<limit::State, limit::counter_cells_max> cells;
  int64_t forget_us = INT64_MAX;

  std::span<const limit::State> state() const { return {cells.data(), cell_count}; }
};

// A counter of a block whose state is not looked at, which is what folding needs.
struct PackedCounter {
  uint32_t space = 0;
  std::string_view key;
  std::string_view state;  // its bytes; none: it is forgotten
};

// Makes a block. One thread.
class BlockWriter {
 public:
  BlockWriter() { clear(); }
  // A later state of the same counter counts for both.
  void add(uint32_t space, uint32_t limits, std::string_view key,
           std::span<const limit::State> cells, int64_t forget_us);
  size_t count() const { return count_; }
  size_t bytes() const { return used_; }
  // The block; empty again afterwards. What is given back spares the next one its memory.
  std::string take();
  void give(std::string spare);

 private:
  void clear();

  std::string text_;  // its size is its capacity
  size_t used_ = 0;
  uint32_t count_ = 0;
  int64_t base_us_ = 0;
};

// Reads a block from front to end. One thread.
class BlockReader {
 public:
  explicit BlockReader(std::string_view block);
  // False: the end, or the block is damaged there.
  bool next(PackedCounter& counter);
  bool next(StoredCounter& counter);
  // Behind the last one: were all of them whole?
  bool sound() const { return sound_ && read_ == count_ && input_.done(); }
  uint32_t count() const { return count_; }
  // What the times in it count from.
  int64_t base_us() const { return base_us_; }

 private:
  Input input_;
  int64_t base_us_ = 0;
  uint32_t count_ = 0, read_ = 0;
  bool sound_ = false;
};

// Appends the key of a folded counter, and its value: a packed state that says what it counts from.
void append_key(std::string& out, uint32_t space, std::string_view key);
void append_value(std::string& out, int64_t base_us, std::string_view state);
// False: damaged.
bool parse_key(std::string_view bytes, uint32_t& space, std::string_view& key);
bool parse_value(std::string_view bytes, StoredCounter& counter);
// A value without a state: the counter is forgotten, and what older tables say of it does not
// count.
inline constexpr std::string_view forgotten_value{"\0\0\0\0\0\0\0\0", 8};
inline bool is_forgotten(std::string_view value) {
  return value.size() == forgotten_value.size();
}
// From when a folded counter may be dropped; of a damaged value INT64_MAX.
int64_t forget_us_of(std::string_view value);

// The dictionary's. The space's id is left as it is.
void append_space(std::string& out, const request::Space& space);
bool parse_space(std::string_view bytes, request::Space& space);
void append_limits(std::string& out, std::span<const limit::Limit> limits);
bool parse_limits(std::string_view bytes, std::vector<limit::Limit>& limits);

}  // namespace sluice::disk
