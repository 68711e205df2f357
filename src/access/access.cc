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

bool Access::check(std::string name, std::string password, std::function<void(bool)> done) {
  const bool is_known = users()->knows(name, password);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || (!is_known && checks_.size() >= checks_max)) return false;
    (is_known ? known_ : checks_)
        .push_back({std::move(name), std::move(password), std::move(done)});
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
    thread.swap(thread_);
  }
  changed_.notify_one();
  if (thread.joinable()) thread.join();
}

void Access::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !known_.empty() || !checks_.empty(); });
    if (stopping_) return;
    std::deque<Check>& queue = known_.empty() ? checks_ : known_;
    const Check next = std::move(queue.front());
    queue.pop_front();
    const std::shared_ptr<const Users> users = users_;
    lock.unlock();
    next.done(users->check(next.name, next.password));
    lock.lock();
  }
}

}  // namespace sluice::access
