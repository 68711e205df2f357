// The keys of the database that holds blocks and dictionary, and reading what is under them. Used
// by the journal and the tools, each on a thread of its own.
#pragma once

#include <rocksdb/db.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "disk/dictionary.h"

namespace sluice::disk {

inline constexpr std::string_view epoch_key = "epoch";

// Among the folded counters, before all of them: the number of the last block that is folded. It is
// in the table of each fold, so whatever happens to the drop of the blocks, none is folded twice.
inline constexpr std::string_view folded_key{"\0", 1};
inline constexpr std::string_view first_counter_key{"\1", 1};
std::string folded_value(uint64_t number);
rocksdb::Status read_folded(rocksdb::DB& counters, uint64_t& number);

// 'b' and the block's number, the highest byte first.
class BlockKey {
 public:
  explicit BlockKey(uint64_t number) {
    bytes_[0] = 'b';
    for (size_t i = 0; i < 8; ++i) bytes_[1 + i] = static_cast<char>(number >> (56 - 8 * i));
  }
  operator rocksdb::Slice() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::array<char, 9> bytes_;
};

// Numbers of blocks rise for ever: each opening has a range of its own.
constexpr uint64_t first_number(uint64_t epoch) {
  return epoch << 40;
}

constexpr uint64_t epoch_of(uint64_t number) {
  return number >> 40;
}

std::string dictionary_key(bool is_space, uint32_t number);
// 0: the key is none of the dictionary's.
uint32_t dictionary_number(std::string_view key);
std::string epoch_value(uint64_t epoch);

// `wrong`: what cannot be understood, which is damage. It is not part of a base::Result, here and
// in the rest of this folder, because callers tell damage, which `repair` notes and goes on after,
// from a disk that cannot be read, which is the Status.
rocksdb::Status read_dictionary(rocksdb::DB& db, Dictionary& dictionary, std::string& wrong);
rocksdb::Status read_epoch(rocksdb::DB& db, uint64_t& epoch);
// 0: there is no block.
rocksdb::Status read_last_block(rocksdb::DB& db, uint64_t& number);

// `visit(number, bytes)` for each block, oldest first, until it returns a Status that is not ok.
template <class VisitBlock>
rocksdb::Status each_block(rocksdb::DB& db, VisitBlock&& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
  for (at->Seek("b"); at->Valid() && at->key().starts_with("b"); at->Next()) {
    const rocksdb::Slice key = at->key();
    if (key.size() != 9) return rocksdb::Status::Corruption("a block has no number");
    uint64_t number = 0;
    for (size_t i = 1; i < key.size(); ++i)
      number = number << 8 | static_cast<unsigned char>(key[i]);
    const rocksdb::Status status = visit(number, at->value().ToStringView());
    if (!status.ok()) return status;
  }
  return at->status();
}

}  // namespace sluice::disk
