#include "engine/lister.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/bounds.h"

namespace sluice::engine {

namespace {

constexpr int niceness = 10;

}  // namespace

Lister::Lister(store::Store& store) : store_(store) {}

Lister::~Lister() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (pass_) pass_->stop();
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Lister::list(Owner owner, const request::Space& space, std::string prefix, Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = queues_.try_emplace(owner);
    if (is_new) at->second.turn = turns_.insert(turns_.end(), owner);
    at->second.lists.push_back({&space, std::move(prefix), std::move(answer)});
    start();
  }
  work_.notify_one();
}

void Lister::cancel(Owner owner) {
  // Their answers may hold the last of something, which is let go of without the lock.
  std::vector<Wanted> gone;
  const std::lock_guard lock(mutex_);
  if (const auto at = queues_.find(owner); at != queues_.end()) {
    for (Wanted& wanted : at->second.lists) gone.push_back(std::move(wanted));
    turns_.erase(at->second.turn);
    queues_.erase(at);
  }
  const auto [first, last] = taken_.equal_range(owner);
  for (auto at = first; at != last; ++at) {
    pass_->cancel(at->second.number);
    gone.push_back(std::move(at->second));
  }
  taken_.erase(first, last);
}

bool Lister::look(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= base::bounds::inquiries_max) return false;
    jobs_.push_back(std::move(job));
    start();
  }
  work_.notify_one();
  return true;
}

void Lister::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Lister::run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !jobs_.empty() || !turns_.empty(); });
    if (stopping_) return;
    if (!jobs_.empty() && (job_is_next_ || turns_.empty())) {
      job_is_next_ = false;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job(store_);
      lock.lock();
      continue;
    }
    job_is_next_ = true;
    begin_pass();
    lock.unlock();
    store_.list_all(*pass_);
    answer_pass();
    lock.lock();
  }
}

// Takes one list of each owner, and again, until there is no more or the pass has enough. With the
// lock.
void Lister::begin_pass() {
  pass_ = std::make_unique<store::ListPass>(store::ListPass::Bounds{
      .keys = base::bounds::listed_max, .bytes = base::bounds::listed_bytes_max});
  while (!turns_.empty() && pass_->size() < base::bounds::lists_per_pass_max) {
    const Owner owner = turns_.front();
    Queue& queue = queues_.at(owner);
    Wanted wanted = std::move(queue.lists.front());
    queue.lists.pop_front();
    wanted.number = pass_->add(*wanted.space, wanted.prefix);
    taken_.emplace(owner, std::move(wanted));
    if (queue.lists.empty()) {
      turns_.erase(queue.turn);
      queues_.erase(owner);
    } else {
      turns_.splice(turns_.end(), turns_, queue.turn);
    }
  }
}

// Without the lock: who is answered may ask again.
void Lister::answer_pass() {
  std::unique_ptr<store::ListPass> pass;
  std::unordered_multimap<Owner, Wanted> taken;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    pass = std::move(pass_);
    taken = std::exchange(taken_, {});
  }
  std::vector<Found> found(pass->size());
  for (size_t i = 0; i < found.size(); ++i)
    found[i] = {std::make_shared<const std::vector<std::string>>(pass->take(i)), pass->failed(i)};
  for (auto& [owner, wanted] : taken) wanted.answer(found[wanted.number]);
}

}  // namespace sluice::engine
