// Reads the policy again when its files change or an operator asks, checks it, and hands a new
// generation on; a refused one changes nothing and is reported in the log. A thread of its own at
// low priority, so that neither reading rules nor freeing old ones holds up a worker. It reads no
// third generation before the first is freed. Made and stopped by the server; `request` may be
// called from any thread.
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "live/change_log.h"
#include "live/live_policy.h"

namespace sluice::live {

// Tells when the files behind some paths may have changed: by writing, by a rename over them, or by
// a symbolic link on the way to them that points elsewhere (as Kubernetes swaps a ConfigMap). It
// watches the folders in which the names stand, links followed, by inotify. Owned by one thread.
// Network file systems tell of no change that another machine made.

class FileWatch {
 public:
  FileWatch() = default;
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Before anything else; says why there will be no news.
  std::optional<std::string> open();
  // To poll for reading; -1: not open.
  int fd() const { return fd_; }

  // From now on these paths and no others, as they lead to files by now. A path that leads nowhere
  // is watched as far as it goes; one with a `/` at its end is a folder, and everything in it
  // counts. True: it is not what was watched already, so what happened to the files before this
  // call may have gone unnoticed. `problem`: what cannot be watched and why.
  bool watch(const std::vector<std::string>& paths, std::optional<std::string>& problem);

  // Takes what the kernel has to tell. True: something may have changed.
  bool read_news();
  // A process has changed a file in place and not closed it yet.
  bool is_being_written() const { return !written_.empty(); }
  void forget_writers() { written_.clear(); }

 private:
  using Names = std::set<std::string>;

  int fd_ = -1;
  std::map<int, Names> watched_;                   // by watch descriptor
  std::set<std::pair<int, std::string>> written_;  // changed and not closed
};

// Folder by folder the names that decide which files `paths` lead to: the last ones, and those of
// symbolic links on the way.
std::map<std::string, std::set<std::string>> names_on_the_way(
    const std::vector<std::string>& paths);

class Reloader {
 public:
  // Files count as changed once they are left alone that long, and after the next at the latest;
  // unless one is being written, which may take as long as the third.
  static constexpr std::chrono::milliseconds quiet{100}, changing_max{1000}, writing_max{5000};
  // A file that is not there is waited for that long before it is an error.
  static constexpr std::chrono::milliseconds missing_max{1000};

  // Puts a generation live, sooner or later, and sees to it that no thread keeps the one before.
  // Called on the reloader's thread.
  using Publish = std::function<void(std::shared_ptr<const LivePolicy>)>;

  // `live` is the policy that is live. `load`, `files`, `interval`, `told`: as in Policy.
  // changes: receives policies that go live or are refused; null: none does.
  Reloader(std::shared_ptr<const LivePolicy> live, std::function<Loaded(uint64_t)> load,
           std::vector<std::string> files, Publish publish, std::shared_ptr<spdlog::logger> log,
           std::chrono::milliseconds interval = {}, base::Diagnostics told = {},
           ChangeLog* changes = nullptr);
  ~Reloader();

  // Says what could not be had.
  std::optional<std::string> start();
  // Reads the policy again now, changed or not, and says what came of it; `tells` false: the caller
  // says by itself why it was refused. Returns the number that Reading::answered reaches. by: as
  // Change::by.
  uint64_t request(const std::string& by, bool tells = true);
  const ReloadHistory& history() const { return history_; }
  // Waits for a reading that is under way. False: it does not end in time, because the disk of a
  // file does not answer. The destructor waits for it.
  bool stop(std::chrono::milliseconds limit = stop_limit);
  static constexpr std::chrono::milliseconds stop_limit{5000};

 private:
  enum class Event { none, changed, asked, stop };
  enum class Cause { files, request };

  void run();
  void watch_first();
  Event await(std::optional<std::chrono::milliseconds> limit);
  Event debounce();
  void reload(Cause cause);
  Loaded load_patiently(Cause& cause);
  bool watch(const std::vector<std::string>& files);
  void tell(const base::Diagnostics& all);
  bool log_refused(const Loaded& loaded, Cause cause);
  void log_change(const char* what, Cause cause, wire::Json before, wire::Json after);
  void record(Reading::Outcome outcome, uint64_t answered, base::Diagnostics all);
  void go_live(Loaded loaded, uint64_t answered, Cause cause);
  void wake();

  std::shared_ptr<const LivePolicy> live_;
  const std::function<Loaded(uint64_t)> load_;
  std::vector<std::string> files_;  // of the live policy
  base::Diagnostics live_told_;     // the first that was reported of it, for callers that ask again
  const Publish publish_;
  const std::shared_ptr<spdlog::logger> log_;
  ChangeLog* const changes_;
  std::chrono::milliseconds interval_;
  FileWatch watch_;
  bool watching_ = false;
  bool look_again_ = false;               // something may have changed before it was watched
  std::vector<std::string> refused_for_;  // what was reported of the policy that lies there now
  int wake_fd_ = -1;
  std::atomic<uint64_t> requests_{0};
  std::mutex by_mutex_;
  std::string by_;            // who asked last
  bool asker_tells_ = false;  // and says what was refused
  std::atomic<bool> asked_{false}, stopping_{false};
  ReloadHistory history_;
  std::promise<void> ended_;  // of the thread
  const std::future<void> end_ = ended_.get_future();
  std::thread thread_;
};

// "2, hash 0123456789abcdef, 10,000 rules"
std::string to_text(const LivePolicy& policy);

}  // namespace sluice::live
