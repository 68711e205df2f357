#include "store/log/log_journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"
#include "store/notes.h"

namespace sluice::disk {

namespace {

// A commit is cut into blocks of about so many bytes.
constexpr size_t block_bytes = size_t{1} << 20;
// With `sync` the log grows by so many bytes at a time.
constexpr uint64_t reserve_bytes = uint64_t{1} << 20;
constexpr int snapshot_niceness = 19;
constexpr auto after_failure = std::chrono::seconds(10), longest_rest = std::chrono::seconds(640);
// How long a snapshot waits for a commit to begin its log.
constexpr auto roll_wait = std::chrono::milliseconds(200);
constexpr size_t log_head_bytes = block_head_bytes + 24;  // the first block of a log

// What leaves the folder as it was: a later try may succeed.
bool is_disk_trouble(int error) {
  return error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS || error == EFBIG;
}

// Moves texts to others, in whose place they come. Takes no memory, and looks at these alone.
void take_over(Texts& from, Texts& to) {
  while (!from.empty()) {
    auto one = from.extract(from.begin());
    if (const auto at = to.find(one.key()); at != to.end())
      at->second = std::move(one.mapped());
    else
      to.insert(std::move(one));
  }
}

}  // namespace

base::Result<std::unique_ptr<Journal>> Journal::open(JournalOptions options,
                                                     request::Spaces& spaces) {
  auto journal = std::make_unique<LogJournal>(std::move(options), spaces);
  if (base::Done done = journal->open(); !done) return std::move(done).problem();
  return std::unique_ptr<Journal>(std::move(journal));
}

LogJournal::LogJournal(JournalOptions options, request::Spaces& spaces, const LogSizes& sizes,
                       Files& files)
    : options_(std::move(options)),
      sizes_(sizes),
      files_(files),
      spaces_(spaces),
      names_(spaces),
      writer_(spaces) {
  SLUICE_CHECK(options_.now != nullptr);
}

LogJournal::~LogJournal() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    stopping_ = true;
  }
  called_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  try {
    if (begun_ && !broken_) {
      std::vector<WrittenBlock> last(1, WrittenBlock(BlockType::end));
      // Without it the next start looks where the log ends.
      static_cast<void>(append(last));
    }
  } catch (const std::bad_alloc&) {  // as without it
  }
  // What failed is not to be found, nor is room that was not used.
  if (fd_ >= 0) files_.cut(fd_, bytes_);
  sync_sealed(lock);
  if (fd_ >= 0) files_.close(fd_);
  if (synced_fd_ >= 0) files_.close(synced_fd_);
}

base::Done LogJournal::open() {
  const std::string& dir = options_.path;
  const auto on_wait = [&](const std::string& holder) {
    if (options_.tell)
      options_.tell("waiting for the store in " + quoted(dir) + ", which " + holder + " has");
  };
  if (base::Done taken = lock_.take(dir, true, options_.wait, on_wait); !taken) return taken;
  Look found = look(dir, files_);
  if (found.condition == Condition::absent) {
    if (base::Done made = make_store(files_, dir); !made) return made;
    // DIR may be new, too.
    const std::string folder = std::filesystem::absolute(dir).parent_path().string();
    if (!files_.sync_folder(folder))
      return base::Problem{with_errno(quoted(folder) + " cannot be synced", errno)};
    found = look(dir, files_);
  }
  if (found.condition != Condition::whole) return std::move(found.problem);
  current_ = found.current;
  if (current_.snapshot != 0) {
    auto opened = SnapshotReader::open(files_, dir, current_, names_);
    if (!opened) return std::move(opened).problem();
    snapshot_ = *std::move(opened);
  }
  BlockCounters counters(names_);
  uint64_t in_logs = 0;
  Texts of_commit;  // of which not all was read
  auto logs = read_logs(
      files_, dir, current_, [&](const BlockFile& file, const Block& block) -> base::Done {
        const auto unreadable = [&] {
          return base::Problem{damaged(dir, place_of(file, block.at) + " cannot be read")};
        };
        if (block.type == BlockType::begin) of_commit.clear();
        if (block.type == BlockType::counters) {
          if (!counters.open(block.body)) return unreadable();
          in_logs += counters.count();
          if (!counters.knows_spaces()) {
            const std::string other = names_.other_windows();
            return other.empty() ? unreadable() : base::Problem{damaged(dir, other)};
          }
        } else if (block.type == BlockType::texts && !read_texts(block.body, of_commit)) {
          return unreadable();
        }
        if (block.more || of_commit.empty()) return {};
        take_over(of_commit, changed_);
        return {};
      });
  if (!logs) return std::move(logs).problem();
  found_ = *std::move(logs);
  found_.counters = in_logs;
  if (options_.tell)
    for (const std::string& torn : found_.torn) options_.tell(torn);

  const auto snapshots = numbers_of(dir, snapshot_kind);
  if (!snapshots) return snapshots.problem();
  if (!snapshots->empty()) last_snapshot_ = snapshots->back();
  last_snapshot_ = std::max(last_snapshot_, current_.snapshot);
  log_ = last_log_ = found_.all.back().number;
  for (const uint64_t number : found_.ignored) last_log_ = std::max(last_log_, number);
  position_ = found_.all.back().position;
  bytes_ = found_.all.back().bytes;
  first_position_ = found_.all.front().position;
  logs_ = found_.all.size();
  synced_ = std::min(found_.synced, end());
  // What the system has and the medium may not: it is served from now on.
  if (options_.sync && synced_ < end()) {
    for (const Logs::Log& log : found_.all) {
      if (log.position + log.bytes <= synced_) continue;
      if (base::Done synced = sync_log(log.number); !synced) return synced;
    }
    synced_ = end();
  }
  // No later sync of another log says anything of these.
  if (synced_ < end()) unsure_log_ = log_;
  log_bytes_told_ = log_bytes();
  log_counters_ = found_.counters;
  {
    const std::lock_guard lock(mutex_);
    if (base::Done begun = begin_log(); !begun && !is_disk_trouble(begin_error_)) return begun;
  }
  return {};
}

// Begins a log where the last one ends.
base::Done LogJournal::begin_log() {
  const uint64_t number = ++last_log_;
  const std::string path = log_of(options_.path, number);
  WrittenBlock block(BlockType::begin);
  block.body += text_of(FileBegin{.store = current_.store, .previous = log_, .position = end()});
  block.seal(mark_of(current_.store, number), synced_);
  const std::string_view part = block.body;
  const int fd = files_.open(path, O_CREAT | O_EXCL | O_RDWR);
  bool done = fd >= 0 && files_.write(fd, {&part, 1}, 0);
  if (done && options_.sync) done = files_.sync(fd) && files_.sync_folder(store_of(options_.path));
  if (!done) {
    begin_error_ = errno;
    if (fd >= 0) {
      files_.close(fd);
      files_.remove(path);
      // It could be there again after a power cut, and would end the one before.
      broken_ = broken_ || begun_;
    }
    return base::Problem{with_errno(quoted(path) + " cannot be written", begin_error_)};
  }
  if (fd_ >= 0) {
    files_.cut(fd_, bytes_);
    if (options_.sync)
      files_.close(fd_);
    else
      sealed_.push_back({fd_, log_, end()});
  }
  log_ = number;
  position_ = end();
  bytes_ = reserved_ = block.body.size();
  fd_ = fd;
  begun_ = true;
  broken_ = false;
  ++logs_;
  rolls_ = false;
  if (options_.sync) {
    synced_ = end();
    write_synced(log_);
  }
  if (!sealed_.empty()) start_thread();
  called_.notify_all();
  return {};
}

// Names the last log and the position that is synced. What fails is only known later than it is so.
void LogJournal::write_synced(uint64_t log) {
  if (synced_fd_ < 0)
    synced_fd_ =
        files_.open(store_of(options_.path) + "/" + std::string(synced_name), O_CREAT | O_WRONLY);
  const std::string text = text_of(Synced{current_.store, log, synced_});
  const std::string_view part = text;
  synced_second_ = !synced_second_;
  if (synced_fd_ >= 0) files_.write(synced_fd_, {&part, 1}, synced_second_ ? synced_sector : 0);
}

// Writes blocks behind the end; they are one commit.
base::Done LogJournal::append(std::span<WrittenBlock> blocks) {
  // Else the log would grow until the disk is full.
  if ((!table_ || !why_no_snapshot_.empty()) && !writes_snapshot_ && !options_.offline && !stops_ &&
      log_bytes() > 4 * due_bytes()) {
    ++failures_count_;
    return base::Problem{"its log has " + std::to_string(log_bytes() >> 20) +
                         " MiB, and no snapshot could be written: " +
                         (table_ ? why_no_snapshot_ : "not all counters are loaded yet")};
  }
  uint64_t bytes = 0;
  for (const WrittenBlock& block : blocks) bytes += block.bytes();
  const bool is_full = bytes_ + bytes > sizes_.log_bytes && bytes_ > log_head_bytes;
  if (!begun_ || broken_ || is_full || rolls_)
    if (base::Done begun = begin_log(); !begun) return begun;
  std::vector<std::string_view> parts;
  for (WrittenBlock& block : blocks) {
    block.seal(mark_of(current_.store, log_), synced_, &block != &blocks.back());
    parts.insert(parts.end(), {block.body, block.rest});
  }
  if (options_.sync && bytes_ + bytes > reserved_) {
    files_.reserve(fd_, bytes_, bytes + reserve_bytes);
    reserved_ = bytes_ + bytes + reserve_bytes;
  }
  const auto failed = [&] {
    ++failures_count_;
    return base::Problem{
        with_errno(quoted(log_of(options_.path, log_)) + " cannot be written", errno)};
  };
  if (!files_.write(fd_, parts, bytes_)) {
    base::Problem problem = failed();
    // Else it could be found at the next start.
    broken_ = !files_.cut(fd_, bytes_);
    reserved_ = bytes_;
    return problem;
  }
  if (options_.sync) {
    if (!files_.sync(fd_)) {
      broken_ = true;
      return failed();
    }
    synced_ = end() + bytes;
  }
  bytes_ += bytes;
  log_bytes_told_ = log_bytes();
  if (options_.sync) write_synced(log_);
  if (is_due()) called_.notify_all();
  return {};
}

bool LogJournal::is_due() const {
  return table_ && !writes_snapshot_ &&
         (log_bytes() > due_bytes() || logs_ > sizes_.logs ||
          log_counters_ > options_.log_counters);
}

uint64_t LogJournal::due_bytes() const {
  return std::max(sizes_.log_bytes, snapshot_ ? snapshot_->bytes() / 2 : 0);
}

void LogJournal::add(const Record& record) {
  writer_.add(record);
  if (writer_.bytes() >= block_bytes) close_block();
}

void LogJournal::close_block() {
  full_.reserve(full_.size() + 1);
  const size_t count = writer_.count();
  full_.push_back(writer_.take());
  full_count_ += count;
}

void LogJournal::add_note(std::string_view name, const std::string* text) {
  notes_.insert_or_assign(std::string(name), text == nullptr ? std::nullopt : std::optional(*text));
}

std::vector<WrittenBlock> LogJournal::blocks_of(const Texts& texts) {
  std::vector<WrittenBlock> blocks;
  for (const auto& [name, text] : texts) {
    if (blocks.empty() || blocks.back().bytes() >= block_bytes)
      blocks.emplace_back(BlockType::texts);
    const std::string_view its = text ? std::string_view(*text) : std::string_view();
    append_change(blocks.back().body, name, text ? &its : nullptr);
  }
  return blocks;
}

base::Done LogJournal::commit() {
  const size_t counters = counters_pending();
  if (writer_.count() > 0) close_block();
  if (counters == 0 && notes_.empty()) return try_to_write();
  std::vector<WrittenBlock> blocks;
  const size_t counter_blocks = full_.size();
  if (!notes_.empty()) {
    blocks = blocks_of(notes_);
    full_.reserve(counter_blocks + blocks.size());
    std::ranges::move(blocks, std::back_inserter(full_));
  }
  uint64_t bytes = 0;
  for (const WrittenBlock& block : full_) bytes += block.bytes();
  {
    const std::lock_guard lock(mutex_);
    base::Done done = append(full_);
    // Texts that are added to those are written with them.
    if (!done) {
      full_.erase(full_.begin() + static_cast<std::ptrdiff_t>(counter_blocks), full_.end());
      return done;
    }
    Texts& to = writes_snapshot_ ? later_ : changed_;
    take_over(notes_, to);
    log_counters_ += counters;
    if (is_due()) called_.notify_all();
  }
  full_.clear();
  full_count_ = 0;
  ++commits_count_;
  counters_count_ += counters;
  bytes_count_ += bytes;
  return {};
}

bool LogJournal::is_late() const {
  const std::lock_guard lock(mutex_);
  return is_twice_due();
}

base::Done LogJournal::try_to_write() {
  const std::lock_guard lock(mutex_);
  if (begun_ && !broken_) return {};
  return begin_log();
}

base::Done LogJournal::replay(const Visit& visit) const {
  BlockCounters counters(names_);
  return each_block(
      files_, options_.path, found_, [&](const BlockFile& file, const Block& block) -> base::Done {
        if (block.type != BlockType::counters) return {};
        bool sound = counters.open(block.body);
        Record record;
        while (sound && counters.next()) {
          sound = counters.resolve(record);
          if (sound) visit(record);
        }
        if (sound && counters.sound()) return {};
        return base::Problem{damaged(options_.path, place_of(file, block.at) +
                                                        " has counters that cannot be "
                                                        "read")};
      });
}

Journal::Found LogJournal::find(const request::Space& space, std::string_view key,
                                const Visit& visit) {
  if (snapshot_ == nullptr) return Found::no;
  return snapshot_->find(space, key, options_.now(), visit);
}

bool LogJournal::scan(uint64_t& position, const Visit& visit) {
  if (snapshot_ == nullptr || snapshot_->blocks() == 0) {
    position = 0;
    return true;
  }
  const base::Time now = options_.now();
  const base::Done read = snapshot_->block(position, [&](BlockCounters& counters) -> base::Done {
    Record record;
    while (counters.next()) {
      // What it names need not be known for one that is past its time.
      if (counters.stored().forget_us <= now.us) continue;
      if (!counters.resolve(record)) return base::Problem{"a counter cannot be read"};
      visit(record);
    }
    return counters.sound() ? base::Done() : base::Problem{"a block cannot be read"};
  });
  if (!read) return false;
  position = position + 1 < snapshot_->blocks() ? position + 1 : 0;
  return true;
}

void LogJournal::all_is_loaded(Table table) {
  names_.all_is_loaded();
  const std::lock_guard lock(mutex_);
  table_ = std::move(table);
  start_thread();
  called_.notify_all();
}

// Texts of the snapshot, and those that were changed since, in the order of their names.
base::Done LogJournal::visit_texts(const Texts& later, const VisitText& visit) const {
  std::optional<Texts> both;
  if (!later.empty()) {
    both = later;
    both->insert(changed_.begin(), changed_.end());
  }
  const Texts& changed = both ? *both : changed_;
  auto at = changed.begin();
  const auto visit_before = [&](const std::string_view* name) {
    for (; at != changed.end() && (name == nullptr || at->first < *name); ++at)
      if (at->second) visit(at->first, *at->second);
  };
  if (snapshot_ != nullptr) {
    base::Done read = snapshot_->texts([&](std::string_view name, std::string_view text) {
      visit_before(&name);
      if (at == changed.end() || at->first != name) visit(name, text);
    });
    if (!read) return read;
  }
  visit_before(nullptr);
  return {};
}

base::Done LogJournal::read_all(bool notes, const VisitText& visit) {
  const std::lock_guard lock(mutex_);
  const auto visit_kind = [&](std::string_view name, std::string_view text) {
    if (store::is_note(name) == notes) visit(name, text);
  };
  if (base::Done read = visit_texts(later_, visit_kind); !read)
    return base::Problem{damaged(options_.path, read.problem().text)};
  return {};
}

base::Done LogJournal::read(const VisitText& visit) {
  return read_all(false, visit);
}

base::Done LogJournal::read_notes(const VisitText& visit) {
  return read_all(true, visit);
}

store::MetadataStore::WriteResult LogJournal::write(std::span<const Change> changes) {
  const std::lock_guard lock(mutex_);
  std::vector<WrittenBlock> blocks(1, WrittenBlock(BlockType::texts));
  for (const Change& change : changes) {
    const std::string_view text = change.text ? std::string_view(*change.text) : "";
    append_change(blocks[0].body, change.name, change.text ? &text : nullptr);
  }
  if (blocks[0].bytes() > block_bytes_max)
    return {Written::no,
            {"they are more than " + std::to_string(block_bytes_max >> 20) +
             " MiB; write fewer at once"}};
  Texts written;
  for (const Change& change : changes) written.insert_or_assign(change.name, change.text);
  if (base::Done done = append(blocks); !done) {
    std::string problem = std::move(done).problem().text + "; see to the disk, and try again";
    if (!broken_) return {Written::no, {std::move(problem)}};
    return {Written::maybe,
            {problem + "; a kill before the next one that succeeds may find it kept all the same"}};
  }
  Texts& to = writes_snapshot_ ? later_ : changed_;
  written.merge(to);
  to.swap(written);
  return {};
}

JournalStats LogJournal::stats() const {
  return {.commits = commits_count_,
          .counters = counters_count_,
          .bytes = bytes_count_,
          .log_bytes = log_bytes_told_,
          .snapshots = snapshots_count_,
          .failures = failures_count_};
}

void LogJournal::start_thread() {
  if (!thread_.joinable() && !stops_) thread_ = std::thread([this] { work(); });
}

void LogJournal::work() {
  pthread_setname_np(pthread_self(), "snapshots");
  std::unique_lock lock(mutex_);
  std::chrono::steady_clock::time_point not_before{};
  auto rest = after_failure;  // until it is tried again
  for (;;) {
    const auto begins = [&] { return is_due() && std::chrono::steady_clock::now() >= not_before; };
    called_.wait_for(lock, after_failure, [&] { return stops_ || !sealed_.empty() || begins(); });
    if (stops_) return;
    sync_sealed(lock);
    if (!begins()) continue;
    // It cannot be raised again later.
    const bool gently = !is_twice_due();
    lock.unlock();
    if (gently) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), snapshot_niceness);
    base::Done written = [&]() -> base::Done {
      try {
        return write_snapshot(gently);
      } catch (const std::bad_alloc&) {
        return give_up(base::Problem{"out of memory"});  // so short that it takes none
      }
    }();
    lock.lock();
    if (stops_) return;
    if (written) {
      why_no_snapshot_.clear();
      rest = after_failure;
      continue;
    }
    why_no_snapshot_ = std::move(written).problem().text;
    ++failures_count_;
    not_before = std::chrono::steady_clock::now() + rest;
    // Each try begins a log.
    rest = std::min(2 * rest, longest_rest);
  }
}

// Without `sync` only what a snapshot needs to be sure of is synced: whole logs, one after the
// other.
void LogJournal::sync_sealed(std::unique_lock<std::mutex>& lock) {
  while (!sealed_.empty()) {
    const Sealed sealed = sealed_.front();
    sealed_.erase(sealed_.begin());
    lock.unlock();
    bool synced = files_.sync(sealed.fd);
    try {
      synced = synced && files_.sync_folder(store_of(options_.path));
    } catch (const std::bad_alloc&) {
      synced = false;
    }
    files_.close(sealed.fd);
    lock.lock();
    if (!synced) unsure_log_ = log_;
    // What comes behind a log that may not be on the medium is not known to be there either.
    if (current_.log <= unsure_log_) continue;
    synced_ = std::max(synced_, sealed.end);
    try {
      write_synced(sealed.number);
    } catch (const std::bad_alloc&) {  // it is known later
    }
  }
}

base::Done LogJournal::give_up(base::Done why) {
  const std::lock_guard lock(mutex_);
  later_.merge(changed_);
  changed_.swap(later_);
  later_.clear();
  writes_snapshot_ = false;
  return why;
}

base::Done LogJournal::write_snapshot(bool gently) {
  Table table;
  Current next;
  uint64_t first = 0, number = 0, counters_before = 0;
  {
    std::unique_lock lock(mutex_);
    // The next commit begins a log: this thread, of low priority, should not hold the others up.
    const uint64_t before = log_;
    rolls_ = true;
    called_.wait_for(lock, roll_wait, [&] { return log_ != before || stops_; });
    if (log_ == before)
      if (base::Done begun = begin_log(); !begun) return begun;
    table = *table_;
    next = current_;
    next.log = log_;
    first = position_;
    number = ++last_snapshot_;
    counters_before = log_counters_;
    writes_snapshot_ = true;
  }
  SnapshotWriter writer(files_, spaces_, options_.path, next.store, number, table.counters(),
                        gently);
  // Nothing of this changes before the snapshot is whole, but for what later_ has.
  if (base::Done read = visit_texts(
          {}, [&](std::string_view name, std::string_view text) { writer.add_text(name, text); });
      !read)
    return give_up(std::move(read));
  const bool whole =
      table.walk([&](const Record& record) { return !stopping_ && writer.add(record); });
  if (stopping_) return give_up({});
  if (!whole && writer.sound())
    return give_up(base::Problem{"what it would have could not be committed"});
  if (base::Done finished = writer.finish(next); !finished) return give_up(std::move(finished));
  auto reader = SnapshotReader::open(files_, options_.path, next, names_);
  names_.all_is_loaded();
  if (!reader) return give_up(std::move(reader).problem());
  if (base::Done synced = sync_logs(next.log); !synced) return give_up(std::move(synced));
  // From here on the new one counts.
  if (base::Done written = write_whole(files_, store_of(options_.path), "CURRENT", text_of(next));
      !written)
    return give_up(std::move(written));
  {
    const std::lock_guard lock(mutex_);
    current_ = next;
    snapshot_ = *std::move(reader);
    changed_ = std::exchange(later_, {});
    writes_snapshot_ = false;
    logs_ = static_cast<size_t>(log_ - next.log + 1);
    log_counters_ -= counters_before;
    first_position_ = first;
    log_bytes_told_ = log_bytes();
    ++snapshots_count_;
  }
  remove_others(next);
  return {};
}

// The logs behind a snapshot must be there as surely as the snapshot, which has a part of what they
// have.
base::Done LogJournal::sync_logs(uint64_t first) {
  if (options_.sync) return {};
  uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = log_;
    if (unsure_log_ >= first) return base::Problem{"a log behind it could not be synced"};
  }
  for (uint64_t number = first; number <= last; ++number) {
    if (base::Done synced = sync_log(number); !synced) {
      const std::lock_guard lock(mutex_);
      unsure_log_ = log_;
      return synced;
    }
  }
  return {};
}

base::Done LogJournal::sync_log(uint64_t number) {
  const std::string path = log_of(options_.path, number);
  const int fd = files_.open(path, O_RDWR);
  // One that could not be begun is not there.
  if (fd < 0 && errno == ENOENT) return {};
  const bool synced = fd >= 0 && files_.sync(fd);
  const int error = errno;
  if (fd >= 0) files_.close(fd);
  if (synced) return {};
  return base::Problem{with_errno(quoted(path) + " cannot be synced", error)};
}

void LogJournal::remove_others(const Current& current) {
  const std::lock_guard copying(copying_);
  remove_unread(files_, options_.path, current);
}

base::Done LogJournal::backup(const std::string& target) {
  CopyPlace place(target);
  if (base::Done made = place.make(options_.path); !made) return made;
  // Until the files are linked or copied none of them is removed; what is appended meanwhile is not
  // part of the copy.
  const std::lock_guard copying(copying_);
  Current current;
  uint64_t log = 0, bytes = 0, end_at = 0;
  {
    const std::lock_guard lock(mutex_);
    current = current_;
    log = log_;
    bytes = bytes_;
    end_at = end();
  }
  auto numbers = numbers_of(options_.path, log_kind);
  if (!numbers) return std::move(numbers).problem();
  std::vector<std::pair<std::string, std::string>> whole;
  if (current.snapshot != 0)
    whole.emplace_back(snapshot_of(options_.path, current.snapshot),
                       snapshot_of(place.path(), current.snapshot));
  for (const uint64_t number : *numbers)
    if (number >= current.log && number < log)
      whole.emplace_back(log_of(options_.path, number), log_of(place.path(), number));
  for (const auto& [from, to] : whole)
    if (base::Done taken = place.take_whole(from, to); !taken) return taken;
  if (base::Done taken = place.take(log_of(options_.path, log), log_of(place.path(), log), bytes);
      !taken)
    return taken;
  // All of the copy reaches the medium before it has its name.
  const Synced synced{current.store, log, end_at};
  if (base::Done done = write_whole(system_files(), store_of(place.path()),
                                    std::string(synced_name), text_of(synced));
      !done)
    return done;
  if (base::Done done =
          write_whole(system_files(), store_of(place.path()), "CURRENT", text_of(current));
      !done)
    return done;
  return place.finish();
}

}  // namespace sluice::disk
