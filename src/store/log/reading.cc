#include "store/log/reading.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "base/units.h"
#include "limit/left_out.h"

namespace sluice::disk {

namespace {

constexpr uint64_t sector = 512;

bool is_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

bool is_known(uint32_t type) {
  const uint32_t plain = type & ~more_follow;
  return plain >= static_cast<uint32_t>(BlockType::begin) &&
         plain <= static_cast<uint32_t>(BlockType::directory);
}

}  // namespace

int BlockFile::open(size_t ahead) {
  ahead_ = ahead;
  fd_ = files_.open(path_, O_RDONLY);
  if (fd_ < 0) return error_ = errno;
  const int64_t size = files_.size(fd_);
  if (size < 0) return error_ = errno;
  size_ = static_cast<uint64_t>(size);
  return 0;
}

void BlockFile::close() {
  if (fd_ >= 0) files_.close(fd_);
  fd_ = -1;
  held_ = {};
}

// False: they are not there, or the disk fails.
bool BlockFile::hold(uint64_t at, size_t bytes, std::string_view& out) {
  if (at < held_at_ || at + bytes > held_at_ + held_.size()) {
    error_ = 0;
    held_.resize(std::max(bytes, ahead_));
    held_at_ = at;
    const ssize_t count = files_.read(fd_, held_.data(), held_.size(), at);
    if (count < 0) error_ = errno;
    held_.resize(count < 0 ? 0 : static_cast<size_t>(count));
    if (held_.size() < bytes) {
      // Where it ends early there may be a part that cannot be read.
      char unused;
      const uint64_t end = at + held_.size();
      if (error_ == 0 && end < size_ && files_.read(fd_, &unused, 1, end) < 0) error_ = errno;
      return false;
    }
  }
  out = std::string_view(held_).substr(static_cast<size_t>(at - held_at_), bytes);
  return true;
}

BlockFile::Read BlockFile::read(uint64_t at, Block& block, uint64_t stop) {
  stop = std::min(stop, size_);
  if (at >= stop) return Read::end;
  if (stop - at < block_head_bytes) return Read::unchecked;
  std::string_view bytes;
  if (!hold(at, block_head_bytes, bytes)) return error_ != 0 ? Read::failed : Read::unchecked;
  uint32_t crc = 0;
  const BlockHead head = head_of(bytes.data(), crc);
  if (head.file != mark_ || head.length > block_bytes_max ||
      head.length > stop - at - block_head_bytes)
    return Read::unchecked;
  if (!hold(at, block_head_bytes + head.length, bytes))
    return error_ != 0 ? Read::failed : Read::unchecked;
  const std::string_view body = bytes.substr(block_head_bytes);
  if (!checks(crc, bytes.substr(4, block_head_bytes - 4), body)) return Read::unchecked;
  block = {.type = static_cast<BlockType>(head.type & ~more_follow),
           .more = (head.type & more_follow) != 0,
           .at = at,
           .next = at + bytes.size(),
           .synced = head.synced,
           .body = body};
  return Read::block;
}

BlockFile::Read BlockFile::read_begin(Block& block, FileBegin& begin) {
  std::string_view bytes;
  uint32_t crc = 0;
  const uint64_t mark = mark_;
  if (size_ >= block_head_bytes && hold(0, block_head_bytes, bytes))
    mark_ = head_of(bytes.data(), crc).file;
  Read its = read(0, block);
  if (its == Read::block && block.type == BlockType::begin && parse_begin(block.body, begin) &&
      mark_ == mark_of(begin.store, number_))
    return its;
  mark_ = mark;
  return its == Read::failed ? its : Read::unchecked;
}

uint64_t BlockFile::find(uint64_t at, Block& block) {
  for (std::string_view bytes; at + block_head_bytes <= size_; ++at) {
    if (!hold(at, block_head_bytes, bytes)) break;
    uint32_t crc = 0;
    // Rarely more than a look at the number.
    if (head_of(bytes.data(), crc).file == mark_ && read(at, block) == Read::block) return at;
  }
  return size_;
}

bool BlockFile::is_complete(uint64_t at) {
  std::string_view bytes;
  uint32_t crc = 0;
  if (at + block_head_bytes > size_ || !hold(at, block_head_bytes, bytes)) return false;
  const BlockHead head = head_of(bytes.data(), crc);
  return head.file == mark_ && head.length <= size_ - at - block_head_bytes;
}

bool BlockFile::has_only_zeros(uint64_t from) {
  std::string_view bytes;
  for (uint64_t at = from; at < size_; at += bytes.size())
    if (!hold(at, static_cast<size_t>(std::min<uint64_t>(size_ - at, std::max(ahead_, sector))),
              bytes) ||
        !is_zero(bytes))
      return false;
  return true;
}

bool BlockFile::has_hole(uint64_t from, uint64_t to) {
  std::string_view bytes;
  for (uint64_t at = from, end; at < to; at = end) {
    end = std::min(at / sector * sector + sector, size_);
    if (end <= to && hold(at, static_cast<size_t>(end - at), bytes) && is_zero(bytes)) return true;
  }
  // No block ends in so many.
  constexpr uint64_t zeros_at_end = 16;
  return to == size_ && to - from >= zeros_at_end && hold(to - zeros_at_end, zeros_at_end, bytes) &&
         is_zero(bytes);
}

bool read_texts(std::string_view body, Texts& texts) {
  Input input(body);
  std::string_view name, text;
  bool has_text = false;
  while (next_change(input, name, has_text, text))
    texts.insert_or_assign(std::string(name),
                           has_text ? std::optional<std::string>(text) : std::nullopt);
  return input.done();
}

std::string place_of(const BlockFile& file, uint64_t at) {
  return quoted(file.path()) + " at byte " + std::to_string(at);
}

const request::Space* Names::space(std::string_view stored) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = space_refs_.try_emplace(std::string(stored));
  if (!is_new) return at->second.get();
  request::Space like;
  if (!parse_space(stored, like)) return nullptr;
  request::SpaceRef ref = spaces_.hold(like.prefix, like.suffix, like);
  if (ref.get()->windows != like.windows) {
    other_windows_ = "its counters of `" + base::printable(like.prefix, 64) +
                     "` have other windows than this program gives them";
    return nullptr;
  }
  at->second = std::move(ref);
  return at->second.get();
}

uint32_t Names::limits(std::string_view stored) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = list_refs_.try_emplace(std::string(stored));
  std::vector<limit::Limit> limits;
  if (is_new && parse_limits(stored, limits)) at->second = spaces_.hold_limits(limits);
  return at->second.id();
}

std::string Names::other_windows() const {
  const std::lock_guard lock(mutex_);
  return other_windows_;
}

void Names::all_is_loaded() {
  const std::lock_guard lock(mutex_);
  space_refs_.clear();
  list_refs_.clear();
}

bool BlockCounters::open(std::string_view body) {
  const bool sound = reader_.open(body);
  spaces_.assign(reader_.spaces().size(), nullptr);
  lists_.assign(reader_.lists().size(), 0);
  return sound;
}

const request::Space* BlockCounters::space_at(size_t place) {
  const request::Space*& space = spaces_[place];
  if (space == nullptr) space = names_.space(reader_.spaces()[place]);
  return space;
}

bool BlockCounters::knows_spaces() {
  for (size_t i = 0; i < spaces_.size(); ++i)
    if (space_at(i) == nullptr) return false;
  return true;
}

bool BlockCounters::resolve(Record& record) {
  const request::Space* const space = space_at(stored_.space);
  if (space == nullptr) return false;
  record = {.space = space,
            .limits_id = 0,
            .key = stored_.key,
            .cells = stored_.state(),
            .forget_us = stored_.forget_us};
  if (stored_.cell_count == 0) return true;
  if (stored_.limits == 0) return !space->windows.empty();
  uint32_t& list = lists_[stored_.limits - 1];
  if (list == 0) list = names_.limits(reader_.lists()[stored_.limits - 1]);
  record.limits_id = list;
  return list != 0 && space->windows.empty() &&
         limit::left_out::fits(names_.spaces().limits(list), record.cells);
}

namespace {

using VisitBlock = std::function<base::Done(const BlockFile&, const Block&)>;

struct Found {
  std::unique_ptr<BlockFile> file;
  FileBegin begin;
  uint64_t first = 0;   // behind its first block
  uint64_t synced = 0;  // as that block has it
};

std::string goes_on_behind(const BlockFile& file) {
  return quoted(file.path()) + ": goes on behind an end that was never synced, and does not count";
}

base::Problem unreadable(const BlockFile& file) {
  return {with_errno(quoted(file.path()) + " cannot be read", file.error())};
}

// The first block of a log. `begun`: it is there.
base::Done open_log(Files& files, const std::string& dir, uint64_t number, Found& found,
                    bool& begun) {
  found.file = std::make_unique<BlockFile>(files, log_of(dir, number), 0, number);
  Block block;
  if (found.file->open() != 0) return unreadable(*found.file);
  const auto read = found.file->read_begin(block, found.begin);
  if (read == BlockFile::Read::failed) return unreadable(*found.file);
  begun = read == BlockFile::Read::block;
  found.first = block.next;
  found.synced = block.synced;
  found.file->close();
  return {};
}

}  // namespace

base::Result<Logs> read_logs(Files& files, const std::string& dir, const Current& current,
                             const VisitBlock& visit) {
  const auto is_damaged = [&](const std::string& what) {
    return base::Problem{damaged(dir, what)};
  };
  base::Result<std::vector<uint64_t>> numbers = numbers_of(dir, log_kind);
  if (!numbers) return std::move(numbers).problem();
  base::Result<std::optional<Synced>> synced = read_synced(files, dir);
  if (!synced) return std::move(synced).problem();
  if (*synced && (*synced)->store != current.store)
    return is_damaged("its file SYNCED is of another store");
  Logs logs;
  logs.store = current.store;
  if (*synced) logs.synced = (*synced)->position;
  const uint64_t last_named = *synced ? (*synced)->log : current.log;

  // From the newest log back: each names the one before it.
  std::vector<Found> chain;
  uint64_t wanted = 0;  // the number of the next one; 0: that of the newest
  for (auto at = numbers->rbegin(); at != numbers->rend(); ++at) {
    if (*at < current.log || (wanted != 0 && *at > wanted)) {
      logs.ignored.push_back(*at);
      continue;
    }
    if (wanted != 0 && *at < wanted) break;
    Found found;
    bool begun = false;
    if (base::Done opened = open_log(files, dir, *at, found, begun); !opened)
      return std::move(opened).problem();
    if (!begun && *at > last_named) {
      // A crash came before its first block was on the medium. So nothing behind it counts.
      for (const Found& later : chain) {
        logs.ignored.push_back(later.file->number());
        logs.torn.push_back(goes_on_behind(*later.file));
      }
      chain.clear();
      wanted = 0;
      logs.ignored.push_back(*at);
      continue;
    }
    if (!begun) return is_damaged(place_of(*found.file, 0) + " does not begin as a log does");
    if (found.begin.store != current.store)
      return is_damaged(quoted(found.file->path()) + " is of another store");
    wanted = *at == current.log ? *at : found.begin.previous;
    logs.synced = std::max(logs.synced, found.synced);
    chain.push_back(std::move(found));
    if (*at == current.log) break;
  }
  std::reverse(chain.begin(), chain.end());
  if (chain.empty() || chain.front().file->number() != current.log)
    return is_damaged(quoted(log_of(dir, wanted == 0 ? current.log : wanted)) + " is missing");
  if (chain.back().file->number() < last_named)
    return is_damaged(quoted(log_of(dir, last_named)) + " is missing");

  bool cut = false;
  for (size_t i = 0; i < chain.size() && !cut; ++i) {
    BlockFile& file = *chain[i].file;
    if (file.open() != 0) return unreadable(file);
    const bool is_last = i + 1 == chain.size();
    const uint64_t position = chain[i].begin.position;
    Logs::Log log{.number = file.number(), .position = position, .bytes = chain[i].first};
    if (i > 0 && position > logs.end())
      return is_damaged(quoted(file.path()) + " does not go on where the log before it ends");
    uint64_t stop = UINT64_MAX;
    if (!is_last) {
      stop = chain[i + 1].begin.position - position;
      if (chain[i + 1].begin.position < position + log.bytes)
        return is_damaged(quoted(chain[i + 1].file->path()) + " begins inside the log before it");
    }
    for (uint64_t at = log.bytes;;) {
      Block block;
      const auto read = file.read(at, block, stop);
      if (read == BlockFile::Read::failed) return unreadable(file);
      if (read == BlockFile::Read::block) {
        if (!is_known(static_cast<uint32_t>(block.type)))
          return base::Problem{place_of(file, at) + " has records of type " +
                               std::to_string(static_cast<uint32_t>(block.type)) +
                               ", which this version does not know; sluice " + current.reader +
                               " or later reads this store: use that, or a later one"};
        if (base::Done visited = visit(file, block); !visited) return std::move(visited).problem();
        logs.synced = std::max(logs.synced, block.synced);
        logs.blocks += block.type == BlockType::counters ? 1 : 0;
        at = block.next;
        if (!block.more) log.bytes = at;
        continue;
      }
      const uint64_t should_end = is_last ? file.size() : stop;
      if (read == BlockFile::Read::end && at >= should_end && log.bytes == at) break;
      // From here on it does not count, which must be what was never synced.
      Block later;
      const uint64_t next = read == BlockFile::Read::end ? file.size() : file.find(at + 1, later);
      if (next < file.size() && later.synced <= position + next)
        logs.synced = std::max(logs.synced, later.synced);
      if (position + log.bytes < std::min(logs.synced, position + should_end))
        return is_damaged(place_of(file, at) + " is not as it was written, though it was synced");
      // A part of what was never synced may be missing, and leaves zeros; or all behind some byte.
      const bool ends_early = next == file.size() && !file.is_complete(at);
      if (read == BlockFile::Read::unchecked && !ends_early && !file.has_hole(at, next))
        return is_damaged(place_of(file, at) + " is not as it was written");
      cut = !is_last;
      if (file.size() > log.bytes && !file.has_only_zeros(log.bytes))
        logs.torn.push_back(quoted(file.path()) + ": its end was never synced: the last " +
                            base::counted(file.size() - log.bytes, "byte") + " of " +
                            std::to_string(file.size()) + " do not count, and are cut off");
      break;
    }
    file.close();
    logs.all.push_back(log);
    if (cut)
      for (size_t later = i + 1; later < chain.size(); ++later) {
        logs.ignored.push_back(chain[later].file->number());
        logs.torn.push_back(goes_on_behind(*chain[later].file));
      }
  }
  if (logs.end() < logs.synced)
    return is_damaged(quoted(log_of(dir, logs.all.back().number)) + " ends at byte " +
                      std::to_string(logs.all.back().bytes) + ", and was synced up to byte " +
                      std::to_string(logs.synced - logs.all.back().position));
  return logs;
}

base::Done each_block(Files& files, const std::string& dir, const Logs& logs,
                      const VisitBlock& visit) {
  for (const Logs::Log& log : logs.all) {
    BlockFile file(files, log_of(dir, log.number), logs.store, log.number);
    if (file.open() != 0) return unreadable(file);
    Block block;
    for (uint64_t at = 0; at < log.bytes; at = block.next) {
      const auto read = file.read(at, block, log.bytes);
      if (read == BlockFile::Read::failed) return unreadable(file);
      if (read != BlockFile::Read::block)
        return base::Problem{damaged(dir, place_of(file, at) + " is not as it was read before")};
      if (base::Done visited = visit(file, block); !visited) return visited;
    }
  }
  return {};
}

}  // namespace sluice::disk
