// A UNIX socket that is listened on at a path, for its owner alone (0600); it goes with this. Main
// thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::net {

class UnixListener {
 public:
  // Takes the place of a socket that stands there and that nothing listens on.
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

// Does anything listen at that path?
bool is_listened_on(const std::string& path);

}  // namespace sluice::net
