// A UNIX socket that listens at a path, for the process's user only (0600). The destructor removes
// it. Main thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::net {

class UnixListener {
 public:
  // Replaces a socket at the path on which no process listens.
  static base::Result<std::unique_ptr<UnixListener>> open(const std::string& path);
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  int fd() const { return fd_; }  // it does not block

 private:
  UnixListener(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
};

// Does a process listen at that path?
bool is_listened_on(const std::string& path);

}  // namespace sluice::net
