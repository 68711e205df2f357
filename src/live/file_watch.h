// Tells when the files behind some paths may have changed: by writing, by a rename over them, or by
// a symbolic link on the way to them that points elsewhere (as Kubernetes swaps a ConfigMap). It
// watches the folders in which the names stand, links followed, by inotify. Owned by one thread.
// Network file systems tell of no change that another machine made.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::live {

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

}  // namespace sluice::live
