#include "access/access.h"

#include <utility>

namespace sluice::access {

Access::Access(std::shared_ptr<const Users> users)
    : users_(users ? std::move(users) : std::make_shared<const Users>()) {}

Access::~Access() {
  stop();
}

std::shared_ptr<const Users> Access::users() const {
  const std::lock_guard lock(mutex_);
  return users_;
}

void Access::set(std::shared_ptr<const Users> users) {
  if (!users) users = std::make_shared<const Users>();
  {
    const std::lock_guard lock(mutex_);
    users_.swap(users);
  }
  version_.fetch_add(1, std::memory_order_release);
}

bool Access::check(std::string name, std::string password, std::string_view source,
                   std::function<void(bool)> done) {
  const bool is_known = users()->knows(name, password);
  Check check{std::move(name), std::move(password), std::move(done)};
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    if (is_known) {
      known_.push_back(std::move(check));
    } else {
      const auto at = checks_.find(source);
      if (check_count_ >= checks_max ||
          (at != checks_.end() && at->second.size() >= checks_of_source_max))
        return false;
      (at != checks_.end() ? at->second : checks_[std::string(source)]).push_back(std::move(check));
      ++check_count_;
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
  return true;
}

void Access::stop() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    known_.clear();
    checks_.clear();
    check_count_ = 0;
    thread.swap(thread_);
  }
  changed_.notify_one();
  if (thread.joinable()) thread.join();
}

// The next one, of sources by turns. There is one.
Access::Check Access::take() {
  if (!known_.empty()) {
    Check next = std::move(known_.front());
    known_.pop_front();
    return next;
  }
  auto source = checks_.upper_bound(last_source_);
  if (source == checks_.end()) source = checks_.begin();
  Check next = std::move(source->second.front());
  source->second.pop_front();
  --check_count_;
  last_source_ = source->first;
  if (source->second.empty()) checks_.erase(source);
  return next;
}

void Access::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !known_.empty() || check_count_ > 0; });
    if (stopping_) return;
    const Check next = take();
    const std::shared_ptr<const Users> users = users_;
    lock.unlock();
    next.done(users->check(next.name, next.password));
    lock.lock();
  }
}

}  // namespace sluice::access
