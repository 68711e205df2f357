#include "store/log/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "store/log/format.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;

// Says that what it lies in is a copy that is being made.
constexpr const char* marker = "/UNFINISHED";

bool exists(const std::string& path) {
  struct stat unused;
  return ::lstat(path.c_str(), &unused) == 0 || errno != ENOENT;
}

std::string name_of(std::string_view kind, uint64_t number) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*s%012" PRIu64, static_cast<int>(kind.size()), kind.data(),
                number);
  return text;
}

// False: there is nothing to give, or no owner to give it to.
bool owner_of(const std::string& dir, struct stat& owner) {
  return ::geteuid() == 0 && ::stat(dir.c_str(), &owner) == 0 && owner.st_uid != 0;
}

// By way of open folders, so that no other process can put a link in the way. 0, or why not.
int give(int folder, const char* name, const struct stat& owner) {
  struct stat its;
  if (::fstatat(folder, name, &its, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
  if (S_ISDIR(its.st_mode)) {
    const int fd = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    DIR* const all = ::fdopendir(fd);
    if (all == nullptr) {
      const int why = errno;
      ::close(fd);
      return why;
    }
    int error = 0;
    while (const dirent* const entry = ::readdir(all)) {
      const std::string_view its_name = entry->d_name;
      if (its_name == "." || its_name == "..") continue;
      if (const int why = give(fd, entry->d_name, owner)) error = why;
    }
    if (its.st_uid == 0 && ::fchown(fd, owner.st_uid, owner.st_gid) != 0) error = errno;
    ::closedir(all);
    return error;
  }
  if (its.st_uid != 0 || !S_ISREG(its.st_mode)) return 0;
  return ::fchownat(folder, name, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

// The process that wrote its number into the lock's file.
std::string holder_of(int fd) {
  int holder = 0;
  char text[16];
  const ssize_t bytes = ::pread(fd, text, sizeof text, 0);
  if (bytes > 0) std::from_chars(text, text + bytes, holder);
  return holder > 0 ? "process " + std::to_string(holder) : "another process";
}

}  // namespace

std::string store_of(const std::string& dir) {
  return dir + "/sluice";
}
std::string current_of(const std::string& dir) {
  return store_of(dir) + "/CURRENT";
}
std::string log_of(const std::string& dir, uint64_t number) {
  return store_of(dir) + "/" + name_of(log_kind, number);
}
std::string snapshot_of(const std::string& dir, uint64_t number) {
  return store_of(dir) + "/" + name_of(snapshot_kind, number);
}

Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

base::Done Lock::take(const std::string& dir, bool make, base::Duration wait,
                      const std::function<void(const std::string& holder)>& on_wait) {
  std::error_code error;
  if (make) fs::create_directories(dir, error);
  struct stat found;
  if (::stat(dir.c_str(), &found) != 0) {
    if (error)
      return base::Problem{"the directory " + quoted(dir) + " cannot be made: " + error.message()};
    return base::Problem{with_errno("the directory " + quoted(dir) + " cannot be used", errno)};
  }
  if (!S_ISDIR(found.st_mode)) {
    return base::Problem{quoted(dir) +
                         " is not a directory; name one, or a path where one can be made"};
  }
  const std::string path = dir + "/sluice.lock";
  fd_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) {
    return base::Problem{
        with_errno("the directory " + quoted(dir) + " cannot be written to", errno) +
        "; let this user write there, or name another"};
  }
  struct stat owner, its;
  if (owner_of(dir, owner) && ::fstat(fd_, &its) == 0 && its.st_uid == 0 &&
      ::fchown(fd_, owner.st_uid, owner.st_gid) != 0) {
    // It is root's still, which the server is told when it opens it.
  }
  constexpr auto look_again = std::chrono::milliseconds(20);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(wait.us);
  for (bool first = true; ::flock(fd_, LOCK_EX | LOCK_NB) != 0; first = false) {
    const int why = errno;
    const std::string holder = holder_of(fd_);
    if (why == EWOULDBLOCK && std::chrono::steady_clock::now() < deadline) {
      if (first && on_wait) on_wait(holder);
      std::this_thread::sleep_for(look_again);
      continue;
    }
    ::close(fd_);
    fd_ = -1;
    if (why != EWOULDBLOCK)
      return base::Problem{with_errno(quoted(path) + " cannot be locked", why)};
    return base::Problem{"the store in " + quoted(dir) + " is in use by " + holder +
                         "; stop that first, or name another directory"};
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  // The number is for people; without it the lock holds all the same.
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return {};
  }
  return {};
}

// The last line is the checksum of those before it.
std::string text_of(const Current& current) {
  char text[512];
  const int size = std::snprintf(
      text, sizeof text,
      "sluice store %" PRIu32 ", read by sluice %s and later\nid %016" PRIx64 "\nsnapshot %" PRIu64
      " directory %" PRIu64 " crc %08" PRIx32 "\nlog %" PRIu64 "\n",
      format_number, current.reader.c_str(), current.store, current.snapshot, current.directory,
      current.directory_crc, current.log);
  std::string all(text, static_cast<size_t>(size));
  char crc[16];
  std::snprintf(crc, sizeof crc, "crc %08" PRIx32 "\n", crc32c(0, all));
  return all + crc;
}

std::string text_of(const Synced& synced) {
  std::string text;
  append_fixed64(text, synced.store);
  append_fixed64(text, synced.log);
  append_fixed64(text, synced.position);
  append_fixed64(text, crc32c(0, text));
  return text;
}

base::Result<std::optional<Synced>> read_synced(Files& files, const std::string& dir) {
  const std::string path = store_of(dir) + "/" + std::string(synced_name);
  if (!exists(path)) return std::optional<Synced>();
  base::Result<std::string> text = read_whole(files, path, 2 * synced_sector);
  if (!text) return std::move(text).problem();
  std::optional<Synced> last;
  for (const size_t at : {size_t{0}, size_t{synced_sector}}) {
    const std::string its = text->substr(std::min(at, text->size()), 32);
    Input input(its);
    Synced synced;
    if (input.fixed64(synced.store) && input.fixed64(synced.log) &&
        input.fixed64(synced.position) && text_of(synced) == its &&
        (!last || synced.position > last->position))
      last = synced;
  }
  if (last) return last;
  return base::Problem{
      damaged(dir, "its file SYNCED does not say up to where its logs are synced")};
}

std::string damaged(const std::string& dir, const std::string& what) {
  return "the store in " + quoted(dir) + " is damaged: " + what +
         "; look at it with `sluice store check DIR`, repair it with `sluice store repair DIR`, or "
         "start on a backup";
}

namespace {

// Is its last line the checksum of those before it? So since format 4.
bool checks_itself(const std::string& text) {
  const size_t last = text.rfind("crc ");
  uint32_t crc = 0;
  return last != std::string::npos && std::sscanf(text.c_str() + last, "crc %" SCNx32, &crc) == 1 &&
         crc == crc32c(0, std::string_view(text).substr(0, last));
}

}  // namespace

Look look(const std::string& dir, Files& files) {
  if (!exists(store_of(dir))) return {};
  const auto is_damaged = [](std::string text) {
    return Look{.condition = Condition::damaged, .problem = {std::move(text)}, .current = {}};
  };
  const auto is_foreign = [&](const std::string& format, const std::string& text) {
    return Look{
        .condition = Condition::foreign,
        .problem = {"the store in " + quoted(dir) + " has format " + format +
                    "; this program reads format " + std::to_string(format_number) + ": " + text},
        .current = {}};
  };
  std::error_code error;
  if (!fs::is_directory(store_of(dir), error))
    return is_damaged(quoted(store_of(dir)) + " is not a directory; move it away");
  // Earlier formats have another file for it.
  const std::string before = store_of(dir) + "/FORMAT";
  const bool is_earlier = !exists(current_of(dir)) && exists(before);
  base::Result<std::string> text = read_whole(files, is_earlier ? before : current_of(dir), 1024);
  if (!text) return is_damaged(damaged(dir, "its file CURRENT cannot be read"));
  Look found{.condition = Condition::whole, .problem = {}, .current = {}};
  Current& current = found.current;
  uint32_t format = 0;
  char reader[65] = "";
  if (std::sscanf(text->c_str(), "sluice store %" SCNu32 ", read by sluice %64s and later", &format,
                  reader) != 2 ||
      format == 0)
    return is_damaged(damaged(dir, "its file CURRENT does not say which format it has"));
  if (format > format_number)
    return is_foreign(std::to_string(format) + ", which sluice " + base::printable(reader, 32) +
                          " or later reads",
                      "use that version, or another directory");
  if (format < format_number && !is_earlier && !checks_itself(*text))
    return is_damaged(damaged(dir, "its file CURRENT is not as it was written"));
  if (format < format_number)
    return is_foreign(
        std::to_string(format) + ", which no release has",
        "move " + quoted(store_of(dir)) + " away to begin a new store, or name another directory");
  current.reader = reader;
  const char* const rest = text->c_str() + std::min(text->find('\n'), text->size() - 1) + 1;
  if (std::sscanf(rest,
                  "id %" SCNx64 " snapshot %" SCNu64 " directory %" SCNu64 " crc %" SCNx32
                  " log %" SCNu64,
                  &current.store, &current.snapshot, &current.directory, &current.directory_crc,
                  &current.log) != 5 ||
      text_of(current) != *text)
    return is_damaged(damaged(dir, "its file CURRENT is not as it was written"));
  return found;
}

base::Result<std::vector<uint64_t>> numbers_of(const std::string& dir, std::string_view kind) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(store_of(dir), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    uint64_t number = 0;
    if (name.size() <= kind.size() || !name.starts_with(kind)) continue;
    std::from_chars(name.data() + kind.size(), name.data() + name.size(), number);
    if (number > 0 && name == name_of(kind, number)) numbers.push_back(number);
  }
  if (error) return base::Problem{quoted(store_of(dir)) + " cannot be listed: " + error.message()};
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void remove_unread(Files& files, const std::string& dir, const Current& current) {
  std::error_code error;
  std::vector<std::string> unread;
  for (fs::directory_iterator at(store_of(dir), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const auto is_before = [&](std::string_view kind, uint64_t number) {
      return name.starts_with(kind) && name < name_of(kind, number);
    };
    if (name.ends_with(".new") || is_before(log_kind, current.log) ||
        is_before(snapshot_kind, current.snapshot))
      unread.push_back(at->path().string());
  }
  for (const std::string& path : unread) files.remove(path);
  if (!unread.empty()) files.sync_folder(store_of(dir));
}

base::Done make_store(Files& files, const std::string& dir) {
  const std::string fresh = dir + "/sluice.new";
  std::error_code error;
  fs::remove_all(fresh, error);
  if (!error) fs::create_directory(fresh, error);
  if (error)
    return base::Problem{"the directory " + quoted(fresh) + " cannot be made: " + error.message()};
  fs::permissions(fresh, fs::perms::owner_all, error);
  Current current{.reader = std::string(format_since), .log = 1};
  if (::getrandom(&current.store, sizeof current.store, 0) != sizeof current.store)
    return base::Problem{with_errno("no random number for a new store", errno)};
  const auto failed = [&](const base::Problem& problem) {
    return base::Problem{"a store cannot be made in " + quoted(dir) + ": " + problem.text};
  };
  // The first log, which is empty.
  WrittenBlock block(BlockType::begin);
  block.body += text_of(FileBegin{.store = current.store, .previous = 0, .position = 0});
  block.seal(mark_of(current.store, 1), 0);
  if (base::Done done = write_whole(files, fresh, name_of(log_kind, 1), block.body); !done)
    return failed(done.problem());
  const Synced synced{current.store, 1, block.body.size()};
  if (base::Done done = write_whole(files, fresh, std::string(synced_name), text_of(synced)); !done)
    return failed(done.problem());
  if (base::Done done = write_whole(files, fresh, "CURRENT", text_of(current)); !done)
    return failed(done.problem());
  if (!files.rename(fresh, store_of(dir)) || !files.sync_folder(dir))
    return base::Problem{with_errno(quoted(store_of(dir)) + " cannot be made", errno)};
  return {};
}

base::Done give_to_owner(const std::string& dir, const std::string& path) {
  struct stat owner;
  if (!owner_of(dir, owner)) return {};
  const int error = give(AT_FDCWD, path.c_str(), owner);
  if (error == 0) return {};
  return base::Problem{
      with_errno(quoted(path) + " cannot be given to the owner of " + quoted(dir), error) +
      "; it is root's: use `chown -R`"};
}

namespace {

fs::path folder_of(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  // Of "a/b/" as of "a/b".
  return absolute.has_filename() ? absolute.parent_path() : absolute.parent_path().parent_path();
}

bool lies_in(const fs::path& folder, const std::string& dir) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(folder, error), outer = fs::canonical(dir, error);
  if (error) return false;
  const fs::path from = inner.lexically_relative(outer);
  return !from.empty() && *from.begin() != "..";
}

// A copy that was not finished, or a folder with nothing in it.
bool may_be_removed(const std::string& path) {
  struct stat its;
  if (::lstat(path.c_str(), &its) != 0 || !S_ISDIR(its.st_mode)) return false;
  std::error_code error;
  return exists(path + marker) || (fs::is_empty(path, error) && !error);
}

// Who may read it, and that it is on the medium. 0, or why not.
int settle(const fs::path& path, mode_t mode) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  const int error = ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

CopyPlace::~CopyPlace() {
  std::error_code ignored;
  if (made_) fs::remove_all(fresh_, ignored);
}

base::Done CopyPlace::make(const std::string& dir) {
  if (exists(target_))
    return base::Problem{quoted(target_) + " is there already; name a directory that is not"};
  const fs::path folder = folder_of(target_);
  if (lies_in(folder, dir))
    return base::Problem{quoted(target_) + " lies in " + quoted(dir) +
                         ", of which it must be a copy; name a directory outside of it"};
  std::error_code error;
  fs::create_directories(folder, error);
  if (exists(fresh_)) {
    if (!may_be_removed(fresh_))
      return base::Problem{quoted(fresh_) +
                           " is there already, and is not a copy that was left unfinished; move it "
                           "away, or name another directory"};
    fs::remove_all(fresh_, error);
  }
  const int fd =
      ::mkdir(fresh_.c_str(), 0700) != 0
          ? -1
          : ::open((fresh_ + marker).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  made_ = fd >= 0;
  if (made_) ::close(fd);
  if (made_ && ::mkdir(store_of(fresh_).c_str(), 0700) == 0) return {};
  return base::Problem{with_errno(
      "the backup to " + quoted(target_) + " failed: " + quoted(fresh_) + " cannot be made",
      errno)};
}

base::Done CopyPlace::take_whole(const std::string& from, const std::string& to) {
  struct stat its;
  if (::link(from.c_str(), to.c_str()) == 0) return {};
  if (::stat(from.c_str(), &its) != 0)
    return base::Problem{with_errno(quoted(from) + " cannot be copied", errno)};
  return take(from, to, static_cast<uint64_t>(its.st_size));
}

base::Done CopyPlace::take(const std::string& from, const std::string& to, uint64_t bytes) {
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = in < 0 ? -1 : ::open(to.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  std::string part(size_t{1} << 20, '\0');
  bool done = out >= 0;
  int error = errno;
  for (uint64_t at = 0; done && at < bytes; at += part.size()) {
    part.resize(static_cast<size_t>(std::min<uint64_t>(part.size(), bytes - at)));
    errno = EIO;  // where the file is shorter
    const std::string_view read = part;
    done = system_files().read(in, part.data(), part.size(), at) ==
               static_cast<ssize_t>(part.size()) &&
           system_files().write(out, {&read, 1}, at);
    error = errno;
  }
  if (in >= 0) ::close(in);
  if (out >= 0) ::close(out);
  if (done) return {};
  return base::Problem{with_errno(quoted(from) + " cannot be copied to " + quoted(to), error)};
}

base::Done CopyPlace::finish() {
  std::error_code error;
  int failed = 0;
  for (fs::recursive_directory_iterator at(fresh_, error), end; !error && failed == 0 && at != end;
       at.increment(error))
    failed = settle(at->path(), at->is_directory() ? 0700 : 0600);
  if (failed == 0 && error) failed = error.value();
  if (failed == 0 && ::unlink((fresh_ + marker).c_str()) != 0) failed = errno;
  if (failed == 0) failed = settle(fresh_, 0700);
  if (failed == 0 && ::rename(fresh_.c_str(), target_.c_str()) != 0) failed = errno;
  if (failed != 0) return base::Problem{with_errno(quoted(fresh_), failed)};
  made_ = false;
  // Else a power cut could take the name away again.
  if (system_files().sync_folder(folder_of(target_).string())) return {};
  return base::Problem{with_errno(quoted(folder_of(target_)) + " cannot be synced", errno)};
}

}  // namespace sluice::disk
