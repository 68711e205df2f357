// A snapshot: the texts and counters of a store in one file, from which a start loads them. Its
// counters are in blocks by the first bits of the hash of their names, and each block has the ends
// of these hashes before it, so that one counter is found without reading the others.
//
//   memory   of the writer: parts_max buffers of part_bytes; of the reader: 24 bytes a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "request/space.h"
#include "store/log/files.h"
#include "store/log/folder.h"
#include "store/log/format.h"
#include "store/log/reading.h"

namespace sluice::disk {

// Writes one, in `snapshot-N.new`, which becomes `snapshot-N` when it is whole and on the medium.
// One thread.
class SnapshotWriter {
 public:
  static constexpr size_t parts_max = 512, part_bytes = size_t{8} << 10, part_spare = 512;

  // Of the store in `dir`. About so many counters are expected. `gently`: at most 64 MiB a second.
  SnapshotWriter(Files& files, const request::Spaces& spaces, const std::string& dir,
                 uint64_t store, uint64_t number, uint64_t counters, bool gently);
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  // Texts come before counters. False, here and below: it cannot be written, and finish() says why.
  bool add_text(std::string_view name, std::string_view text);
  bool add(const Record& record);
  bool sound() const { return error_ == 0; }
  // Sets the snapshot's place in `current`.
  base::Done finish(Current& current);

 private:
  struct Part {
    CountersWriter counters;
    std::string hashes;  // the last 16 bits of each
  };
  bool write(WrittenBlock block);
  bool write_part(size_t number);
  bool write_texts();

  Files& files_;
  const std::string store_, path_;
  const uint64_t store_id_, number_;
  const bool gently_;
  int fd_ = -1, error_ = 0;
  uint64_t at_ = 0, synced_at_ = 0, counters_ = 0, blocks_ = 0;
  WrittenBlock texts_{BlockType::texts};
  int shift_ = 63;  // of a hash, to the number of its part
  std::vector<Part> parts_;
  std::string directory_;               // of the blocks so far
  std::vector<uint64_t> space_hashes_;  // by id; and of which space
  std::vector<uint32_t> space_serials_;
  std::string spaces_text_;
  uint64_t spaces_count_ = 0;
  int64_t began_us_ = 0;
};

// Reads one. Each call opens the file anew where it needs to, so any number of threads.
class SnapshotReader {
 public:
  // That which CURRENT names. The problem: damage, or a disk that fails.
  static base::Result<std::unique_ptr<SnapshotReader>> open(Files& files, const std::string& dir,
                                                            const Current& current, Names& names);

  uint64_t counters() const { return counters_; }
  uint64_t bytes() const { return bytes_; }
  size_t blocks() const { return blocks_.size(); }
  // Visits the texts in the order of their names.
  base::Done texts(const VisitText& visit) const;
  // Calls `visit(counters)` with block `number` opened.
  base::Done block(size_t number, const std::function<base::Done(BlockCounters&)>& visit) const;
  // May block `number` have counters of part `part` of `of` equal parts of the hashes?
  bool may_have(size_t number, size_t part, size_t of) const;
  // The counter of that name; `visit` gets it unless it is past its time.
  Journal::Found find(const request::Space& space, std::string_view key, base::Time now,
                      const Visit& visit) const;

 private:
  struct Place {
    uint64_t at;                   // of the block `names`
    uint32_t part, count, length;  // length: of the body of the block of counters
  };

  SnapshotReader(Files& files, std::string path, uint64_t store, uint64_t number, Names& names)
      : files_(files), path_(std::move(path)), store_(store), number_(number), names_(names) {}
  base::Done read_directory(const std::string& dir, const Current& current);

  Files& files_;
  const std::string path_;
  const uint64_t store_, number_;
  Names& names_;
  uint64_t counters_ = 0, bytes_ = 0;
  int shift_ = 63;
  std::vector<Place> blocks_;
  std::vector<std::vector<uint32_t>> by_part_;
};

}  // namespace sluice::disk
