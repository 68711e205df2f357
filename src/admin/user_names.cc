#include "admin/user_names.h"

#include <pwd.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <memory>

namespace sluice::admin {

std::string UserNames::words(uid_t user) {
  const std::lock_guard lock(mutex_);
  struct stat is {};
  State state{};
  if (::stat(path_.c_str(), &is) == 0)
    state = {is.st_dev, is.st_ino, is.st_size, is.st_mtim.tv_sec, is.st_mtim.tv_nsec};
  if (state != state_ || known_.size() >= users_max) known_.clear();
  state_ = state;
  const auto [at, fresh] = known_.try_emplace(user);
  if (fresh) at->second = look_up(user);
  return at->second;
}

uint64_t UserNames::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

std::string UserNames::look_up(uid_t user) {
  ++reads_;
  std::string number = std::to_string(user);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path_.c_str(), "re"), std::fclose);
  std::array<char, 4096> texts{};
  passwd entry{};
  passwd* found = nullptr;
  while (file && ::fgetpwent_r(file.get(), &entry, texts.data(), texts.size(), &found) == 0)
    if (found->pw_uid == user) return std::string(found->pw_name) + " (" + number + ")";
  return number;
}

}  // namespace sluice::admin
