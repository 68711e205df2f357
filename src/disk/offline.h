// A store as a tool has it open: its databases, the dictionary, and the lock. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "disk/dictionary.h"
#include "disk/keys.h"
#include "disk/layout.h"
#include "disk/log_marks.h"
#include "disk/rocks.h"

namespace sluice::disk {

struct Offline {
  Offline(const std::string& path, request::Spaces& spaces)
      : dir(path),
        dictionary(spaces),
        counters(counters_of(path), counters_options({})),
        blocks(blocks_of(path), blocks_options()),
        texts(texts_of(path), texts_options()) {}

  // Counters and blocks.
  base::Done open(bool to_write);
  // A part that has a log: what is torn is skipped, or cut off. `wrong`: what is damaged.
  rocksdb::Status open_logged(Rocks& part, LogMarks::Of of, bool to_write, std::string& wrong);
  // The texts, to be read. `wrong`: what is missing.
  rocksdb::Status open_texts(std::string& wrong);

  // As disk::each_block, of those that are not folded.
  template <class VisitBlock>
  rocksdb::Status each_block(VisitBlock&& visit) {
    uint64_t folded = 0;
    const rocksdb::Status status =
        counters.use([&](rocksdb::DB& db) { return read_folded(db, folded); });
    if (!status.ok()) return status;
    return blocks.use([&](rocksdb::DB& db) {
      return disk::each_block(db, [&](uint64_t number, std::string_view bytes) {
        return number <= folded ? rocksdb::Status::OK() : visit(number, bytes);
      });
    });
  }

  const std::string dir;
  Lock lock;
  Dictionary dictionary;
  Rocks counters, blocks, texts;
  std::vector<std::string> torn;  // ends of logs that do not count, for people
};

}  // namespace sluice::disk
