#include "store/log/snapshot.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/hash.h"

namespace sluice::disk {

namespace {

constexpr uint64_t sync_every = uint64_t{8} << 20;  // bytes, so that no sync takes long
constexpr uint64_t gentle_bytes_a_second = uint64_t{64} << 20;
constexpr size_t texts_bytes = size_t{64} << 10;  // of a block of them

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint16_t end_of(uint64_t hash) {
  return static_cast<uint16_t>(hash);
}

// Is there the hash's end in a block `names`?
bool has_end(std::string_view ends, uint16_t end) {
  bool found = false;
  for (size_t i = 0; i + 1 < ends.size(); i += 2) {
    uint16_t one;
    std::memcpy(&one, ends.data() + i, sizeof one);
    found |= one == end;
  }
  return found;
}
static_assert(std::endian::native == std::endian::little);

}  // namespace

SnapshotWriter::SnapshotWriter(Files& files, const request::Spaces& spaces, const std::string& dir,
                               uint64_t store, uint64_t number, uint64_t counters, bool gently)
    : files_(files),
      store_(store_of(dir)),
      path_(snapshot_of(dir, number)),
      store_id_(store),
      number_(number),
      gently_(gently),
      began_us_(now_us()) {
  // As many parts as give each a block or so.
  const size_t wanted = std::bit_ceil(static_cast<size_t>(counters / 256 + 2));
  const size_t parts = std::clamp<size_t>(wanted, 2, parts_max);
  shift_ = 64 - std::countr_zero(parts);
  parts_.assign(parts, {CountersWriter(spaces), {}});
  fd_ = files_.open(path_ + ".new", O_CREAT | O_TRUNC | O_RDWR);
  if (fd_ < 0) error_ = errno;
  WrittenBlock begin(BlockType::begin);
  begin.body += text_of(FileBegin{.store = store_id_, .previous = 0, .position = 0});
  write(std::move(begin));
}

SnapshotWriter::~SnapshotWriter() {
  if (fd_ < 0) return;
  files_.close(fd_);
  files_.remove(path_ + ".new");
}

bool SnapshotWriter::write(WrittenBlock block) {
  if (error_ != 0) return false;
  block.seal(mark_of(store_id_, number_), 0);
  const std::string_view parts[] = {block.body, block.rest};
  if (!files_.write(fd_, parts, at_)) {
    error_ = errno;
    return false;
  }
  at_ += block.bytes();
  if (at_ - synced_at_ < sync_every) return true;
  if (!files_.sync(fd_)) error_ = errno;
  synced_at_ = at_;
  if (gently_) {
    const auto least_us = static_cast<int64_t>(at_ * 1'000'000 / gentle_bytes_a_second);
    const int64_t early_us = began_us_ + least_us - now_us();
    if (early_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(early_us));
  }
  return error_ == 0;
}

bool SnapshotWriter::add_text(std::string_view name, std::string_view text) {
  append_change(texts_.body, name, &text);
  return texts_.body.size() < texts_bytes ? error_ == 0 : write_texts();
}

bool SnapshotWriter::write_texts() {
  if (texts_.body.size() == block_head_bytes) return error_ == 0;
  return write(std::exchange(texts_, WrittenBlock(BlockType::texts)));
}

bool SnapshotWriter::add(const Record& record) {
  if (record.cells.empty()) return error_ == 0;
  const request::Space& space = *record.space;
  if (space.id >= space_hashes_.size()) {
    space_hashes_.resize(space.id + 1);
    space_serials_.resize(space.id + 1, UINT32_MAX);
  }
  if (space_serials_[space.id] != space.serial) {
    space_serials_[space.id] = space.serial;
    space_hashes_[space.id] = hash_of(space);
    if (!space.windows.empty()) {
      std::string text;
      append_space(text, space);
      append_text(spaces_text_, text);
      ++spaces_count_;
    }
  }
  const uint64_t hash = hash_of(space_hashes_[space.id], base::digest(record.key));
  const size_t number = static_cast<size_t>(hash >> shift_);
  Part& part = parts_[number];
  part.counters.reserve(part_bytes + part_spare);
  part.counters.add(record);
  const uint16_t end = end_of(hash);
  part.hashes.append(reinterpret_cast<const char*>(&end), sizeof end);
  ++counters_;
  return part.counters.bytes() < part_bytes ? error_ == 0 : write_part(number);
}

bool SnapshotWriter::write_part(size_t number) {
  if (blocks_ == 0 && !write_texts()) return false;
  Part& part = parts_[number];
  const size_t count = part.counters.count();
  WrittenBlock names(BlockType::names);
  names.rest.swap(part.hashes);
  WrittenBlock block = part.counters.take();
  append_varint(directory_, number);
  append_varint(directory_, count);
  append_varint(directory_, block.bytes() - block_head_bytes);
  append_varint(directory_, at_);
  ++blocks_;
  return write(std::move(names)) && write(std::move(block));
}

base::Done SnapshotWriter::finish(Current& current) {
  write_texts();
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].counters.count() > 0) write_part(i);
  WrittenBlock block(BlockType::directory);
  append_varint(block.body, counters_);
  append_varint(block.body, static_cast<uint64_t>(64 - shift_));
  append_varint(block.body, blocks_);
  block.body += directory_;
  append_varint(block.body, spaces_count_);
  block.rest.swap(spaces_text_);
  const uint64_t directory = at_;
  block.seal(mark_of(store_id_, number_), 0);
  uint32_t crc = 0;
  head_of(block.body.data(), crc);
  if (block.bytes() - block_head_bytes > block_bytes_max && error_ == 0) error_ = EFBIG;
  bool done = write(std::move(block));
  if (done && !files_.sync(fd_)) {
    error_ = errno;
    done = false;
  }
  if (done && !(files_.rename(path_ + ".new", path_) && files_.sync_folder(store_))) {
    error_ = errno;
    done = false;
  }
  if (!done) return base::Problem{with_errno(quoted(path_) + " cannot be written", error_)};
  files_.close(std::exchange(fd_, -1));
  current.snapshot = number_;
  current.directory = directory;
  current.directory_crc = crc;
  return {};
}

base::Result<std::unique_ptr<SnapshotReader>> SnapshotReader::open(Files& files,
                                                                   const std::string& dir,
                                                                   const Current& current,
                                                                   Names& names) {
  std::unique_ptr<SnapshotReader> reader(new SnapshotReader(
      files, snapshot_of(dir, current.snapshot), current.store, current.snapshot, names));
  if (base::Done read = reader->read_directory(dir, current); !read)
    return std::move(read).problem();
  return reader;
}

base::Done SnapshotReader::read_directory(const std::string& dir, const Current& current) {
  BlockFile file(files_, path_, store_, number_);
  const auto is_damaged = [&](uint64_t at, const std::string& what) {
    return base::Problem{damaged(dir, place_of(file, at) + " " + what)};
  };
  if (const int error = file.open(); error == ENOENT)
    return base::Problem{damaged(dir, quoted(path_) + " is missing")};
  else if (error != 0)
    return base::Problem{with_errno(quoted(path_) + " cannot be read", error)};
  Block block;
  FileBegin begin;
  auto read = file.read_begin(block, begin);
  if (read == BlockFile::Read::unchecked ||
      (read == BlockFile::Read::block && begin.store != current.store))
    return is_damaged(0, "does not begin as a snapshot of this store does");
  if (read == BlockFile::Read::block) read = file.read(current.directory, block);
  if (read == BlockFile::Read::failed)
    return base::Problem{with_errno(quoted(path_) + " cannot be read", file.error())};
  if (read != BlockFile::Read::block || block.type != BlockType::directory ||
      block.next != file.size())
    return is_damaged(current.directory, "has no directory, as CURRENT says");
  char head[block_head_bytes];
  uint32_t crc = 0;
  put_head(head,
           {.length = static_cast<uint32_t>(block.body.size()),
            .file = mark_of(store_, number_),
            .type = static_cast<uint32_t>(BlockType::directory)},
           block.body);
  head_of(head, crc);
  if (crc != current.directory_crc) return is_damaged(0, "is another one than CURRENT names");
  bytes_ = file.size();

  Input input(block.body);
  uint64_t bits = 0, count = 0;
  bool sound = input.varint(counters_) && input.varint(bits) && bits >= 1 && bits <= 16 &&
               input.varint(count) && count <= input.left();
  shift_ = 64 - static_cast<int>(bits);
  by_part_.resize(sound ? size_t{1} << bits : 0);
  for (uint64_t i = 0; sound && i < count; ++i) {
    uint64_t part, counters, length, at;
    sound = input.varint(part) && part < by_part_.size() && input.varint(counters) &&
            input.varint(length) && length <= block_bytes_max && counters <= length &&
            input.varint(at);
    if (!sound) break;
    by_part_[part].push_back(static_cast<uint32_t>(blocks_.size()));
    blocks_.push_back({at, static_cast<uint32_t>(part), static_cast<uint32_t>(counters),
                       static_cast<uint32_t>(length)});
  }
  uint64_t spaces = 0;
  sound = sound && input.varint(spaces);
  for (std::string_view text; sound && spaces > 0; --spaces) {
    sound = input.text(text);
    if (sound && names_.space(text) == nullptr) {
      const std::string other = names_.other_windows();
      return base::Problem{damaged(
          dir, other.empty() ? place_of(file, current.directory) + " names a space that is damaged"
                             : other)};
    }
  }
  if (!sound || !input.done()) return is_damaged(current.directory, "cannot be read");
  return {};
}

base::Done SnapshotReader::texts(const VisitText& visit) const {
  BlockFile file(files_, path_, store_, number_);
  const auto unreadable = [&](uint64_t at) {
    return base::Problem{place_of(file, at) + " cannot be read" +
                         (file.error() != 0 ? with_errno("", file.error()) : "")};
  };
  if (file.open() != 0) return unreadable(0);
  Block block;
  if (file.read(0, block) != BlockFile::Read::block) return unreadable(0);
  for (uint64_t at = block.next;; at = block.next) {
    if (file.read(at, block) != BlockFile::Read::block) return unreadable(at);
    if (block.type != BlockType::texts) return {};
    Input input(block.body);
    std::string_view name, text;
    bool has_text = false;
    while (next_change(input, name, has_text, text)) visit(name, text);
    if (!input.done()) return unreadable(at);
  }
}

base::Done SnapshotReader::block(size_t number,
                                 const std::function<base::Done(BlockCounters&)>& visit) const {
  BlockFile file(files_, path_, store_, number_);
  const Place& place = blocks_[number];
  Block block;
  BlockCounters counters(names_);
  const size_t bytes = 2 * block_head_bytes + 2 * size_t{place.count} + place.length;
  if (file.open(bytes) == 0 && file.read(place.at, block) == BlockFile::Read::block &&
      file.read(block.next, block) == BlockFile::Read::block && block.type == BlockType::counters &&
      counters.open(block.body) && counters.count() == place.count)
    return visit(counters);
  return base::Problem{place_of(file, place.at) + " cannot be read" +
                       (file.error() != 0 ? with_errno("", file.error()) : "")};
}

bool SnapshotReader::may_have(size_t number, size_t part, size_t of) const {
  // Both numbers are powers of two.
  const size_t its = blocks_[number].part, all = by_part_.size();
  return of > all ? part / (of / all) == its : its / (all / of) == part;
}

Journal::Found SnapshotReader::find(const request::Space& space, std::string_view key,
                                    base::Time now, const Visit& visit) const {
  using Found = Journal::Found;
  const uint64_t hash = hash_of(hash_of(space), base::digest(key));
  BlockFile file(files_, path_, store_, number_);
  bool opened = false;
  for (const uint32_t number : by_part_[hash >> shift_]) {
    const Place& place = blocks_[number];
    if (!std::exchange(opened, true) && file.open(0) != 0) return Found::failed;
    Block block;
    // No more is read than these.
    const uint64_t names_end = place.at + block_head_bytes + 2 * uint64_t{place.count};
    if (file.read(place.at, block, names_end) != BlockFile::Read::block ||
        block.type != BlockType::names)
      return Found::failed;
    if (!has_end(block.body, end_of(hash))) continue;
    BlockCounters counters(names_);
    if (file.read(names_end, block, names_end + block_head_bytes + place.length) !=
            BlockFile::Read::block ||
        block.type != BlockType::counters || !counters.open(block.body))
      return Found::failed;
    while (counters.next()) {
      if (counters.stored().key != key) continue;
      Record record;
      if (!counters.resolve(record)) return Found::failed;
      if (record.space != &space) continue;
      if (record.forget_us <= now.us) return Found::no;
      visit(record);
      return Found::yes;
    }
    if (!counters.sound()) return Found::failed;
  }
  return Found::no;
}

}  // namespace sluice::disk
