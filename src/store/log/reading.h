// Reading a store: the blocks of one file; the logs behind a snapshot, as far as they count; and
// what stored names stand for in this process. What each caller may read at a time is said below.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "request/counter_record.h"
#include "request/space.h"
#include "store/log/files.h"
#include "store/log/folder.h"
#include "store/log/format.h"
#include "store/log/journal.h"

namespace sluice::disk {

struct Block {
  BlockType type{};
  bool more = false;  // its commit goes on in the next block
  uint64_t at = 0, next = 0;
  uint64_t synced = 0;
  std::string_view body;  // until the next call of its file
};

// One file of a store, block by block. One thread.
class BlockFile {
 public:
  enum class Read : uint8_t {
    block,
    end,        // there is nothing there
    unchecked,  // the bytes there are not a block of this file
    failed      // the disk: `error`
  };

  // `store`: its id; any, if the first call is read_begin.
  BlockFile(Files& files, std::string path, uint64_t store, uint64_t number)
      : files_(files), path_(std::move(path)), number_(number), mark_(mark_of(store, number)) {}
  ~BlockFile() { close(); }
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  // 0, or why not. Each read of the file takes so many bytes at least.
  int open(size_t ahead = size_t{256} << 10);
  void close();
  // The block at `at`; nothing behind `stop` counts.
  Read read(uint64_t at, Block& block, uint64_t stop = UINT64_MAX);
  // The first block, which says of which store the file is.
  Read read_begin(Block& block, FileBegin& begin);
  // Where the next block begins from `at` on, whatever lies before it; `size()`: there is none.
  uint64_t find(uint64_t at, Block& block);
  // Is there all of a block that begins at `at`, as its head says?
  bool is_complete(uint64_t at);
  // Is everything from there on zero?
  bool has_only_zeros(uint64_t from);
  // Are there zeros in [from, to) up to the end of a sector or of the file, as a write leaves them
  // that was lost there?
  bool has_hole(uint64_t from, uint64_t to);

  uint64_t size() const { return size_; }
  int error() const { return error_; }
  const std::string& path() const { return path_; }
  uint64_t number() const { return number_; }

 private:
  bool hold(uint64_t at, size_t bytes, std::string_view& out);

  Files& files_;
  const std::string path_;
  const uint64_t number_;
  uint64_t mark_;
  int fd_ = -1, error_ = 0;
  uint64_t size_ = 0;
  size_t ahead_ = 0;
  std::string held_;  // bytes of the file from held_at_ on
  uint64_t held_at_ = 0;
};

// Reads the body of a block `texts` into `texts`, by name; nothing: the text is gone. False: it is
// damaged.
using Texts = std::map<std::string, std::optional<std::string>>;
bool read_texts(std::string_view body, Texts& texts);

// "FILE at byte N"
std::string place_of(const BlockFile& file, uint64_t at);

// What stored spaces and lists of limits are in this process, which keeps them known until
// `all_is_loaded` (request/space.h). Any thread.
class Names {
 public:
  // `spaces` outlives it.
  explicit Names(request::Spaces& spaces) : spaces_(spaces) {}
  // Null: it is damaged; or other windows than it had are given to it now, which `other_windows`
  // says.
  const request::Space* space(std::string_view stored);
  // 0: it is damaged.
  uint32_t limits(std::string_view stored);
  std::string other_windows() const;
  void all_is_loaded();
  request::Spaces& spaces() { return spaces_; }

 private:
  request::Spaces& spaces_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, request::SpaceRef> space_refs_;
  std::unordered_map<std::string, request::LimitsRef> list_refs_;
  std::string other_windows_;
};

// Reads the counters of blocks. One thread.
class BlockCounters {
 public:
  explicit BlockCounters(Names& names) : names_(names) {}

  // Begins with a block's body. False: it is damaged.
  bool open(std::string_view body);
  bool next() { return reader_.next(stored_); }
  bool sound() const { return reader_.sound(); }
  uint64_t count() const { return reader_.count(); }
  const StoredCounter& stored() const { return stored_; }
  std::string_view space_text() const { return reader_.spaces()[stored_.space]; }
  // False: what it names is damaged, or its state does not fit that.
  bool resolve(Record& record);
  // Are all spaces that the block defines what they are here?
  bool knows_spaces();

 private:
  const request::Space* space_at(size_t place);

  Names& names_;
  CountersReader reader_;
  StoredCounter stored_;
  std::vector<const request::Space*> spaces_;
  std::vector<uint32_t> lists_;
};

// The logs of a store, as far as they count.
struct Logs {
  uint64_t store = 0;  // of which they are
  struct Log {
    uint64_t number = 0;
    uint64_t position = 0;  // where its first byte stands
    uint64_t bytes = 0;     // that count
  };
  std::vector<Log> all;           // in order
  std::vector<uint64_t> ignored;  // numbers of others: left over, or behind an end
  uint64_t synced = 0;            // the position up to which all was on the medium
  uint64_t counters = 0, blocks = 0;
  std::vector<std::string> torn;  // ends that do not count, for people

  uint64_t end() const { return all.back().position + all.back().bytes; }
  uint64_t bytes() const { return end() - all.front().position; }
};

// Finds out which of a store's logs count, and up to where. Reads all of them; `visit` is called
// with each block in order, also with those of a commit that turns out not to be whole. The
// problem: damage, or a disk that fails.
base::Result<Logs> read_logs(
    Files& files, const std::string& dir, const Current& current,
    const std::function<base::Done(const BlockFile&, const Block&)>& visit);

// Calls `visit(file, block)` for the blocks of logs that were read before, until it returns a
// problem. Any number of threads.
base::Done each_block(Files& files, const std::string& dir, const Logs& logs,
                      const std::function<base::Done(const BlockFile&, const Block&)>& visit);

}  // namespace sluice::disk
