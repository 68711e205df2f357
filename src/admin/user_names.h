// The names of the machine's users for the log of changes, where a client of a UNIX socket has made
// one. They come from a file in the form of /etc/passwd: `words` reads it for a user whom it does
// not remember, and again after the file has changed. getpwuid would load modules of the machine,
// which a static program must not. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace sluice::admin {

class UserNames {
 public:
  // Users that are remembered, with those whom the file does not have. Past it: all are forgotten.
  static constexpr size_t users_max = 256;

  explicit UserNames(std::string path = "/etc/passwd") : path_(std::move(path)) {}

  // "alice (1000)"; the number alone if the file does not have the user.
  std::string words(uid_t user);
  // How often the file was read.
  uint64_t reads() const;

 private:
  // What changes with the file: device, inode, size, seconds and nanoseconds.
  using State = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  std::string look_up(uid_t user);

  const std::string path_;
  mutable std::mutex mutex_;
  State state_{};
  std::map<uid_t, std::string> known_;
  uint64_t reads_ = 0;
};

}  // namespace sluice::admin
