#include "server/lister.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/bounds.h"

namespace sluice::server {

namespace {

constexpr int niceness = 10;

}  // namespace

Lister::Lister(store::Store& store) : store_(store) {}

Lister::~Lister() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Lister::list(const limit::Space& space, std::string prefix, Answer answer) {
  return look(
      [&space, prefix = std::move(prefix), answer = std::move(answer)](store::Store& store) {
        answer(store.list(space, prefix, base::bounds::listed_max));
      });
}

bool Lister::look(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= base::bounds::lists_max) return false;
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  wanted_.notify_one();
  return true;
}

void Lister::run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job(store_);
    lock.lock();
  }
}

}  // namespace sluice::server
