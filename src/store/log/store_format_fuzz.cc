// Any bytes as each part of the stored format: they are refused, or what is read is written back as
// the very same bytes. The first byte says which part.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "store/log/reading.h"

namespace {

using namespace sluice::disk;

void require(bool holds) {
  if (!holds) std::abort();
}

void counters(std::string_view bytes) {
  sluice::request::Spaces spaces;
  Names names(spaces);
  BlockCounters read(names);
  if (!read.open(bytes)) return;
  CountersWriter writer(spaces);
  bool all = true;
  while (read.next()) {
    sluice::request::CounterRecord record;
    all = read.resolve(record) && all;
    if (all) writer.add(record);
  }
  if (!read.sound() || !all) return;
  // What is written of it is read as the same.
  const WrittenBlock block = writer.take();
  const std::string body = block.body.substr(block_head_bytes) + block.rest;
  BlockCounters first(names), again(names);
  require(first.open(bytes) && again.open(body) && again.count() == read.count());
  while (first.next()) {
    sluice::request::CounterRecord one, other;
    require(again.next() && first.resolve(one) && again.resolve(other));
    require(one.space == other.space && one.key == other.key && one.forget_us == other.forget_us &&
            std::ranges::equal(one.cells, other.cells) &&
            (one.cells.empty() || one.limits_id == other.limits_id));
  }
  require(again.sound() || !again.next());
}

void space(std::string_view bytes) {
  sluice::request::Space read;
  std::string again;
  if (!parse_space(bytes, read)) return;
  append_space(again, read);
  require(again == bytes);
}

void limits(std::string_view bytes) {
  std::vector<sluice::limit::Limit> read;
  std::string again;
  if (!parse_limits(bytes, read)) return;
  append_limits(again, read);
  require(again == bytes);
}

// A file that is these bytes.
class OneFile final : public Files {
 public:
  explicit OneFile(std::string_view bytes) : bytes_(bytes) {}
  int open(const std::string&, int) override { return 100; }
  void close(int) override {}
  int64_t size(int) override { return static_cast<int64_t>(bytes_.size()); }
  ssize_t read(int, char* to, size_t bytes, uint64_t at) override {
    const std::string_view part = bytes_.substr(std::min<size_t>(at, bytes_.size()), bytes);
    std::memcpy(to, part.data(), part.size());
    return static_cast<ssize_t>(part.size());
  }

 private:
  const std::string_view bytes_;
};

void file(std::string_view bytes) {
  OneFile files(bytes);
  BlockFile read(files, "file", 0, 2);
  require(read.open(64) == 0);
  Block block;
  for (uint64_t at = 0; at < read.size();) {
    if (read.read(at, block) == BlockFile::Read::block) {
      require(block.next > at && block.next <= read.size());
      at = block.next;
      continue;
    }
    read.is_complete(at);
    const uint64_t next = read.find(at + 1, block);
    require(next > at && next <= read.size());
    read.has_hole(at, next);
    at = next;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      counters(bytes);
      break;
    case 1:
      space(bytes);
      break;
    case 2:
      limits(bytes);
      break;
    default:
      file(bytes);
  }
  return 0;
}
