#include "live/reloader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <system_error>

#include "base/background.h"
#include "base/printable.h"
#include "base/units.h"

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

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int niceness = 10;      // above that of the other threads: a tenth of their weight
constexpr size_t told_max = 100;  // diagnostics of one policy; `sluice check` shows all
constexpr milliseconds interval_max{
    86'400'000};  // of looking at files that no event was received for
constexpr milliseconds release_pause{1};
constexpr milliseconds release_told{10'000};

milliseconds since(steady_clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
}

wire::Json terms_of(const LivePolicy& policy) {
  return {{"generation", policy.generation},
          {"hash", hash_text(policy.hash)},
          {"rules", policy.rules->written()}};
}

base::Diagnostics first_of(base::Diagnostics all) {
  if (all.size() > told_max) all.resize(told_max);
  return all;
}

}  // namespace

std::string to_text(const LivePolicy& policy) {
  const size_t rules = policy.rules->written();
  return fmt::format("{}, hash {:016x}, {} {}", policy.generation, policy.hash,
                     base::grouped(rules), rules == 1 ? "rule" : "rules");
}

Reloader::Reloader(std::shared_ptr<const LivePolicy> live, std::function<Loaded(uint64_t)> load,
                   std::vector<std::string> files, Publish publish,
                   std::shared_ptr<spdlog::logger> log, milliseconds interval,
                   base::Diagnostics told, ChangeLog* changes)
    : live_(std::make_shared<const LivePolicy>(*live)),
      load_(std::move(load)),
      files_(std::move(files)),
      live_told_(first_of(std::move(told))),
      publish_(std::move(publish)),
      log_(std::move(log)),
      changes_(changes),
      interval_(interval) {}

Reloader::~Reloader() {
  if (!stop()) thread_.join();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

std::optional<std::string> Reloader::start() {
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0)
    return "cannot wait for a new policy: " + std::generic_category().message(errno) +
           "; raise the limit of open files (ulimit -n)";
  watch_first();
  thread_ = std::thread([this] {
    run();
    ended_.set_value();
  });
  return std::nullopt;
}

uint64_t Reloader::request(const std::string& by, bool tells) {
  {
    const std::lock_guard lock(by_mutex_);
    by_ = by;
    asker_tells_ = !tells && (asker_tells_ || !asked_);  // of all that one reading answers
  }
  const uint64_t number = ++requests_;
  asked_ = true;
  wake();
  return number;
}

bool Reloader::stop(milliseconds limit) {
  if (!thread_.joinable()) return true;
  stopping_ = true;
  wake();
  history_.close();
  if (end_.wait_for(limit) != std::future_status::ready) {
    log_->error("the reading of the policy does not end within {} ms", limit.count());
    return false;
  }
  thread_.join();
  return true;
}

void Reloader::wake() {
  const uint64_t one = 1;
  // It fails when the number is at its maximum, and then the thread is awake.
  [[maybe_unused]] const ssize_t ignored = ::write(wake_fd_, &one, sizeof one);
}

void Reloader::run() {
  const auto self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + niceness);
  const base::Paced paced;
  while (!stopping_) {
    std::optional<milliseconds> limit;
    if (interval_ > milliseconds::zero()) limit = std::min(interval_, interval_max);
    Event event = await(look_again_ ? quiet : limit);
    if (event == Event::changed) event = debounce();
    if (event == Event::stop) return;
    reload(event == Event::asked ? Cause::request : Cause::files);
  }
}

void Reloader::watch_first() {
  if (files_.empty()) return;
  std::optional<std::string> problem = watch_.open();
  watching_ = !problem;
  if (problem)
    log_->warn("changes of the policy's files will not be noticed: {}; SIGHUP still reloads them",
               *problem);
  else
    watch(files_);
}

// Sets look_again_ where that is not what was watched before.
bool Reloader::watch(const std::vector<std::string>& files) {
  if (!watching_) return false;
  std::optional<std::string> problem;
  look_again_ = watch_.watch(files, problem);
  if (problem)
    log_->warn("some changes of the policy's files will not be noticed: {}; SIGHUP still reloads",
               *problem);
  return look_again_;
}

// none: nothing happened within `limit`.
Reloader::Event Reloader::await(std::optional<milliseconds> limit) {
  const auto begin = steady_clock::now();
  while (true) {
    if (stopping_) return Event::stop;
    if (asked_.exchange(false)) return Event::asked;
    int timeout = -1;
    if (limit)
      timeout = static_cast<int>(std::max(*limit - since(begin), milliseconds::zero()).count());
    std::array<pollfd, 2> all{pollfd{wake_fd_, POLLIN, 0}, pollfd{watch_.fd(), POLLIN, 0}};
    const int n = ::poll(all.data(), all.size(), timeout);
    if (n == 0) return Event::none;
    if (n < 0) continue;
    uint64_t ignored = 0;
    if (all[0].revents != 0 && ::read(wake_fd_, &ignored, sizeof ignored) > 0) continue;
    if (all[1].revents != 0 && watch_.read_news()) return Event::changed;
    if (limit && since(begin) >= *limit) return Event::none;
  }
}

// Files have begun to change: waits until that is over, or something else comes up.
Reloader::Event Reloader::debounce() {
  const auto begin = steady_clock::now();
  while (true) {
    const bool written = watch_.is_being_written();
    const milliseconds left = (written ? writing_max : changing_max) - since(begin);
    const Event event =
        left <= milliseconds::zero() ? Event::none : await(written ? left : std::min(quiet, left));
    if (event == Event::changed) continue;
    watch_.forget_writers();
    return event == Event::none ? Event::changed : event;
  }
}

// A file that is being replaced may be missing for a moment.
Loaded Reloader::load_patiently(Cause& cause) {
  const auto begin = steady_clock::now();
  while (true) {
    Loaded loaded = load_(live_->hash);
    std::vector<std::string> files = loaded.files;
    if (!loaded.rules && loaded.hash != live_->hash)  // it may be fixed in the old files
      files.insert(files.end(), files_.begin(), files_.end());
    watch(files);
    const milliseconds left = missing_max - since(begin);
    if (loaded.missing.empty() || cause == Cause::request || left <= milliseconds::zero())
      return loaded;
    Event event = await(look_again_ ? std::min(quiet, left) : left);
    if (event == Event::changed) event = debounce();
    if (event == Event::asked) cause = Cause::request;
    if (event == Event::stop) return {};
  }
}

void Reloader::reload(Cause cause) {
  look_again_ = false;
  const uint64_t answered = requests_;  // by a reading that begins now
  const auto begin = steady_clock::now();
  Loaded loaded = load_patiently(cause);
  if (stopping_) return;
  if (loaded.rules && loaded.hash) {
    log_->debug("policy read in {} ms", since(begin).count());
    return go_live(std::move(loaded), answered, cause);
  }
  if (!loaded.hash || *loaded.hash != live_->hash) {
    if (log_refused(loaded, cause))
      log_change(
          "reload refused", cause, terms_of(*live_),
          {{"why", loaded.diagnostics.empty() ? "" : base::to_string(loaded.diagnostics.front())},
           {"diagnostics", loaded.diagnostics.size()}});
    return record(Reading::Outcome::refused, answered, loaded.diagnostics);
  }
  if (cause == Cause::request)
    log_->info("policy unchanged, generation {}", to_text(*live_));
  else if (!refused_for_.empty())
    log_->info("policy again as it is live, generation {}", to_text(*live_));
  refused_for_.clear();
  record(Reading::Outcome::unchanged, answered, live_told_);
}

void Reloader::record(Reading::Outcome outcome, uint64_t answered, base::Diagnostics all) {
  Reading reading;
  reading.outcome = outcome;
  reading.answered = answered;
  reading.at = std::chrono::system_clock::now();
  reading.generation = live_->generation;
  reading.hash = live_->hash;
  reading.files = files_;
  reading.diagnostics = first_of(std::move(all));
  history_.put(std::move(reading));
}

void Reloader::tell(const base::Diagnostics& all) {
  size_t told = 0;
  for (const auto& d : all) {
    if (told++ == told_max) {
      log_->warn("policy: {} more like these; `sluice check` tells all", all.size() - told_max);
      return;
    }
    const bool error = d.severity == base::Diagnostic::Severity::error;
    log_->log(error ? spdlog::level::err : spdlog::level::warn, "policy: {}", base::to_string(d));
  }
}

// Once, however often the same files are looked at.
bool Reloader::log_refused(const Loaded& loaded, Cause cause) {
  std::vector<std::string> reasons;
  for (const auto& d : loaded.diagnostics) reasons.push_back(base::to_string(d));
  if (cause == Cause::files && reasons == refused_for_) return false;
  if (cause == Cause::request) {
    const std::lock_guard lock(by_mutex_);
    if (asker_tells_) return true;
  }
  refused_for_ = std::move(reasons);
  tell(loaded.diagnostics);
  log_->error("policy refused; live stays generation {}", to_text(*live_));
  return true;
}

void Reloader::log_change(const char* what, Cause cause, wire::Json before, wire::Json after) {
  if (changes_ == nullptr) return;
  Change change{.what = what, .by = "files"};
  if (cause == Cause::request) {
    const std::lock_guard lock(by_mutex_);
    change.by = by_;
  }
  change.about["files"] = files_;
  change.before = std::move(before);
  change.after = std::move(after);
  changes_->add(std::move(change));
}

// Waits until no thread but this one holds rules of the old generation, then frees them.
void Reloader::go_live(Loaded loaded, uint64_t answered, Cause cause) {
  refused_for_.clear();
  files_ = std::move(loaded.files);
  interval_ = loaded.interval;
  tell(loaded.diagnostics);
  size_t more = 0;
  const auto fresh = std::make_shared<const std::vector<policy::FreshStart>>(
      policy::fresh_starts(*live_->rules, *loaded.rules, told_max, more));
  const auto old =
      std::exchange(live_, std::make_shared<const LivePolicy>(LivePolicy{
                               loaded.rules, *loaded.hash, live_->generation + 1, loaded.names,
                               loaded.users, kept_warnings(loaded.diagnostics), fresh}));
  live_told_ = first_of(std::move(loaded.diagnostics));
  publish_(live_);
  for (const policy::FreshStart& one : *fresh)
    log_->info("generation {}: {}", live_->generation, base::printable(policy::to_text(one)));
  if (more > 0)
    log_->info("generation {}: {} more begin fresh; `sluice check --against` tells all",
               live_->generation, more);
  log_change("policy reloaded", cause, terms_of(*old), terms_of(*live_));
  const auto begin = steady_clock::now();
  bool recorded = false;  // a caller that waits for it is not to wait for a stuck one
  for (bool told = false; old->rules.use_count() > 1;) {
    if (stopping_) return;
    std::this_thread::sleep_for(release_pause);
    if (told || since(begin) < release_told) continue;
    told = true;
    log_->warn("policy generation {} is still in use; no other is read before it is not",
               old->generation);
    record(Reading::Outcome::live, answered, live_told_);
    recorded = true;
  }
  if (!recorded) record(Reading::Outcome::live, answered, live_told_);
}

}  // namespace sluice::live
