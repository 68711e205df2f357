#include "live/file_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <system_error>

namespace sluice::live {
namespace {

constexpr uint32_t events = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MODIFY |
                            IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr int links_max = 40;  // as many as Linux follows
constexpr int attempts_max = 8;

std::string reason(int problem) {
  if (problem == ENOSPC) return "the limit of watches is reached (fs.inotify.max_user_watches)";
  if (problem == EMFILE)
    return "the limit of watchers (fs.inotify.max_user_instances) or of open files is reached";
  return std::generic_category().message(problem);
}

// Puts the parts of `path` in front of `parts`.
void prepend(const std::filesystem::path& path, std::deque<std::string>& parts) {
  std::vector<std::string> fresh;
  for (const auto& part : path.relative_path()) fresh.push_back(part.string());
  parts.insert(parts.begin(), fresh.begin(), fresh.end());
}

void walk(const std::string& path, std::map<std::string, std::set<std::string>>& names) {
  std::error_code unknown;
  std::filesystem::path at = "/";
  std::deque<std::string> parts;
  const bool folder = path.ends_with('/');
  prepend(std::filesystem::absolute(folder ? path.substr(0, path.size() - 1) : path, unknown),
          parts);
  for (int links = 0; !parts.empty();) {
    const std::string part = parts.front();
    parts.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      at = at.parent_path();
      continue;
    }
    const auto next = at / part;
    struct stat status {};
    const bool there = ::lstat(next.c_str(), &status) == 0;
    const bool link = there && S_ISLNK(status.st_mode);
    if (!there || link || parts.empty()) names[at.string()].insert(part);
    if (!there) return;
    if (!link) {
      at = next;
      continue;
    }
    const auto target = std::filesystem::read_symlink(next, unknown);
    if (unknown || ++links > links_max) return;
    if (target.is_absolute()) at = "/";
    prepend(target, parts);
  }
  if (folder) names[at.string()].insert("");
}

}  // namespace

std::map<std::string, std::set<std::string>> names_on_the_way(
    const std::vector<std::string>& paths) {
  std::map<std::string, std::set<std::string>> names;
  for (const auto& path : paths) walk(path, names);
  return names;
}

FileWatch::~FileWatch() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<std::string> FileWatch::open() {
  fd_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd_ < 0) return reason(errno);
  return std::nullopt;
}

bool FileWatch::watch(const std::vector<std::string>& paths, std::optional<std::string>& problem) {
  problem.reset();
  auto names = names_on_the_way(paths);
  std::map<int, Names> fresh;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    for (const auto& [folder, some] : names) {
      const int watched = ::inotify_add_watch(fd_, folder.c_str(), events);
      if (watched >= 0)
        fresh[watched].insert(some.begin(), some.end());
      else if (errno != ENOENT && errno != ENOTDIR)  // else it went this moment: see below
        problem = folder + ": " + reason(errno);
    }
    // The links may have changed before they were watched.
    auto by_now = names_on_the_way(paths);
    if (by_now == names) break;
    names = std::move(by_now);
  }
  for (const auto& [watched, ignored] : watched_)
    if (!fresh.contains(watched)) ::inotify_rm_watch(fd_, watched);
  const bool changed = fresh != watched_;
  watched_ = std::move(fresh);
  return changed;
}

bool FileWatch::read_news() {
  bool changed = false;
  alignas(inotify_event) char bytes[16 * (sizeof(inotify_event) + NAME_MAX + 1)];
  while (true) {
    const ssize_t n = ::read(fd_, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return changed;
    inotify_event event;
    for (const char* at = bytes; at < bytes + n; at += sizeof event + event.len) {
      std::memcpy(&event, at, sizeof event);
      if ((event.mask & IN_Q_OVERFLOW) != 0) changed = true;
      const auto folder = watched_.find(event.wd);
      if (folder == watched_.end()) continue;  // of a watch that is no more
      if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) != 0) {
        changed = true;
        if ((event.mask & IN_IGNORED) != 0) watched_.erase(folder);
        continue;
      }
      if (event.len == 0) continue;
      const std::string name(at + sizeof event);
      if (!folder->second.contains(name) && !folder->second.contains("")) continue;
      changed = true;
      if ((event.mask & IN_MODIFY) != 0)
        written_.emplace(event.wd, name);
      else if ((event.mask & (IN_ATTRIB | IN_CREATE)) == 0)
        written_.erase({event.wd, name});
    }
  }
}

}  // namespace sluice::live
