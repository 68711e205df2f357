// The bytes of a store on disk (docs/store-format.md): blocks with their checksums, and what is in
// them, as pure readers and writers. A file of the store is blocks one behind the other. Any
// thread; views live as long as the bytes that were read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/limit.h"
#include "request/charge.h"
#include "request/counter_record.h"
#include "request/space.h"

namespace sluice::disk {

// CRC-32C (Castagnoli, RFC 3720 B.4) of `bytes`, continuing `crc`, which is 0 at first.
uint32_t crc32c(uint32_t crc, std::string_view bytes);
// The same without the processor's instructions for it. For tests.
uint32_t crc32c_by_table(uint32_t crc, std::string_view bytes);

enum class BlockType : uint32_t {
  begin = 1,     // the first of each file
  counters = 2,  // states of counters
  texts = 3,     // texts by name, or that they are gone
  end = 4,       // the last of a log that was closed
  names = 5,     // before each block of counters in a snapshot: the ends of their hashes
  directory = 6  // the last of a snapshot: where its blocks are
};
// Added to the type of a block of a commit that goes on in the next one.
inline constexpr uint32_t more_follow = 0x100;

inline constexpr size_t block_head_bytes = 28;
// The most bytes of a block's body that this program writes and reads.
inline constexpr size_t block_bytes_max = size_t{64} << 20;

// What stands before a block's body, but for its checksum.
struct BlockHead {
  uint32_t length = 0;  // of the body
  uint64_t file = 0;    // mark_of its file
  uint64_t synced = 0;  // the position in the log up to which all was on the medium by then
  uint32_t type = 0;    // a BlockType, and more_follow
};
// What stands in each block of a file, so that nothing else is taken for one: neither a block of
// another file, nor bytes of a key, as no client knows the store's id.
inline uint64_t mark_of(uint64_t store, uint64_t file) {
  return store + file;
}
// Writes block_head_bytes bytes, for a body in two parts.
void put_head(char* to, const BlockHead& head, std::string_view body, std::string_view rest = {});
// Of block_head_bytes bytes; `crc` is their checksum.
BlockHead head_of(const char* bytes, uint32_t& crc);
// Are these the head's bytes, without the checksum in front, and the body of that checksum?
bool checks(uint32_t crc, std::string_view head, std::string_view body);

// Numbers of varying length: seven bits a byte, the lowest first, the top bit set on all but the
// last; signed ones in zigzag. Only the shortest form of a number is read, so that what is read is
// written back the same.
inline constexpr size_t varint_bytes_max = 10;

// Room for varint_bytes_max bytes. Returns the end.
inline char* put_varint(char* at, uint64_t n) {
  while (n >= 0x80) {
    *at++ = static_cast<char>(n | 0x80);
    n >>= 7;
  }
  *at++ = static_cast<char>(n);
  return at;
}
void append_varint(std::string& out, uint64_t n);
void append_text(std::string& out, std::string_view text);
void append_fixed64(std::string& out, uint64_t n);

inline uint64_t zigzag(int64_t n) {
  return (static_cast<uint64_t>(n) << 1) ^ (n < 0 ? ~uint64_t{0} : 0);
}
inline int64_t unzigzag(uint64_t n) {
  return static_cast<int64_t>((n >> 1) ^ (0 - (n & 1)));
}

// Differences wrap around, so every pair of numbers has one and it always leads back.
inline int64_t wrapped_minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrapped_plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Takes from the front of a text. Each call says whether it was there; after one that was not, the
// rest means nothing.
class Input {
 public:
  Input() = default;
  explicit Input(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool done() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  bool varint(uint64_t& n) {
    if (at_ < end_ && static_cast<signed char>(*at_) >= 0) {
      n = static_cast<uint64_t>(static_cast<unsigned char>(*at_++));
      return true;
    }
    return long_varint(n);
  }
  bool number(int64_t& n) {
    uint64_t coded;
    if (!varint(coded)) return false;
    n = unzigzag(coded);
    return true;
  }
  bool fixed32(uint32_t& n) { return fixed(n); }
  bool fixed64(uint64_t& n) { return fixed(n); }
  bool bytes(size_t count, std::string_view& out) {
    if (count > left()) return false;
    out = {at_, count};
    at_ += count;
    return true;
  }
  // With its length in front.
  bool text(std::string_view& out) {
    uint64_t size;
    return varint(size) && size <= left() && bytes(static_cast<size_t>(size), out);
  }

 private:
  bool long_varint(uint64_t& n);
  template <class Integer>
  bool fixed(Integer& n) {
    std::string_view its;
    if (!bytes(sizeof n, its)) return false;
    n = 0;
    for (size_t i = 0; i < sizeof n; ++i)
      n |=
          static_cast<Integer>(static_cast<Integer>(static_cast<unsigned char>(its[i])) << (8 * i));
    return true;
  }

  const char *at_ = nullptr, *end_ = nullptr;
};

// A block before it is written: `body` leaves room for its head.
struct WrittenBlock {
  BlockType type{};
  std::string body;  // behind block_head_bytes of room
  std::string rest;  // of the body

  explicit WrittenBlock(BlockType its_type) : type(its_type), body(block_head_bytes, '\0') {}
  size_t bytes() const { return body.size() + rest.size(); }
  // Fills in the head.
  void seal(uint64_t file, uint64_t synced, bool more = false);
};

// The body of a block `counters`: the spaces and lists of limits that its records name, by their
// places, and the records.
struct StoredCounter {
  uint32_t space = 0;  // its place in the block
  std::string_view key;
  uint32_t limits = 0;    // the place of its list, from 1; 0: the counter keeps its limits
  size_t cell_count = 0;  // none: it is forgotten
  std::array<limit::State, limit::counter_cells_max> cells;
  int64_t forget_us = INT64_MAX;

  std::span<const limit::State> state() const { return {cells.data(), cell_count}; }
};

// Makes such blocks. One thread.
class CountersWriter {
 public:
  // `spaces` outlives it.
  explicit CountersWriter(const request::Spaces& spaces) : spaces_(&spaces) {}
  // Has room for so many bytes of records, so that a block of a known size wastes none.
  void reserve(size_t bytes) {
    if (records_.size() < bytes) records_.resize(bytes);
  }
  // A later state of the same counter counts for both.
  void add(const request::CounterRecord& record);
  size_t count() const { return count_; }
  size_t bytes() const { return used_ + spaces_text_.size() + lists_text_.size(); }
  // The block; empty again afterwards.
  WrittenBlock take();

 private:
  // Which place an id has in the block. Ids are used again for others, with other serials.
  class Places {
   public:
    // One that has none yet gets the next one, and its text is added to `texts`.
    template <class Append>
    uint32_t of(uint32_t id, uint32_t serial, std::string& texts, const Append& append);
    uint32_t count() const { return count_; }
    void clear();

   private:
    struct Slot {
      uint32_t id, serial, place, round;
    };
    std::vector<Slot> slots_;
    uint32_t count_ = 0, round_ = 1;
  };

  const request::Spaces* spaces_;
  Places space_places_, list_places_;
  std::string spaces_text_, lists_text_;
  std::string records_;  // its size is its capacity
  size_t used_ = 0, count_ = 0;
  int64_t base_us_ = 0;
};

// Reads the body of such a block from front to end. One thread; may be used for block after block.
class CountersReader {
 public:
  // False: it is damaged.
  bool open(std::string_view body);
  // False: the end, or the block is damaged there.
  bool next(StoredCounter& counter);
  // Behind the last one: were all of them whole?
  bool sound() const { return sound_ && read_ == count_ && input_.done(); }
  uint64_t count() const { return count_; }
  // What it defines (parse_space, parse_limits).
  std::span<const std::string_view> spaces() const { return spaces_; }
  std::span<const std::string_view> lists() const { return lists_; }

 private:
  bool define(std::vector<std::string_view>& all);
  bool read_state(StoredCounter& counter);

  Input input_;
  std::vector<std::string_view> spaces_, lists_;
  int64_t base_us_ = 0;
  uint64_t count_ = 0, read_ = 0;
  bool sound_ = false;
};

// A space's id is left as it is.
void append_space(std::string& out, const request::Space& space);
bool parse_space(std::string_view bytes, request::Space& space);
void append_limits(std::string& out, std::span<const limit::Limit> limits);
bool parse_limits(std::string_view bytes, std::vector<limit::Limit>& limits);
// Both, as the texts of holds have them (store/notes.h).
void append_list(std::string& out, const request::Space& space,
                 std::span<const limit::Limit> limits);
bool parse_list(std::string_view bytes, request::Space& space, std::vector<limit::Limit>& limits);

// In a block `texts`.
void append_change(std::string& out, std::string_view name, const std::string_view* text);
// False: the end, or the block is damaged there, which `input.done()` tells apart. `has_text`: else
// the text of that name is gone.
bool next_change(Input& input, std::string_view& name, bool& has_text, std::string_view& text);

// What a block `begin` says of its file.
struct FileBegin {
  uint64_t store = 0;     // the store's id, at random
  uint64_t previous = 0;  // a log: the number of the one before; 0: it is the first
  uint64_t position = 0;  // a log: where its first byte stands, and that one's last
};
std::string text_of(const FileBegin& begin);
bool parse_begin(std::string_view bytes, FileBegin& begin);

// The hash of a counter's name, by which a snapshot is searched.
uint64_t hash_of(const request::Space& space);
inline uint64_t hash_of(uint64_t of_space, uint64_t of_key) {
  uint64_t hash = of_space ^ of_key;
  hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

}  // namespace sluice::disk
